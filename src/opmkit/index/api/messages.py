"""The messages of the service ``api.Registry``.

The classes are created from the description below when the module is imported, so there is no generated code. Names,
numbers and types are those of operator-registry's ``registry.proto``; fields are numbered in the order of the list.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from opmkit.index.api.methods import METHODS, PACKAGE, SERVICE

if TYPE_CHECKING:
    from collections.abc import Mapping

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
}
"""The fields of each message: ``name`` is a string, ``name:Message`` another message, ``*`` means repeated."""


def file_descriptor() -> FileDescriptorProto:
    """Return the descriptor of the protocol file with the service, for server reflection."""
    file = FileDescriptorProto(name=FILE, package=PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, field in enumerate(fields.split(), start=1):
            _add_field(message, field, number)
    service = file.service.add(name=SERVICE.rpartition(".")[2])
    for method in METHODS.values():
        descriptor = service.method.add(
            name=method.name,
            input_type=f".{PACKAGE}.{method.request}",
            output_type=f".{PACKAGE}.{method.response}",
            server_streaming=method.streams,
        )
        if method.deprecated:
            descriptor.options.deprecated = True
    return file


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
    pool.Add(file_descriptor())
    return pool


_POOL = _new_pool()
"""The descriptors of the service, separate from those of other libraries in the process."""


@cache
def message_class(name: str) -> type[Any]:
    """Return the class of a message of the service, such as ``Bundle``."""
    return GetMessageClass(_POOL.FindMessageTypeByName(f"{PACKAGE}.{name}"))


def request_class(method: str) -> type[Any]:
    """Return the class of the requests of a method, such as ``GetPackage``."""
    return message_class(METHODS[method].request)


def response_class(method: str) -> type[Any]:
    """Return the class of the response messages of a method."""
    return message_class(METHODS[method].response)


_REQUEST_CLASSES = {name: request_class(name) for name in METHODS}


def parse_request(method: str, data: bytes) -> Any:
    """Parse the request of a call to ``method``; raises ValueError for bytes that are not a valid message."""
    try:
        return _REQUEST_CLASSES[method].FromString(data)
    except DecodeError as error:
        raise ValueError(str(error)) from error
