"""The client of ``api.Registry``: a method for each call, over one connection."""

from __future__ import annotations

import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self, TypeVar

import grpc
from grpc_health.v1 import health_pb2

from opmkit.index.api.messages import METHODS
from opmkit.index.client.address import parse_address
from opmkit.index.client.grpc_errors import failure, unsendable
from opmkit.index.client.stream import Stream
from opmkit.index.client.values import bundle_of, entry_of, package_of
from opmkit.index.errors import CatalogError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from opmkit.index.client.address import Address
    from opmkit.index.client.values import Bundle, ChannelEntry, Package

T = TypeVar("T")

TIMEOUT = 60.0
"""How many seconds a call may take, unless told otherwise."""

_HEALTH_CHECK = "/grpc.health.v1.Health/Check"


class CatalogClient:
    """A catalog that is served somewhere; threads may share one.

    Every method raises CallFailed with what the server said, such as that it has no package of that name;
    ServerUnreachable where nobody answers, and CallTimedOut after the timeout. Streams raise it when they are read.
    """

    def __init__(self, channel: grpc.Channel, address: str, timeout: float | None = TIMEOUT) -> None:
        """Make calls by ``channel``; ``address`` is for errors. See ``connect``."""
        self._channel = channel
        self._address = address
        self._timeout = timeout

    @classmethod
    def connect(
        cls, address: str, *, timeout: float | None = TIMEOUT, tls: bool = False, ca_file: Path | None = None
    ) -> CatalogClient:
        """The catalog served at ``HOST:PORT``; used in a ``with`` block, the connection is closed behind it.

        The connection is made by the first call. ``timeout`` is how many seconds a call may take, streams to their end;
        None sets no bound. With ``tls`` the server's certificate is checked against the authorities of the system, or
        against those in the PEM file ``ca_file`` alone.

        Raises:
            InvalidAddress: it is no ``HOST:PORT``.
            CatalogError: ``ca_file`` holds no certificate; OSError where it can't be read.
        """
        parsed = parse_address(address)
        options = _options(parsed)
        if tls:
            channel = grpc.secure_channel(str(parsed), grpc.ssl_channel_credentials(_authorities(ca_file)), options)
        else:
            channel = grpc.insecure_channel(str(parsed), options)
        return cls(channel, str(parsed), timeout)

    def __enter__(self) -> Self:
        """The client itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection; calls under way are cancelled."""
        self._channel.close()

    def is_healthy(self, service: str = "") -> bool:
        """Whether the server says by gRPC's health protocol that it serves (``service``, or as a whole)."""
        check = self._channel.unary_unary(
            _HEALTH_CHECK,
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )
        try:
            answer = check(health_pb2.HealthCheckRequest(service=service), timeout=self._timeout)
        except grpc.RpcError as error:
            raise failure(error, self._address, "Health/Check") from None
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

    def list_packages(self) -> Stream[str]:
        """The names of all packages."""
        return self._many("ListPackages", lambda message: str(message.name))

    def get_package(self, name: str) -> Package:
        """A package with its channels and their heads."""
        return self._one("GetPackage", package_of, name=name)

    def get_bundle(self, package: str, channel: str, name: str) -> Bundle:
        """A bundle of a channel, with its manifests where the catalog has them."""
        return self._one("GetBundle", bundle_of, pkgName=package, channelName=channel, csvName=name)

    def get_bundle_for_channel(self, package: str, channel: str) -> Bundle:
        """The head of a channel. Servers of sqlite indexes fill in its name and ClusterServiceVersion alone.

        The protocol calls it deprecated: ``get_package`` names the head, and ``get_bundle`` has all of it.
        """
        return self._one("GetBundleForChannel", bundle_of, pkgName=package, channelName=channel)

    def get_channel_entries_that_replace(self, name: str) -> Stream[ChannelEntry]:
        """The entries of all channels whose bundle replaces or skips the named one; that there is none is an error."""
        return self._many("GetChannelEntriesThatReplace", entry_of, csvName=name)

    def get_bundle_that_replaces(self, name: str, package: str, channel: str) -> Bundle:
        """A bundle of the channel that replaces or skips the named one."""
        return self._one("GetBundleThatReplaces", bundle_of, csvName=name, pkgName=package, channelName=channel)

    def get_channel_entries_that_provide(self, group: str, version: str, kind: str) -> Stream[ChannelEntry]:
        """The entries whose bundle provides the API, one for each bundle that it replaces; none is an error."""
        return self._many("GetChannelEntriesThatProvide", entry_of, group=group, version=version, kind=kind)

    def get_latest_channel_entries_that_provide(self, group: str, version: str, kind: str) -> Stream[ChannelEntry]:
        """The same, but the newest of each channel alone."""
        return self._many("GetLatestChannelEntriesThatProvide", entry_of, group=group, version=version, kind=kind)

    def get_default_bundle_that_provides(self, group: str, version: str, kind: str) -> Bundle:
        """The newest bundle that provides the API in the default channel of a package."""
        return self._one("GetDefaultBundleThatProvides", bundle_of, group=group, version=version, kind=kind)

    def list_bundles(self) -> Stream[Bundle]:
        """Every bundle of every channel, with what it replaces and skips there."""
        return self._many("ListBundles", bundle_of)

    def _one(self, name: str, value_of: Callable[[Any], T], /, **fields: str) -> T:
        method = METHODS[name]
        call = self._channel.unary_unary(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.answer.FromString,
        )
        try:
            return value_of(call(self._request(name, fields), timeout=self._timeout))
        except grpc.RpcError as error:
            raise failure(error, self._address, name) from None

    def _many(self, name: str, value_of: Callable[[Any], T], /, **fields: str) -> Stream[T]:
        method = METHODS[name]
        call = self._channel.unary_stream(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.answer.FromString,
        )
        answers = call(self._request(name, fields), timeout=self._timeout)
        return Stream(answers, value_of, lambda error: failure(error, self._address, name))

    def _request(self, name: str, fields: dict[str, str]) -> Any:
        try:
            return METHODS[name].request(**fields)
        except ValueError:
            raise unsendable(self._address, name, fields) from None


def _options(address: Address) -> list[tuple[str, int]]:
    """Answers may be of any size, as with all servers of catalogs; no proxy leads to this machine itself."""
    options = [("grpc.max_receive_message_length", -1)]
    return [*options, ("grpc.enable_http_proxy", 0)] if address.is_loopback else options


def _authorities(ca_file: Path | None) -> bytes:
    """Certificates in PEM: those of the file, or of the system, which gRPC would not look for."""
    if ca_file is None:
        found = ssl.create_default_context().get_ca_certs(binary_form=True)
        return "".join(map(ssl.DER_cert_to_PEM_cert, found)).encode()
    given = ca_file.read_bytes()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with suppress(ssl.SSLError, ValueError):
        context.load_verify_locations(cadata=given.decode("ascii", "ignore"))
    if not context.cert_store_stats()["x509"]:
        hint = "give a PEM file of certificate authorities"
        raise CatalogError(f"{ca_file}: holds no PEM certificate", hint=hint)
    return given
