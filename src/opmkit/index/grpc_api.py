"""Messages and methods of the gRPC services ``api.Registry`` and ``api.ExperimentalRegistry``."""

from __future__ import annotations

import re
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from google.protobuf import struct_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping


PACKAGE = "api"
SERVICE = f"{PACKAGE}.Registry"
EXPERIMENTAL_SERVICE = f"{PACKAGE}.ExperimentalRegistry"
STRUCT = "google.protobuf.Struct"
"""The full name of the message for any JSON object."""
ACKNOWLEDGEMENT = ("x-acknowledge-experimental", "true")
"""The metadata without which calls of experimental methods have an empty response."""


class Method(Struct, frozen=True):
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
FILE = "registry.proto"

_MESSAGES: Mapping[str, str] = {
    "Channel": "name csvName deprecation:Deprecation",
    "PackageName": "name",
    "Package": "name channels:Channel* defaultChannelName deprecation:Deprecation",
    "GroupVersionKind": "group version kind plural",
    "Dependency": "type value",
    "Property": "type value",
    "Deprecation": "message",
    "Bundle": (
        "csvName packageName channelName csvJson object* bundlePath providedApis:GroupVersionKind*"
        " requiredApis:GroupVersionKind* version skipRange dependencies:Dependency* properties:Property*"
        " replaces skips* deprecation:Deprecation"
    ),
    "ChannelEntry": "packageName channelName bundleName replaces",
    "ListPackageRequest": "",
    "ListBundlesRequest": "",
    "GetPackageRequest": "name",
    "GetBundleRequest": "pkgName channelName csvName",
    "GetBundleInChannelRequest": "pkgName channelName",
    "GetAllReplacementsRequest": "csvName",
    "GetReplacementRequest": "csvName pkgName channelName",
    "GetAllProvidersRequest": "group version kind plural",
    "GetLatestProvidersRequest": "group version kind plural",
    "GetDefaultProviderRequest": "group version kind plural",
    "ExperimentalListPackageCustomSchemasRequest": "schema packageName",
}
"""The fields of each message: ``name`` is a string, ``name:Message`` another message, ``*`` means repeated."""


def file_descriptor() -> FileDescriptorProto:
    """Return the descriptor of the protocol file with the services, for server reflection."""
    file = FileDescriptorProto(name=FILE, package=PACKAGE, syntax="proto3", dependency=[struct_file().name])
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, field in enumerate(fields.split(), start=1):
            _add_field(message, field, number)
    for name, methods in ((SERVICE, METHODS), (EXPERIMENTAL_SERVICE, EXPERIMENTAL_METHODS)):
        service = file.service.add(name=name.rpartition(".")[2])
        for method in methods.values():
            descriptor = service.method.add(
                name=method.name,
                input_type=f".{_full_name(method.request)}",
                output_type=f".{_full_name(method.response)}",
                server_streaming=method.streams,
            )
            if method.deprecated:
                descriptor.options.deprecated = True
    return file


def struct_file() -> FileDescriptorProto:
    """Return the descriptor of the protocol file of Struct, which that with the services imports."""
    file: FileDescriptorProto = FileDescriptorProto.FromString(struct_pb2.DESCRIPTOR.serialized_pb)
    return file


def _full_name(message: str) -> str:
    return message if "." in message else f"{PACKAGE}.{message}"


def _add_field(message: DescriptorProto, field: str, number: int) -> None:
    name, _, type_name = field.rstrip("*").partition(":")
    label = FieldDescriptorProto.LABEL_REPEATED if field.endswith("*") else FieldDescriptorProto.LABEL_OPTIONAL
    descriptor = message.field.add(name=name, json_name=name, number=number, label=label)
    if type_name:
        descriptor.type, descriptor.type_name = FieldDescriptorProto.TYPE_MESSAGE, f".{PACKAGE}.{type_name}"
    else:
        descriptor.type = FieldDescriptorProto.TYPE_STRING


def _new_pool() -> DescriptorPool:
    pool = DescriptorPool()
    pool.Add(struct_file())
    pool.Add(file_descriptor())
    return pool


_POOL = _new_pool()
"""The descriptors of the services, separate from those of other libraries in the process."""


@cache
def message_class(name: str) -> type[Any]:
    """Return the class of a message of the services, such as ``Bundle``, or of another package by its full name."""
    return GetMessageClass(_POOL.FindMessageTypeByName(_full_name(name)))


def request_class(method: str) -> type[Any]:
    """Return the class of the requests of a method, such as ``GetPackage``."""
    return message_class(ALL_METHODS[method].request)


def response_class(method: str) -> type[Any]:
    """Return the class of the response messages of a method."""
    return message_class(ALL_METHODS[method].response)


_REQUEST_CLASSES = {name: request_class(name) for name in ALL_METHODS}


def parse_request(method: str, data: bytes) -> Any:
    """Parse the request of a call to ``method``; raises ValueError for bytes that are not a valid message."""
    try:
        return _REQUEST_CLASSES[method].FromString(data)
    except DecodeError as error:
        raise ValueError(str(error)) from error
