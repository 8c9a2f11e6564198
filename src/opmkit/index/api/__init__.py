"""The gRPC service ``api.Registry``, as operator-registry defines it: its methods and its messages."""
