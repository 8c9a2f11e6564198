"""Detection of whether insecure registries support HTTPS or only HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from opmkit.core.errors import DiskError, LimitExceeded
from opmkit.imagetools.errors import ImageToolsError, InsecureTransport
from opmkit.imagetools.registry.endpoint import registry_host
from opmkit.imagetools.registry.retry import TransientError

if TYPE_CHECKING:
    from collections.abc import Callable

    from opmkit.imagetools.registry.sessions import OpenResponse
    from opmkit.imagetools.registry_config import RepositoryLocation

_HTTP, _HTTPS = "http", "https"


class SchemeProbe:
    """The schemes that hosts support, detected by the first request to each.

    HTTPS is tried first: a host without it gets nothing but a TLS handshake. Then the same request is sent over HTTP,
    without a separate probe, and the scheme that works is remembered. HTTP is only used for insecure registries, or
    for all of them with ``plain_http``.
    """

    def __init__(self, *, plain_http: bool) -> None:
        """Create a probe."""
        self.default = _HTTP if plain_http else _HTTPS
        self._detected: dict[str, str] = {}

    def scheme(self, host: str, location: RepositoryLocation) -> str:
        """Return the scheme detected for the host of a location, else the default."""
        return self._detected.get(host, self.default) if location.insecure else self.default

    def send(self, url: str, location: RepositoryLocation, send: Callable[[str], OpenResponse]) -> OpenResponse:
        """Call ``send`` with the URL under the right scheme. URLs on other hosts than the registry's are unchanged."""
        parts = urlsplit(url)
        host = parts.netloc
        is_registry = host == registry_host(location.registry)
        if not location.insecure or parts.scheme != _HTTPS or self.default == _HTTP or not is_registry:
            return send(url)
        http_url = parts._replace(scheme=_HTTP).geturl()
        if detected := self._detected.get(host):
            return send(url if detected == _HTTPS else http_url)
        try:
            response = send(url)
        except (InsecureTransport, TransientError) as error:
            return self._fall_back(host, http_url, send, error)
        self._detected[host] = _HTTPS
        return response

    def _fall_back(
        self, host: str, http_url: str, send: Callable[[str], OpenResponse], https_error: ImageToolsError
    ) -> OpenResponse:
        """Send over HTTP; raise ``https_error`` if that fails, or the server reports that it expects HTTPS."""
        try:
            response = send(http_url)
        except (ImageToolsError, LimitExceeded, DiskError):
            raise https_error from None
        if response.status == 400:
            response.close()
            raise https_error
        self._detected[host] = _HTTP
        return response
