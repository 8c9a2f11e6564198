"""Rendering of ``registry+v1`` bundles to the objects that OLM v1 applies."""
