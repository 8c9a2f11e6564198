"""Client of the services ``api.Registry`` and ``api.ExperimentalRegistry``.

There is one method for each call. Those that begin with ``fetch_`` combine several calls, or collect a stream.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import grpc
from google.protobuf.json_format import MessageToDict
from grpc_health.v1 import health_pb2

from opmkit.client.errors import CallFailed, call_error, invalid_request
from opmkit.client.values import BundleUpdates, ProvidedApi, RemoteBundle, RemoteEntry, RemotePackage
from opmkit.core.files import read_limited
from opmkit.core.hints import Hint
from opmkit.core.workers import WorkerPool
from opmkit.index.address import parse_address
from opmkit.index.errors import CatalogError
from opmkit.index.grpc_api import ACKNOWLEDGEMENT, ALL_METHODS, CUSTOM_SCHEMAS, request_class, response_class
from opmkit.index.hint_terms import IndexOperation

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from opmkit.documents.json_value import JsonValue
    from opmkit.index.address import Address


T = TypeVar("T")

TIMEOUT = 60.0
"""Default timeout of a call in seconds."""

_MAX_PARALLEL_CALLS = 8
_NOT_FOUND = "UNKNOWN"
"""The status code of servers for names that the catalog does not contain."""
_MAX_INTEGER = 2**53
"""The integers up to this one are exact as floating-point numbers."""
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
            address: The address of the server.
            timeout: Seconds for a call, including all messages of a stream; None is unlimited.
            tls: Use TLS, and verify the server's certificate.
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

    def get_package(self, name: str) -> RemotePackage:
        """Return a package with its channels and their heads."""
        return self._call("GetPackage", RemotePackage.from_message, name=name)

    def get_bundle(self, package: str, channel: str, name: str) -> RemoteBundle:
        """Return a bundle of a channel, with its manifests if the catalog contains them."""
        return self._call("GetBundle", RemoteBundle.from_message, pkgName=package, channelName=channel, csvName=name)

    def get_bundle_for_channel(self, package: str, channel: str) -> RemoteBundle:
        """Return the head of a channel. Servers of databases set only its name and its ClusterServiceVersion.

        The protocol deprecates this method. Use ``get_package`` for the name of the head, and ``get_bundle``.
        """
        return self._call("GetBundleForChannel", RemoteBundle.from_message, pkgName=package, channelName=channel)

    def get_channel_entries_that_replace(self, name: str) -> Stream[RemoteEntry]:
        """Return the entries of all channels that replace or skip the bundle ``name``; without any, the call fails."""
        return self._call_stream("GetChannelEntriesThatReplace", RemoteEntry.from_message, csvName=name)

    def get_bundle_that_replaces(self, name: str, package: str, channel: str) -> RemoteBundle:
        """Return a bundle of the channel that replaces or skips the bundle ``name``."""
        return self._call(
            "GetBundleThatReplaces", RemoteBundle.from_message, csvName=name, pkgName=package, channelName=channel
        )

    def get_channel_entries_that_provide(self, group: str, version: str, kind: str) -> Stream[RemoteEntry]:
        """Return the entries whose bundles provide the API, one for each bundle that they replace or skip.

        Without any, the call fails.
        """
        return self._call_stream(
            "GetChannelEntriesThatProvide", RemoteEntry.from_message, group=group, version=version, kind=kind
        )

    def get_latest_channel_entries_that_provide(self, group: str, version: str, kind: str) -> Stream[RemoteEntry]:
        """Return the newest entries of each channel whose bundles provide the API; without any, the call fails."""
        return self._call_stream(
            "GetLatestChannelEntriesThatProvide", RemoteEntry.from_message, group=group, version=version, kind=kind
        )

    def get_default_bundle_that_provides(self, group: str, version: str, kind: str) -> RemoteBundle:
        """Return the newest bundle in the default channel of a package that provides the API."""
        return self._call(
            "GetDefaultBundleThatProvides", RemoteBundle.from_message, group=group, version=version, kind=kind
        )

    def list_bundles(self) -> Stream[RemoteBundle]:
        """Return every bundle of every channel, with the bundles that it replaces and skips there."""
        return self._call_stream("ListBundles", RemoteBundle.from_message)

    def list_custom_schemas(self, schema: str, package: str = "") -> Stream[dict[str, JsonValue]]:
        """Return the documents of a custom schema in a package, or those without a package if its name is empty.

        Servers of databases, and those of operator-registry before 1.69, do not implement this experimental call. It
        transfers numbers as floating-point numbers, so integers above 2^53 are rounded.
        """
        return self._call_stream(CUSTOM_SCHEMAS, _document, schema=schema, packageName=package)

    def fetch_packages(self, package: str = "") -> list[RemotePackage]:
        """Return all packages with their channels, sorted by name, or one package."""
        if package:
            return [self.get_package(package)]
        names = sorted(self.list_packages())
        with WorkerPool(_MAX_PARALLEL_CALLS, "call") as pool:
            return list(pool.map(self._fetch_package, names))

    def _fetch_package(self, name: str) -> RemotePackage:
        try:
            return self.get_package(name)
        except CallFailed as error:
            if error.code != _NOT_FOUND:
                raise
            return RemotePackage(name, "", ())  # servers list packages without channels, but do not find them

    def fetch_bundle(self, package: str, channel: str, name: str = "") -> RemoteBundle:
        """Return a bundle of a channel with its manifests, by default the head.

        Raises:
            CallFailed: The package or the bundle does not exist, or the server does not respond.
            CatalogError: The package does not have the channel.
        """
        if name:
            return self.get_bundle(package, channel, name)
        heads = {each.name: each.head for each in self.get_package(package).channels}
        if channel not in heads:
            raise CatalogError(
                f'package "{package}": channel "{channel}" not found',
                hint=f"use one of its channels: {', '.join(sorted(heads))}",
            )
        return self.get_bundle(package, channel, heads[channel])

    def fetch_bundles(self, package: str = "", channel: str = "", name: str = "") -> list[RemoteBundle]:
        """Return the bundles of all channels, or those with the given names, sorted by package, channel and name.

        Raises:
            CallFailed: The server does not respond.
            CatalogError: Names were given, and no bundle has them.
        """
        names = {"package": package, "channel": channel, "name": name}
        given = {field: value for field, value in names.items() if value}
        with self.list_bundles() as stream:
            found = [bundle for bundle in stream if all(getattr(bundle, key) == value for key, value in given.items())]
        if given and not found:
            criteria = ", ".join(f'{field} "{value}"' for field, value in given.items())
            hint = Hint("list all bundles with {}", IndexOperation.LIST_SERVED_BUNDLES)
            raise CatalogError(f"no bundle found with {criteria}", hint=hint)
        return sorted(found, key=lambda bundle: (bundle.package, bundle.channel, bundle.name))

    def fetch_apis(self, package: str = "") -> list[ProvidedApi]:
        """Return the APIs that the bundles of all packages, or of one, provide; raises what `fetch_bundles` raises."""
        return ProvidedApi.collect(self.fetch_bundles(package))

    def fetch_providers(self, group: str, version: str, kind: str, *, latest: bool = False) -> list[BundleUpdates]:
        """Return the bundles that provide an API, or only the newest of each channel; without any, the call fails."""
        call = self.get_latest_channel_entries_that_provide if latest else self.get_channel_entries_that_provide
        return BundleUpdates.group(call(group, version, kind))

    def fetch_successors(self, name: str) -> list[BundleUpdates]:
        """Return the bundles of all channels that replace or skip the bundle ``name``; without any, the call fails."""
        return BundleUpdates.group(self.get_channel_entries_that_replace(name))

    def _call(self, name: str, convert: Callable[[Any], T], /, **fields: str) -> T:
        call = self._channel.unary_unary(
            ALL_METHODS[name].path,
            request_serializer=request_class(name).SerializeToString,
            response_deserializer=response_class(name).FromString,
        )
        try:
            return convert(call(self._request(name, fields), timeout=self._timeout))
        except grpc.RpcError as error:
            raise call_error(error, self._address, name) from None

    def _call_stream(self, name: str, convert: Callable[[Any], T], /, **fields: str) -> Stream[T]:
        method = ALL_METHODS[name]
        call = self._channel.unary_stream(
            method.path,
            request_serializer=request_class(name).SerializeToString,
            response_deserializer=response_class(name).FromString,
        )
        metadata = (ACKNOWLEDGEMENT,) if method.is_experimental else None
        messages = call(self._request(name, fields), timeout=self._timeout, metadata=metadata)
        return Stream(messages, convert, lambda error: call_error(error, self._address, name))

    def _request(self, name: str, fields: dict[str, str]) -> Any:
        try:
            return request_class(name)(**fields)
        except ValueError:
            raise invalid_request(self._address, name, fields) from None


def _document(message: Any) -> dict[str, JsonValue]:
    """Return a Struct as JSON types, with sorted keys and integers where numbers are integral."""
    return {key: _json_value(value) for key, value in sorted(MessageToDict(message).items())}


def _json_value(value: Any) -> JsonValue:
    if isinstance(value, dict):
        return {key: _json_value(member) for key, member in sorted(value.items())}
    if isinstance(value, list):
        return [_json_value(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) <= _MAX_INTEGER else value


def _channel_options(address: Address) -> list[tuple[str, int]]:
    """Return options for messages of unlimited size, as Go's client has, and for no proxy to this machine."""
    options = [("grpc.max_receive_message_length", -1)]
    return [*options, ("grpc.enable_http_proxy", 0)] if address.is_loopback else options


