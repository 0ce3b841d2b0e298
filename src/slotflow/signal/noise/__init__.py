"""Noise models: what is known of the noise and what is integrated out, one file each."""
