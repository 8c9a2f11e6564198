"""Server reflection, by which clients such as grpcurl learn what a server offers.

Both versions of the service have the same messages; newer clients ask for v1 first.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

from opmkit.index.server.grpc_calls import CallFailed, Method, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from grpc_reflection.v1alpha.reflection import ReflectionServicer

ALPHA, STABLE = "grpc.reflection.v1alpha", "grpc.reflection.v1"
_METHOD = "ServerReflection/ServerReflectionInfo"


def methods(services: Sequence[str]) -> dict[str, Method]:
    """The method of both versions, by its paths; it tells of ``services`` and of itself."""
    servicer = cache(partial(_servicer, [*services, *(f"{package}.ServerReflection" for package in (ALPHA, STABLE))]))

    def answer(request: bytes) -> Callable[[], list[bytes]]:
        return lambda: _reflect(servicer(), request)

    return {f"/{package}.{_METHOD}": Method(answer, repeats=True) for package in (ALPHA, STABLE)}


def _reflect(servicer: ReflectionServicer, request: bytes) -> list[bytes]:
    from google.protobuf.message import DecodeError
    from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest

    try:
        asked = ServerReflectionRequest.FromString(request)
    except DecodeError as error:
        raise CallFailed(Status.INTERNAL, "grpc: error unmarshalling request") from error
    answers = servicer.ServerReflectionInfo(iter([asked]), None)  # type: ignore[arg-type]
    return [answer.SerializeToString() for answer in answers]


def _servicer(services: list[str]) -> ReflectionServicer:
    """What answers, out of a pool of its own with all that is served; it is made for the first who asks."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool
    from grpc_health.v1 import health_pb2
    from grpc_reflection.v1alpha import reflection_pb2
    from grpc_reflection.v1alpha.reflection import ReflectionServicer

    from opmkit.index.api.messages import describe

    pool = DescriptorPool()
    alpha = FileDescriptorProto.FromString(reflection_pb2.DESCRIPTOR.serialized_pb)
    health = FileDescriptorProto.FromString(health_pb2.DESCRIPTOR.serialized_pb)
    for file in (describe(), health, alpha, _stable(alpha)):
        pool.Add(file)
    return ReflectionServicer(services, pool)


def _stable(alpha: FileDescriptorProto) -> FileDescriptorProto:
    """The file of v1, which differs from that of v1alpha in its package alone."""
    file = type(alpha)()
    file.CopyFrom(alpha)
    file.ClearField("options")
    file.name, file.package = "grpc/reflection/v1/reflection.proto", STABLE
    for message in file.message_type:
        for field in filter(lambda field: field.type_name, message.field):
            field.type_name = field.type_name.replace(ALPHA, STABLE)
    for method in file.service[0].method:
        method.input_type = method.input_type.replace(ALPHA, STABLE)
        method.output_type = method.output_type.replace(ALPHA, STABLE)
    return file
