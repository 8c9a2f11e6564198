"""Server reflection, which clients such as grpcurl use to discover services and messages.

Both versions of the protocol have the same messages; newer clients try v1 first.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

from opmkit.server.rpc import MethodHandler, RpcError, StatusCode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from grpc_reflection.v1alpha.reflection import ReflectionServicer

V1ALPHA, V1 = "grpc.reflection.v1alpha", "grpc.reflection.v1"
_METHOD = "ServerReflection/ServerReflectionInfo"


def reflection_handlers(services: Sequence[str]) -> dict[str, MethodHandler]:
    """Return the handlers of both versions by path, which describe ``services`` and reflection itself."""
    names = [*services, *(f"{package}.ServerReflection" for package in (V1ALPHA, V1))]
    servicer = cache(partial(_create_servicer, names))

    def handle(request: bytes) -> Callable[[], list[bytes]]:
        return lambda: _reflect(servicer(), request)

    return {f"/{package}.{_METHOD}": MethodHandler(handle, client_streaming=True) for package in (V1ALPHA, V1)}


def _reflect(servicer: ReflectionServicer, request: bytes) -> list[bytes]:
    from google.protobuf.message import DecodeError
    from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest

    try:
        parsed = ServerReflectionRequest.FromString(request)
    except DecodeError as error:
        raise RpcError(StatusCode.INTERNAL, "grpc: error unmarshalling request") from error
    responses = servicer.ServerReflectionInfo(iter([parsed]), None)  # type: ignore[arg-type]
    return [response.SerializeToString() for response in responses]


def _create_servicer(services: list[str]) -> ReflectionServicer:
    """Create the servicer, which takes long enough to wait for the first request."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool
    from grpc_health.v1 import health_pb2
    from grpc_reflection.v1alpha import reflection_pb2
    from grpc_reflection.v1alpha.reflection import ReflectionServicer

    from opmkit.index.grpc_api import file_descriptor, struct_file

    pool = DescriptorPool()
    alpha = FileDescriptorProto.FromString(reflection_pb2.DESCRIPTOR.serialized_pb)
    health = FileDescriptorProto.FromString(health_pb2.DESCRIPTOR.serialized_pb)
    for file in (struct_file(), file_descriptor(), health, alpha, _v1_file(alpha)):
        pool.Add(file)
    return ReflectionServicer(services, pool)


def _v1_file(alpha: FileDescriptorProto) -> FileDescriptorProto:
    """Return the descriptor of v1, which differs from v1alpha only in the package."""
    file = type(alpha)()
    file.CopyFrom(alpha)
    file.ClearField("options")
    file.name, file.package = "grpc/reflection/v1/reflection.proto", V1
    for message in file.message_type:
        for field in filter(lambda field: field.type_name, message.field):
            field.type_name = field.type_name.replace(V1ALPHA, V1)
    for method in file.service[0].method:
        method.input_type = method.input_type.replace(V1ALPHA, V1)
        method.output_type = method.output_type.replace(V1ALPHA, V1)
    return file
