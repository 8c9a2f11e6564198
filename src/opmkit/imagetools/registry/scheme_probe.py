"""Whether registries that are called insecure speak HTTPS or HTTP, found out by the first request to each."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from opmkit.imagetools.errors import ImageToolsError, InsecureTransport
from opmkit.imagetools.registry.endpoint import registry_host
from opmkit.imagetools.registry.retry import TransientError

if TYPE_CHECKING:
    from collections.abc import Callable

    import requests

    from opmkit.imagetools.registry_config import RepositoryLocation

_HTTP, _HTTPS = "http", "https"


class SchemeProbe:
    """What hosts speak.

    HTTPS is tried first: a host that doesn't speak it gets nothing but a TLS greeting. Then the same request goes out
    by HTTP, without the probes that other clients begin with, and what works is remembered for the host. Only insecure
    registries are ever spoken to by HTTP, or all with ``plain_http``.
    """

    def __init__(self, *, plain_http: bool) -> None:
        """Nothing is known yet."""
        self.first = _HTTP if plain_http else _HTTPS
        self._spoken: dict[str, str] = {}

    def spoken(self, host: str, place: RepositoryLocation) -> str:
        """The scheme for requests to the repository ``place`` on its host, as far as is known."""
        return self._spoken.get(host, self.first) if place.insecure else self.first

    def try_on(
        self, url: str, place: RepositoryLocation, send: Callable[[str], requests.Response]
    ) -> requests.Response:
        """What ``send`` gives for ``url``, which is of the registry of ``place`` or another server that it names."""
        parts = urlsplit(url)
        host = parts.netloc
        if not place.insecure or parts.scheme != _HTTPS or self.first == _HTTP or host != registry_host(place.registry):
            return send(url)
        plain = parts._replace(scheme=_HTTP).geturl()
        if known := self._spoken.get(host):
            return send(url if known == _HTTPS else plain)
        try:
            response = send(url)
        except (InsecureTransport, TransientError) as error:
            return self._fall_back(host, plain, send, error)
        self._spoken[host] = _HTTPS
        return response

    def _fall_back(
        self, host: str, plain: str, send: Callable[[str], requests.Response], error: ImageToolsError
    ) -> requests.Response:
        """The answer by HTTP; ``error``, that of HTTPS, if there is none or one that says that HTTPS is expected."""
        try:
            response = send(plain)
        except ImageToolsError:
            raise error from None
        if response.status_code == 400:
            response.close()
            raise error
        self._spoken[host] = _HTTP
        return response
