"""Catalogs of bundles: the sqlite index, the update graph and index images."""
