"""Shared parts of the tests: servers, registries, container engines, sample content and recorded results."""
