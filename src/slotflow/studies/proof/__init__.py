"""Simulated proofs for data as people have them: line spectra, red noise, evidences, times.

- `command`: what the scripts in `benchmarks/` have in common: flags, processes, records that a later run goes on from;
- `line_spectra`: complex line spectra under the protocol of DeepFreq, and its distance between sets of frequencies;
- `subspace`: what people use for line spectra instead, MUSIC and ESPRIT with an order by minimum description length;
- `red_noise`: bands of tones in red noise, and what is kept of an answer;
- `nested`: ln Z by nested sampling of a likelihood that is written out, with nothing of the exact step in it;
- `noise_cases`: small signals of every kind of noise and sampling, for the comparison of evidences.
"""
