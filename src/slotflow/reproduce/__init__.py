"""The room `reproduce`."""
