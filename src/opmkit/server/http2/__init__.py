"""Server side of HTTP/2, as far as gRPC requires it."""
