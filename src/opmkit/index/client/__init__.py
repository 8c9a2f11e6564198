"""Typed client of the gRPC service ``api.Registry``, through which OLM reads running catalogs.

Start with ``CatalogClient.connect("localhost:50051")``.
"""

from opmkit.index.client.address import parse_address
from opmkit.index.client.catalog_client import CatalogClient
from opmkit.index.client.errors import CallFailed, CallTimedOut, InvalidAddress, ServerUnreachable
from opmkit.index.client.stream import Stream
from opmkit.index.client.values import Api, Bundle, Channel, ChannelEntry, Dependency, Deprecation, Package, Property

__all__ = [
    "Api",
    "Bundle",
    "CallFailed",
    "CallTimedOut",
    "CatalogClient",
    "Channel",
    "ChannelEntry",
    "Dependency",
    "Deprecation",
    "InvalidAddress",
    "Package",
    "Property",
    "ServerUnreachable",
    "Stream",
    "parse_address",
]
