"""Validation of file-based catalogs."""
