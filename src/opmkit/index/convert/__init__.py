"""Conversion of index databases to file-based catalogs."""
