"""YAML and JSON documents as Kubernetes reads them: decode, locate, edit and write."""

MAX_BYTES = 16 * 1024 * 1024
"""Maximum size of a file; clusters accept objects of up to 1.5 MiB."""
