"""The room `read`."""
