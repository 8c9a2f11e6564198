"""The server's side of HTTP/2, as far as gRPC needs it (RFC 9113; header compression is a library's)."""
