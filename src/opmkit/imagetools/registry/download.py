"""Downloads of single files, with the connections, timeouts and retries of the registry client."""

from __future__ import annotations

from http.client import responses
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from opmkit.core.errors import LimitExceeded
from opmkit.imagetools.credentials import Keychain
from opmkit.imagetools.errors import ImageToolsError, NotFound
from opmkit.imagetools.registry.access import Access
from opmkit.imagetools.registry.messages import Request, http_url
from opmkit.imagetools.registry.retry import RetryPolicy, TransientError
from opmkit.imagetools.registry.transport import RegistryTransport
from opmkit.imagetools.registry_config import RegistrySettings, RepositoryLocation

if TYPE_CHECKING:
    from opmkit.imagetools.registry.options import RegistryOptions
    from opmkit.imagetools.registry.sessions import OpenResponse

_HINT = "check the URL, or download the file elsewhere and pass its path"
_CHUNK = 1 << 16
_STATUSES = range(200, 600)
_TRANSIENT_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})


def download(url: str, limit: int, options: RegistryOptions) -> bytes:
    """Return the file at an HTTP or HTTPS URL, whose host receives no credentials.

    Args:
        url: The URL.
        limit: Maximum size of the file in bytes.
        options: TLS settings, and the deadline.

    Raises:
        LimitExceeded: The file is larger.
        NotFound: The file does not exist.
        ImageToolsError: The URL is invalid, leads from HTTPS to HTTP, or the download failed.
    """
    location = RepositoryLocation(urlsplit(http_url(url, "", url)).netloc, "")
    request = Request("GET", url, url, Access(location), ok=_STATUSES)
    retry = RetryPolicy()
    transport = RegistryTransport(options, retry, Keychain(helpers=tuple), RegistrySettings())
    deadline = transport.deadline()

    def attempt() -> bytes:
        with transport.open(request, deadline) as response:
            _check(response, url)
            content = bytearray()
            while data := transport.read_body(request, response, _CHUNK, deadline):
                content += data
                if len(content) > limit:
                    raise LimitExceeded(f"{url}: larger than {limit} bytes", hint=_HINT)
            return bytes(content)

    try:
        return retry.run(attempt, deadline)
    finally:
        transport.close()


def _check(response: OpenResponse, url: str) -> None:
    """Raise the error for a response without the file."""
    if url.startswith("https:") and not response.url.startswith("https:"):
        raise ImageToolsError(f"{url}: refusing to follow the redirect to {response.url}", hint=_HINT)
    reason = f"{response.status} ({responses.get(response.status, 'no details')})"
    if response.status in (404, 410):
        raise NotFound(f"{url}: not found", hint=_HINT)
    if response.status in _TRANSIENT_STATUSES:
        raise TransientError(f"{url}: the server returned {reason}", hint="try again later")
    if response.status != 200:
        raise ImageToolsError(f"{url}: the server returned {reason}", hint=_HINT)
