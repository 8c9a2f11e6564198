"""A small index database with updates, APIs and dependencies, and a gRPC server with scripted responses."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Self

import grpc

from opmkit.bundle import parse_bundle
from opmkit.index.grpc_api import METHODS, SERVICE, request_class
from opmkit.index.operations.add.sqlite import add_bundles
from opmkit.index.sqlite import replace_database
from tests.reference.samples import Api, Sample

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tests.kit.certificates import Certificate

SHELF, BOOK = Api("Shelf", ("v1",)), Api("Book", ("v1",))
SAMPLES = (
    Sample("book", "0.1.0", provided=(BOOK,)),
    Sample("shelf", "1.0.0", ("alpha", "beta"), "beta", provided=(SHELF,)),
    Sample("shelf", "1.1.0", ("alpha", "beta"), "beta", replaces="shelf.v1.0.0", provided=(SHELF,)),
    Sample(
        *("shelf", "1.2.0", ("alpha",), "beta"),
        replaces="shelf.v1.0.0",
        skips=("shelf.v1.1.0",),
        skip_range="<1.2.0",
        provided=(SHELF,),
        required=(BOOK,),
        dependencies=("book",),
    ),
)


def write_library(path: Path) -> None:
    """Write an index database with the sample packages ``book`` and ``shelf``."""
    with replace_database(path) as database:
        add_bundles(
            database,
            [
                parse_bundle(sample.files(), image=f"quay.io/example/{sample.package}:{sample.version}")
                for sample in SAMPLES
            ],
        )


def free_port() -> int:
    """Return a free TCP port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class ScriptedCatalog:
    """A gRPC server whose responses are computed by a function of request and context per method.

    The function of a streaming method returns an iterator. Responses are messages or raw bytes. ``service`` is the full
    name of the service, and ``tls`` the certificate of the server.
    """

    def __init__(
        self,
        answers: Mapping[str, Callable[[Any, grpc.ServicerContext], Any]],
        *,
        service: str = SERVICE,
        tls: Certificate | None = None,
    ) -> None:
        self._handlers = {name: _handler(name, answer) for name, answer in answers.items()}
        self._service = service
        self._tls = tls

    def __enter__(self) -> Self:
        self._server = grpc.server(ThreadPoolExecutor(4), options=[("grpc.max_send_message_length", -1)])
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(self._service, self._handlers)])
        if self._tls is None:
            port = self._server.add_insecure_port("127.0.0.1:0")
        else:
            pair = (self._tls.key.read_bytes(), self._tls.certificate.read_bytes())
            port = self._server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([pair]))
        self.address = f"127.0.0.1:{port}"
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(None).wait()


def _handler(name: str, answer: Callable[[Any, grpc.ServicerContext], Any]) -> Any:
    method = METHODS.get(name)
    make = grpc.unary_stream_rpc_method_handler if method and method.streams else grpc.unary_unary_rpc_method_handler
    return make(
        answer,
        request_deserializer=request_class(name).FromString if method else None,
        response_serializer=lambda value: value if isinstance(value, bytes) else value.SerializeToString(),
    )
