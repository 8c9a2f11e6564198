"""Typed client of the gRPC service ``api.Registry``, through which OLM reads running catalogs.

Start with ``CatalogClient.connect("localhost:50051")``.
"""

from opmkit.client.catalog_client import CatalogClient, Stream
from opmkit.client.errors import CallFailed, CallTimedOut, ServerUnreachable
from opmkit.client.values import Api, Bundle, Channel, ChannelEntry, Dependency, Deprecation, Package, Property
from opmkit.index.address import InvalidAddress, parse_address

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
