"""The room `show`."""
