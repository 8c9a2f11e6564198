"""Errors of the catalog server."""

from opmkit.index.errors import CatalogError


class ServerError(CatalogError):
    """A server that cannot start or continue: its port is in use, its certificate invalid, or a worker has ended."""


class QueryFailed(CatalogError):
    """A query that has no response; the client receives the message with the status code UNKNOWN."""


class InvalidQuery(QueryFailed):
    """A query with an invalid argument; the client receives the message with the status code INVALID_ARGUMENT."""
