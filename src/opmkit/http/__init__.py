"""HTTP client: connections that limit time and size, TLS and proxies."""
