"""The web API of OLM v1's catalogd over HTTP/1.1: the documents of a catalog as JSON lines."""
