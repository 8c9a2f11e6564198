"""Catalog templates: short documents that whole file-based catalogs are rendered from."""
