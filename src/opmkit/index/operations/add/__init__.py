"""Add bundles to an index."""
