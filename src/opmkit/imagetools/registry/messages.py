"""HTTP requests and responses as values, and the URLs of a repository (OCI distribution-spec 1.1)."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

import oras.container
from msgspec import Struct

from opmkit.http.messages import Headers
from opmkit.imagetools.errors import RegistryUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from opmkit.http.messages import Body
    from opmkit.imagetools.registry.access import Access
    from opmkit.imagetools.registry_config import RepositoryLocation


MAX_BODY_SIZE = 1 << 20
"""Default limit for the body of a response, in bytes."""

_CONTENT_LENGTH = re.compile(r"0*[0-9]{1,18}")


def http_url(base: str, url: str, subject: str, *, allow_http: bool = False) -> str:
    """Resolve a URL that a server sent, relative to the URL of its response; errors name ``subject``.

    This is the one place that decides where a redirect, the next page of a list or an upload may lead.

    Args:
        base: The URL of the response.
        url: The URL in it.
        subject: The reference or server.
        allow_http: Whether it may lead from HTTPS to HTTP, because its content is verified by a digest, or the registry
            is insecure. Anyone on the way could answer, and would decide what else is read.

    Raises:
        RegistryUnavailable: The URL is not a valid HTTP or HTTPS URL, or leads from HTTPS to HTTP.
    """
    try:
        parts = urlsplit(urljoin(base, url))._replace(fragment="")  # which is not sent, and not part of an upload's URL
        # The property ``port`` raises ValueError for what is not a port.
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid:
        raise RegistryUnavailable(f"{subject}: the registry sent an invalid URL")
    if parts.scheme == "http" and base.startswith("https:"):
        if parts.netloc == urlsplit(base).netloc:
            # A registry behind a proxy that terminates TLS may not know that clients use HTTPS.
            return parts._replace(scheme="https").geturl()
        if allow_http:
            return parts.geturl()
        raise RegistryUnavailable(
            f"{subject}: refusing to follow {url_host(base)} from HTTPS to http://{url_host(parts.geturl())}",
            hint="report it to the operator of the registry, or mark the registry as insecure in registries.conf",
        )
    return parts.geturl()


def url_host(url: str) -> str:
    """Return the host and port of a URL for messages, without user name and password."""
    return urlsplit(url).netloc.rpartition("@")[2]


def location_header(headers: Mapping[str, str]) -> str:
    """Return the URL in a Location header, "" if there is none; of several the first, as in Go, and in raw UTF-8."""
    value = headers.first("Location") if isinstance(headers, Headers) else headers.get("Location", "")
    try:
        return value.encode("latin-1").decode()
    except UnicodeError:
        return value


def content_length(headers: Mapping[str, str]) -> int | None:
    """Return the Content-Length in bytes, or None if it is missing or not a plausible number."""
    value = headers.get("Content-Length", "").strip()
    return int(value) if _CONTENT_LENGTH.fullmatch(value) else None


class Request(Struct, frozen=True):
    """A request to a registry, or to its token server.

    Attributes:
        method: HTTP method.
        url: The URL.
        subject: The reference or server to name in errors.
        access: The rights that the request needs; for a request to a token server, the rights to ask for.
        headers: Headers; Authorization is added to requests to a registry.
        body: A function that creates the body for each attempt.
        ok: The expected status codes; others are errors.
        limit: The maximum size of the response's body in bytes.
        for_token: Whether the request is for a token server.
        is_verified: Whether the content of the response is verified by a digest that is known before.
    """

    method: str
    url: str
    subject: str
    access: Access
    headers: Mapping[str, str] = {}
    body: Callable[[], bytes | Body] | None = None
    ok: Collection[int] = (200,)
    limit: int = MAX_BODY_SIZE
    for_token: bool = False
    is_verified: bool = False

    def __repr__(self) -> str:
        """Return the method and URL: the headers of a request for a token contain a password."""
        return f"Request({self.method} {self.url})"


class Response(Struct, frozen=True):
    """A response with its complete body. ``headers`` are case-insensitive."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def __repr__(self) -> str:
        """Return the status: the body of a response can contain a token."""
        return f"Response({self.status})"

    def json(self, subject: str) -> Mapping[str, object]:
        """Decode the body as a JSON object; errors name ``subject``.

        Raises:
            RegistryUnavailable: The body is not a JSON object.
        """
        try:
            value = json.loads(self.body)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise RegistryUnavailable(
                f"{subject}: invalid response: expected a JSON object", hint="check the registry's name"
            )
        return value


_DOCKER_HUB, _DOCKER_HUB_HOST = "docker.io", "registry-1.docker.io"


def registry_host(registry: str) -> str:
    """Return the host that serves a registry, given its name in references."""
    return _DOCKER_HUB_HOST if registry == _DOCKER_HUB else registry


class Endpoint(Struct, frozen=True):
    """The API of a repository under ``scheme`` (``http`` or ``https``)."""

    scheme: str
    location: RepositoryLocation

    @property
    def name(self) -> str:
        """Registry and repository, separated by a slash."""
        return self.location.name

    def manifest(self, identifier: str) -> str:
        """Return the URL of a manifest or index by tag or digest."""
        return self._url(self._container().manifest_url(identifier))

    def blob(self, digest: str) -> str:
        """Return the URL of a blob."""
        return self._url(self._container().get_blob_url(digest))

    def uploads(self) -> str:
        """Return the URL that starts the upload of a blob."""
        return self._url(self._container().upload_blob_url())

    def referrers(self, digest: str) -> str:
        """Return the URL of the list of artifacts with the subject ``digest``."""
        return f"{self.manifest(digest).rpartition('/manifests/')[0]}/referrers/{digest}"

    def repositories(self, page_size: int) -> str:
        """Return the URL of the list of the registry's repositories."""
        return self._url(f"{registry_host(self.location.registry)}/v2/_catalog?n={page_size}")

    def tags(self, page_size: int) -> str:
        """Return the URL of the list of tags."""
        return self._url(self._container().tags_url(N=page_size))

    def reference(self, identifier: str) -> str:
        """Return the full reference of a tag or digest, for messages."""
        return f"{self.name}@{identifier}" if ":" in identifier else f"{self.name}:{identifier}"

    def _container(self) -> oras.container.Container:
        # Parsing the name would read localhost as a namespace.
        namespace, _, last = self.location.repository.rpartition("/")
        container = oras.container.Container(last, registry=registry_host(self.location.registry))
        container.namespace = namespace
        return container

    def _url(self, path: str) -> str:
        return f"{self.scheme}://{path}"
