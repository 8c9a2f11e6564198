"""A Kubernetes cluster of real components, with the real OLM, whose nodes are simulated."""
