"""The room `signal`."""
