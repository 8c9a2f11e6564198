"""Catalog templates: short documents from which file-based catalogs are rendered."""
