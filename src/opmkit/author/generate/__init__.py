"""Generation of bundles from the Kubernetes manifests that install an operator, as operator-sdk does."""
