"""Catalog server: the gRPC service ``api.Registry`` for an index, with health checks and reflection."""

from opmkit.index.server.errors import ServerError
from opmkit.index.server.serve import serve_database
from opmkit.index.server.settings import ServerSettings, TlsFiles, default_processes

__all__ = ["ServerError", "ServerSettings", "TlsFiles", "default_processes", "serve_database"]
