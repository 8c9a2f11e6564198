"""Replacement of image tags by digests in catalogs."""
