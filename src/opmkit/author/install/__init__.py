"""Releases of OLM: install them in a cluster, check and remove them."""
