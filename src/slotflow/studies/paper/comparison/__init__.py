"""Section 5.1.5: the network, the exact step and reversible-jump MCMC on three tones."""
