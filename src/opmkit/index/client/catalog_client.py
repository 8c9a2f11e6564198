"""Client of the service ``api.Registry``, with one method for each call."""

from __future__ import annotations

import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self, TypeVar

import grpc
from grpc_health.v1 import health_pb2

from opmkit.index.api.messages import request_class, response_class
from opmkit.index.api.methods import METHODS
from opmkit.index.client.address import parse_address
from opmkit.index.client.grpc_errors import call_error, invalid_request
from opmkit.index.client.stream import Stream
from opmkit.index.client.values import Bundle, ChannelEntry, Package
from opmkit.index.errors import CatalogError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from opmkit.index.client.address import Address

T = TypeVar("T")

TIMEOUT = 60.0
"""Default timeout of a call in seconds."""

_HEALTH_CHECK = "/grpc.health.v1.Health/Check"


class CatalogClient:
    """A connection to a running catalog; threads may share one.

    All methods raise:
        CallFailed: the server returned an error, for example because a package does not exist.
        ServerUnreachable: the server does not respond.
        CallTimedOut: the response was not complete in time.

    Methods that return a Stream raise them when it is iterated.
    """

    def __init__(self, channel: grpc.Channel, address: str, timeout: float | None = TIMEOUT) -> None:
        """Call methods over ``channel``; see ``connect``. ``address`` is for error messages."""
        self._channel = channel
        self._address = address
        self._timeout = timeout

    @classmethod
    def connect(
        cls, address: str, *, timeout: float | None = TIMEOUT, tls: bool = False, ca_file: Path | None = None
    ) -> CatalogClient:
        """Return a client of the catalog at ``HOST:PORT``, which can be used in a ``with`` block.

        The first call opens the connection.

        Args:
            address: the address of the server.
            timeout: seconds for a call, including all messages of a stream; None is unlimited.
            tls: use TLS, and verify the server's certificate.
            ca_file: PEM file with the certificate authorities to trust instead of the system's.

        Raises:
            InvalidAddress: ``address`` is not ``HOST:PORT``.
            CatalogError: ``ca_file`` does not contain a certificate.
            OSError: ``ca_file`` cannot be read.
        """
        parsed = parse_address(address)
        options = _channel_options(parsed)
        if tls:
            channel = grpc.secure_channel(str(parsed), grpc.ssl_channel_credentials(_authorities(ca_file)), options)
        else:
            channel = grpc.insecure_channel(str(parsed), options)
        return cls(channel, str(parsed), timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection and cancel all calls in progress."""
        self._channel.close()

    def is_healthy(self, service: str = "") -> bool:
        """Return whether the server reports by the gRPC health protocol that it, or ``service``, is serving."""
        check = self._channel.unary_unary(
            _HEALTH_CHECK,
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )
        try:
            response = check(health_pb2.HealthCheckRequest(service=service), timeout=self._timeout)
        except grpc.RpcError as error:
            raise call_error(error, self._address, "Health/Check") from None
        return bool(response.status == health_pb2.HealthCheckResponse.SERVING)

    def list_packages(self) -> Stream[str]:
        """Return the names of all packages."""
        return self._call_stream("ListPackages", lambda message: str(message.name))

    def get_package(self, name: str) -> Package:
        """Return a package with its channels and their heads."""
        return self._call("GetPackage", Package.from_message, name=name)

    def get_bundle(self, package: str, channel: str, name: str) -> Bundle:
        """Return a bundle of a channel, with its manifests if the catalog contains them."""
        return self._call("GetBundle", Bundle.from_message, pkgName=package, channelName=channel, csvName=name)

    def get_bundle_for_channel(self, package: str, channel: str) -> Bundle:
        """Return the head of a channel. Servers of databases set only its name and its ClusterServiceVersion.

        The protocol deprecates this method. Use ``get_package`` for the name of the head, and ``get_bundle``.
        """
        return self._call("GetBundleForChannel", Bundle.from_message, pkgName=package, channelName=channel)

    def get_channel_entries_that_replace(self, name: str) -> Stream[ChannelEntry]:
        """Return the entries of all channels that replace or skip the bundle ``name``; without any, the call fails."""
        return self._call_stream("GetChannelEntriesThatReplace", ChannelEntry.from_message, csvName=name)

    def get_bundle_that_replaces(self, name: str, package: str, channel: str) -> Bundle:
        """Return a bundle of the channel that replaces or skips the bundle ``name``."""
        return self._call(
            "GetBundleThatReplaces", Bundle.from_message, csvName=name, pkgName=package, channelName=channel
        )

    def get_channel_entries_that_provide(self, group: str, version: str, kind: str) -> Stream[ChannelEntry]:
        """Return the entries whose bundles provide the API, one for each bundle that they replace or skip.

        Without any, the call fails.
        """
        return self._call_stream(
            "GetChannelEntriesThatProvide", ChannelEntry.from_message, group=group, version=version, kind=kind
        )

    def get_latest_channel_entries_that_provide(self, group: str, version: str, kind: str) -> Stream[ChannelEntry]:
        """Return the newest entries of each channel whose bundles provide the API; without any, the call fails."""
        return self._call_stream(
            "GetLatestChannelEntriesThatProvide", ChannelEntry.from_message, group=group, version=version, kind=kind
        )

    def get_default_bundle_that_provides(self, group: str, version: str, kind: str) -> Bundle:
        """Return the newest bundle in the default channel of a package that provides the API."""
        return self._call("GetDefaultBundleThatProvides", Bundle.from_message, group=group, version=version, kind=kind)

    def list_bundles(self) -> Stream[Bundle]:
        """Return every bundle of every channel, with the bundles that it replaces and skips there."""
        return self._call_stream("ListBundles", Bundle.from_message)

    def _call(self, name: str, convert: Callable[[Any], T], /, **fields: str) -> T:
        call = self._channel.unary_unary(
            METHODS[name].path,
            request_serializer=request_class(name).SerializeToString,
            response_deserializer=response_class(name).FromString,
        )
        try:
            return convert(call(self._request(name, fields), timeout=self._timeout))
        except grpc.RpcError as error:
            raise call_error(error, self._address, name) from None

    def _call_stream(self, name: str, convert: Callable[[Any], T], /, **fields: str) -> Stream[T]:
        call = self._channel.unary_stream(
            METHODS[name].path,
            request_serializer=request_class(name).SerializeToString,
            response_deserializer=response_class(name).FromString,
        )
        messages = call(self._request(name, fields), timeout=self._timeout)
        return Stream(messages, convert, lambda error: call_error(error, self._address, name))

    def _request(self, name: str, fields: dict[str, str]) -> Any:
        try:
            return request_class(name)(**fields)
        except ValueError:
            raise invalid_request(self._address, name, fields) from None


def _channel_options(address: Address) -> list[tuple[str, int]]:
    """Return options for messages of unlimited size, as Go's client has, and for no proxy to this machine."""
    options = [("grpc.max_receive_message_length", -1)]
    return [*options, ("grpc.enable_http_proxy", 0)] if address.is_loopback else options


def _authorities(ca_file: Path | None) -> bytes:
    """Return the PEM certificates of a file, or else of the system, since gRPC does not use the system's."""
    if ca_file is None:
        system = ssl.create_default_context().get_ca_certs(binary_form=True)
        return "".join(map(ssl.DER_cert_to_PEM_cert, system)).encode()
    data = ca_file.read_bytes()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with suppress(ssl.SSLError, ValueError):
        context.load_verify_locations(cadata=data.decode("ascii", "ignore"))
    if not context.cert_store_stats()["x509"]:
        raise CatalogError(f"{ca_file}: no PEM certificate found", hint="give a PEM file of certificate authorities")
    return data
