"""Container images, registries and image stores, independent of OLM."""
