"""The room `formats`."""
