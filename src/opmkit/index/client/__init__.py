"""A typed client of the service ``api.Registry``, by which running catalogs are read.

``Registry.connect("localhost:50051")`` is where to begin.
"""

from opmkit.index.client.address import parse_address
from opmkit.index.client.errors import CallFailed, CallTimedOut, InvalidAddress, ServerUnreachable
from opmkit.index.client.registry import Registry
from opmkit.index.client.stream import Stream
from opmkit.index.client.values import Api, Bundle, Channel, ChannelEntry, Dependency, Deprecation, Package, Property

__all__ = [
    "Api",
    "Bundle",
    "CallFailed",
    "CallTimedOut",
    "Channel",
    "ChannelEntry",
    "Dependency",
    "Deprecation",
    "InvalidAddress",
    "Package",
    "Property",
    "Registry",
    "ServerUnreachable",
    "Stream",
    "parse_address",
]
