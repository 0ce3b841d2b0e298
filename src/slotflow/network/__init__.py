"""The room `network`."""
