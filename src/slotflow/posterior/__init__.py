"""The room `posterior`."""
