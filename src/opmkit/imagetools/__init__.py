"""Container images, registries and image stores. Knows nothing of operators."""
