"""The room `bands`."""
