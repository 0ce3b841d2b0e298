"""The room `paper`."""
