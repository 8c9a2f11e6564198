"""Catalogs: their model, the rules they keep, and reading them."""
