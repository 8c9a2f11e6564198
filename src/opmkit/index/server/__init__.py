"""The catalog server: the gRPC service ``api.Registry`` over an index, with health checking and reflection."""

from opmkit.index.server.errors import ServerError
from opmkit.index.server.serve import serve_database
from opmkit.index.server.settings import ServerSettings, TlsFiles, default_processes

__all__ = ["ServerError", "ServerSettings", "TlsFiles", "default_processes", "serve_database"]
