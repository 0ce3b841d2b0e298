"""The room `zoom`."""
