"""Load package manifests, the format that preceded bundle images, into an index database."""
