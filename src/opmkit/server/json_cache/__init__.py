"""The cache of a served file-based catalog, in the format ``json`` of operator-registry."""
