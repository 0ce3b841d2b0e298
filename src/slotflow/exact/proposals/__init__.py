"""The room `proposals`."""
