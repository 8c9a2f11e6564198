"""CatalogSource, OperatorGroup and Subscription manifests for an index."""
