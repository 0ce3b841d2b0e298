"""The room `data`."""
