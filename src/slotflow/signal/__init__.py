"""What is assumed of signals and noise, and what the data say of it.

- `waveforms/`: what one component looks like; `noise/`: what is known of the noise, and what is integrated out.
- `prior`, `prior_batch`, `prior_draws`: p(K, Θ, σ) of one signal and of a batch, drawn and evaluated; `mixture`,
  `prior_file`: priors that training draws, and priors in files.
- `model`: the one sum of components over sampling instants; `simulation`, `simulation_file`: signals with their truth;
  `simulation_like`: the same as given channels would show them, of every kind.
- `likelihood/`: Gram matrices and matched filters, batched over signals: all that later rooms ask of data.
- `systems`, `gauss_newton`, `fit`, `joint`: the one damped Gauss–Newton, to a maximum or for a few steps.
- `evidence`: Laplace's estimate at a maximum; `bounds`: the joint Cramér–Rao bound.
"""
