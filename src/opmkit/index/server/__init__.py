"""The catalog server: the gRPC service ``api.Registry`` over an index, with health checking and reflection."""

from opmkit.index.server.errors import ServerError
from opmkit.index.server.serve import serve_database
from opmkit.index.server.settings import ServerSettings, TlsFiles, usual_processes

__all__ = ["ServerError", "ServerSettings", "TlsFiles", "serve_database", "usual_processes"]
