"""The errors of the catalog server."""

from opmkit.index.errors import CatalogError


class ServerError(CatalogError):
    """A server that can't start, or can't go on: its port is taken, its certificate is broken, a process has died."""


class QueryFailed(CatalogError):
    """A call that can't be answered; its caller gets the message as it is, with the status UNKNOWN."""
