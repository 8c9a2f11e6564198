"""The methods of the services ``api.Registry`` and ``api.ExperimentalRegistry``.

This module does not import protobuf, which takes longer to load than the server takes to start listening.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

PACKAGE = "api"
SERVICE = f"{PACKAGE}.Registry"
EXPERIMENTAL_SERVICE = f"{PACKAGE}.ExperimentalRegistry"
STRUCT = "google.protobuf.Struct"
"""The full name of the message for any JSON object."""
ACKNOWLEDGEMENT = ("x-acknowledge-experimental", "true")
"""The metadata without which calls of experimental methods have an empty response."""


@dataclass(frozen=True, slots=True)
class Method:
    """A method of a service, with the names of its request and response messages.

    ``arguments`` are the fields of the request that select the response. ``streams`` is whether the response is a
    stream of messages. A name with a dot is the full name of a message of another package.
    """

    name: str
    request: str
    response: str
    arguments: tuple[str, ...] = ()
    streams: bool = False
    deprecated: bool = False
    service: str = SERVICE

    @property
    def is_experimental(self) -> bool:
        """Whether clients must acknowledge that the method may change."""
        return self.service == EXPERIMENTAL_SERVICE

    @property
    def path(self) -> str:
        """The HTTP path of its calls, such as ``/api.Registry/GetPackage``."""
        return f"/{self.service}/{self.name}"

    @property
    def python_name(self) -> str:
        """The name of the method in Python, such as ``get_package``."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", self.name).lower()


_API = ("group", "version", "kind")
_METHODS = (
    Method("ListPackages", "ListPackageRequest", "PackageName", streams=True),
    Method("GetPackage", "GetPackageRequest", "Package", ("name",)),
    Method("GetBundle", "GetBundleRequest", "Bundle", ("pkgName", "channelName", "csvName")),
    Method("GetBundleForChannel", "GetBundleInChannelRequest", "Bundle", ("pkgName", "channelName"), deprecated=True),
    Method("GetChannelEntriesThatReplace", "GetAllReplacementsRequest", "ChannelEntry", ("csvName",), streams=True),
    Method("GetBundleThatReplaces", "GetReplacementRequest", "Bundle", ("csvName", "pkgName", "channelName")),
    Method("GetChannelEntriesThatProvide", "GetAllProvidersRequest", "ChannelEntry", _API, streams=True),
    Method("GetLatestChannelEntriesThatProvide", "GetLatestProvidersRequest", "ChannelEntry", _API, streams=True),
    Method("GetDefaultBundleThatProvides", "GetDefaultProviderRequest", "Bundle", _API),
    Method("ListBundles", "ListBundlesRequest", "Bundle", streams=True),
)

METHODS: Mapping[str, Method] = MappingProxyType({method.name: method for method in _METHODS})
"""The methods of ``api.Registry`` by name, in the order of the service's protocol file."""

CUSTOM_SCHEMAS = "ExperimentalListPackageCustomSchemas"
EXPERIMENTAL_METHODS: Mapping[str, Method] = MappingProxyType(
    {
        CUSTOM_SCHEMAS: Method(
            CUSTOM_SCHEMAS,
            f"{CUSTOM_SCHEMAS}Request",
            STRUCT,
            ("schema", "packageName"),
            streams=True,
            service=EXPERIMENTAL_SERVICE,
        )
    }
)
"""The methods of ``api.ExperimentalRegistry``, which only servers of file-based catalogs have."""
ALL_METHODS: Mapping[str, Method] = MappingProxyType({**METHODS, **EXPERIMENTAL_METHODS})
