"""Decoding of values into the fields of Kubernetes and OLM API types."""