def _authorities(ca_file: Path | None) -> bytes:
    """Return the PEM certificates of a file, or else of the system, since gRPC does not use the system's."""
    if ca_file is None:
        system = ssl.create_default_context().get_ca_certs(binary_form=True)
        return "".join(map(ssl.DER_cert_to_PEM_cert, system)).encode()
    data = read_limited(ca_file)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with suppress(ssl.SSLError, ValueError):
        context.load_verify_locations(cadata=data.decode("ascii", "ignore"))
    if not context.cert_store_stats()["x509"]:
        raise CatalogError(f"{ca_file}: no PEM certificate found", hint="give a PEM file of certificate authorities")
    return data


class Stream(Iterator[T], Generic[T]):
    """The response of one call, received message by message as it is iterated.

    Iteration raises CallFailed. To stop early, call ``cancel()`` from any thread, or leave the ``with`` block.
    """

    def __init__(
        self, call: Any, convert: Callable[[Any], T], convert_error: Callable[[grpc.RpcError], CatalogError]
    ) -> None:
        """Convert each message of ``call``, and the error that ends it."""
        self._call = call
        self._convert = convert
        self._convert_error = convert_error
        self._cancelled = False

    def __next__(self) -> T:
        try:
            return self._convert(next(self._call))
        except grpc.RpcError as error:
            if self._cancelled:
                raise StopIteration from None
            raise self._convert_error(error) from None

    def cancel(self) -> None:
        """Stop the server from sending more messages; the stream ends."""
        self._cancelled = True
        self._call.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()
