"""The messages of the services ``api.Registry`` and ``api.ExperimentalRegistry``.

The classes are created from the description below when the module is imported, so there is no generated code. Names,
numbers and types are those of operator-registry's ``registry.proto``; fields are numbered in the order of the list.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from google.protobuf import struct_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from opmkit.index.api.methods import ALL_METHODS, EXPERIMENTAL_METHODS, EXPERIMENTAL_SERVICE, METHODS, PACKAGE, SERVICE

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
