"""Evidence for every kind of noise and sampling, beside a likelihood that is written out and nested sampling.

    python benchmarks/evidence_general.py --size 5 --jobs 15 --out docs/data/evidence-general.json

Each part is a noise (white, errors per sample, local, AR, power law, given density) and a sampling (even, with gaps,
uneven, complex), five signals of 64 samples with one or two tones each. ln Z_K − ln Z_0 of the exact step stands beside
that of a dense one (`studies/proof/noise_cases.py`) by three runs of a nested sampler (`studies/proof/nested.py`),
whose scatter is the error of their mean; three runs tell it roughly, `--runs 12` better.
Combinations that the package refuses are listed with the reason.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.integrate import quad

from slotflow.exact.search import across_orders
from slotflow.signal.likelihood.observed import likelihood_of
from slotflow.signal.noise.choice import choose_noise
from slotflow.studies.measures.parameters import SIZE
from slotflow.studies.proof.command import parse, pulls, records_of, write_json
from slotflow.studies.proof.nested import NestedSampling, repeated_evidence
from slotflow.studies.proof.noise_cases import NOISES, SAMPLINGS, Written, draw_case
from slotflow.studies.tasks import Record, Worker

PARTS = [f"{noise}-{sampling}" for noise in NOISES for sampling in SAMPLINGS]
DRAWS, MAX_SECONDS = 4000, 60.0
NESTED = NestedSampling(live=800, leaving=80)
SETTINGS = {
    "draws": DRAWS,
    "max_seconds": MAX_SECONDS,
    "nested": dataclasses.asdict(NESTED),
}


@dataclass(frozen=True)
class Signals:
    """A process's worker, made in it."""

    seed: int
    runs: int

    def __call__(self) -> Worker:
        def answer(part: str, index: int) -> Record:
            noise, sampling = part.split("-")
            rng = np.random.default_rng([self.seed, PARTS.index(part), index])
            case = draw_case(noise, sampling, 1 + index % 2, rng)
            band, k = case.prior.frequency, case.k
            try:
                model = choose_noise(case.observation, case.stated, band)
                likelihood = likelihood_of(case.observation, model, band)
            except ValueError as refusal:
                return {"i": index, "refused": str(refusal)}
            start = time.process_time()
            ours = across_orders(
                likelihood, case.prior, draws=DRAWS, rng=rng, max_seconds=MAX_SECONDS
            )
            seconds = time.process_time() - start
            written = Written(case.observation, model, band)
            seeds = range(self.runs * index, self.runs * (index + 1))
            value, error = repeated_evidence(written, case.prior, k, seeds, NESTED)
            return {
                "i": index,
                "k": k,
                "nodes": len(model.nodes),
                "ours": float(ours.log_evidence[k] - ours.log_evidence[0]),
                "ours_error": float(ours.log_evidence_error[k]),
                "reference": value - evidence_of_nothing(written, case.prior.sigma),
                "reference_error": error,
                "method": ours.methods.get(k, ""),
                "seconds": seconds,
            }

        return answer


def evidence_of_nothing(written: Written, bounds: tuple[float, float]) -> float:
    """Logarithm of Z_0 by quadrature over the noise level, which is uniform between bounds."""
    levels = np.linspace(*bounds, 4001)
    values = written(np.zeros((len(levels), 0, SIZE)), levels)
    top, peak = float(values.max()), float(levels[values.argmax()])

    def density(sigma: float) -> float:
        value = written(np.zeros((1, 0, SIZE)), np.array([sigma]))[0]
        return float(np.exp(value - top))

    mass = quad(density, *bounds, points=[peak], limit=200)[0]
    return top + float(np.log(mass / (bounds[1] - bounds[0])))


def summary(records: list[Record]) -> dict[str, Any]:
    """Differences of one combination in units of their standard errors."""
    if "refused" in records[0]:
        return {"refused": records[0]["refused"]}
    return pulls(records) | {
        "log_bayes_factors": [round(r["ours"], 2) for r in records],
        "nodes": [r["nodes"] for r in records],
        "mean_seconds": round(float(np.mean([r["seconds"] for r in records])), 3),
    }


def own_flags(parser: argparse.ArgumentParser) -> None:
    """The flags that only this script has."""
    parser.add_argument("--runs", type=int, default=3, help="of the nested sampler on each signal")


def main() -> None:
    """Compares the evidences of all combinations."""
    options = parse(__doc__, PARTS, 5, own_flags)
    settings = {**SETTINGS, "nested_runs": options.flags.runs}
    records = records_of(options, Signals(options.seed, options.flags.runs), settings)
    results = {part: summary(found) for part, found in records.items()}
    done = [one for one in results.values() if "within" in one]
    away = np.concatenate([np.zeros(0), *(one["pulls"] for one in done)])
    results["all"] = {
        "combinations": len(done),
        "signals": len(away),
        "within": int(sum(one["within"] for one in done)),
        "rms_pull": round(float(np.sqrt(np.mean(away**2))), 3) if len(away) else None,
    }
    write_json(options, settings, results)


if __name__ == "__main__":
    main()
