"""The messages and methods of the gRPC service ``api.Registry``, by which a cluster reads a catalog.

The classes are made from the description below when the module is imported, so there is no generated code to keep in
step. Names, numbers and types are those of the service's published protocol file; field numbers follow the order in
which the fields are named here, unless a number is given.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

if TYPE_CHECKING:
    from collections.abc import Mapping

PACKAGE = "api"
FILE = "registry.proto"
SERVICE = f"{PACKAGE}.Registry"

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
}
"""Each message with its fields: ``name`` is text, ``name:Message`` another message, ``*`` means repeated."""

_METHODS: Mapping[str, tuple[str, str, bool]] = {
    "ListPackages": ("ListPackageRequest", "PackageName", True),
    "GetPackage": ("GetPackageRequest", "Package", False),
    "GetBundle": ("GetBundleRequest", "Bundle", False),
    "GetBundleForChannel": ("GetBundleInChannelRequest", "Bundle", False),
    "GetChannelEntriesThatReplace": ("GetAllReplacementsRequest", "ChannelEntry", True),
    "GetBundleThatReplaces": ("GetReplacementRequest", "Bundle", False),
    "GetChannelEntriesThatProvide": ("GetAllProvidersRequest", "ChannelEntry", True),
    "GetLatestChannelEntriesThatProvide": ("GetLatestProvidersRequest", "ChannelEntry", True),
    "GetDefaultBundleThatProvides": ("GetDefaultProviderRequest", "Bundle", False),
    "ListBundles": ("ListBundlesRequest", "Bundle", True),
}
"""Each method with its request, its answer, and whether that is a stream."""

_DEPRECATED = frozenset({"GetBundleForChannel"})


@dataclass(frozen=True, slots=True)
class Method:
    """A method of the service: the classes of its request and answer, and whether it answers with a stream."""

    name: str
    request: type[Any]
    answer: type[Any]
    streams: bool

    @property
    def path(self) -> str:
        """The path of its calls, such as ``/api.Registry/GetPackage``."""
        return f"/{SERVICE}/{self.name}"


def describe() -> FileDescriptorProto:
    """The service as a protocol file, which server reflection hands to clients."""
    file = FileDescriptorProto(name=FILE, package=PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, field in enumerate(fields.split(), start=1):
            _add_field(message, field, number)
    service = file.service.add(name=SERVICE.rpartition(".")[2])
    for name, (request, answer, streams) in _METHODS.items():
        method = service.method.add(
            name=name, input_type=f".{PACKAGE}.{request}", output_type=f".{PACKAGE}.{answer}", server_streaming=streams
        )
        if name in _DEPRECATED:
            method.options.deprecated = True
    return file


def _add_field(message: DescriptorProto, field: str, number: int) -> None:
    name, _, kind = field.rstrip("*").partition(":")
    label = FieldDescriptorProto.LABEL_REPEATED if field.endswith("*") else FieldDescriptorProto.LABEL_OPTIONAL
    added = message.field.add(name=name, json_name=name, number=number, label=label)
    if kind:
        added.type, added.type_name = FieldDescriptorProto.TYPE_MESSAGE, f".{PACKAGE}.{kind}"
    else:
        added.type = FieldDescriptorProto.TYPE_STRING


def _pool() -> DescriptorPool:
    pool = DescriptorPool()
    pool.Add(describe())
    return pool


POOL = _pool()
"""The descriptors of the service, apart from those of other libraries in the process."""


def message_class(name: str) -> type[Any]:
    """The class of a message of the service, by its name, such as ``Bundle``."""
    return GetMessageClass(POOL.FindMessageTypeByName(f"{PACKAGE}.{name}"))


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        name: Method(name, message_class(request), message_class(answer), streams)
        for name, (request, answer, streams) in _METHODS.items()
    }
)
"""The methods of the service by their names."""
