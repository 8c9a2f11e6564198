"""Kubernetes and OLM API types: field tables and decoding."""
