"""YAML and JSON documents as Kubernetes reads them: decode, locate, edit and write."""
