"""ClusterCatalog and ClusterExtension manifests for OLM v1."""
