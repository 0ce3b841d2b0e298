"""The room `evaluate`."""
