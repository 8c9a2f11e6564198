"""Typed client of the gRPC service ``api.Registry``, through which OLM reads running catalogs.

Start with ``CatalogClient.connect("localhost:50051")``.
"""

from opmkit.client.catalog_client import CatalogClient, Stream
from opmkit.client.errors import CallFailed, CallTimedOut, ServerUnreachable
from opmkit.client.values import (
    Api,
    BundleUpdates,
    Dependency,
    Property,
    ProvidedApi,
    RemoteBundle,
    RemoteChannel,
    RemoteDeprecation,
    RemoteEntry,
    RemotePackage,
)
from opmkit.index.address import InvalidAddress, parse_address

__all__ = [
    "Api",
    "BundleUpdates",
    "CallFailed",
    "CallTimedOut",
    "CatalogClient",
    "Dependency",
    "InvalidAddress",
    "Property",
    "ProvidedApi",
    "RemoteBundle",
    "RemoteChannel",
    "RemoteDeprecation",
    "RemoteEntry",
    "RemotePackage",
    "ServerUnreachable",
    "Stream",
    "parse_address",
]
