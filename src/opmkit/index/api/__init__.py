"""The gRPC services of catalogs, as operator-registry defines them: their methods and messages."""
