"""Catalog server: the gRPC service ``api.Registry`` for an index, with health checks and reflection."""

from opmkit.server.serve import serve_database
from opmkit.server.settings import ServerError, ServerSettings, TlsFiles, default_processes

__all__ = ["ServerError", "ServerSettings", "TlsFiles", "default_processes", "serve_database"]
