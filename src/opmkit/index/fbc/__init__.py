"""File-based catalogs: model, reading, writing, checks, templates."""
