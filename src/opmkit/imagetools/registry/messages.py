"""Requests and their answers as values, and the count of what they moved."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from opmkit.imagetools.errors import RegistryUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from opmkit.imagetools.registry.access import Access

BODY_LIMIT = 1 << 20
"""The longest body, in bytes, that is read of an answer that should be short."""


_LENGTH = re.compile(r"[0-9]{1,18}")


def http_url(base: str, address: str, subject: str) -> str:
    """The URL of an address that a registry gives, relative to ``base``; RegistryUnavailable if it is none of HTTP."""
    try:
        url = urlsplit(urljoin(base, address))
        if url.scheme in ("http", "https") and url.hostname:
            return url.geturl()
    except ValueError:
        pass
    raise RegistryUnavailable(f"{subject}: the registry refers to an address that can't be used")


def content_length(headers: Mapping[str, str]) -> int | None:
    """Return the Content-Length in bytes, None if there is none or it is not a plausible number."""
    value = headers.get("Content-Length", "").strip()
    return int(value) if _LENGTH.fullmatch(value) else None


@dataclass(frozen=True, slots=True)
class Request:
    """A request to a registry that needs ``access``, or one to a token server ``for_token`` to give that access.

    ``subject`` is what errors name. ``body`` makes the body anew for each attempt. A status other than those in ``ok``
    is an error; of the answer at most ``limit`` bytes are read.
    """

    method: str
    url: str
    subject: str
    access: Access
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: Callable[[], bytes | Iterable[bytes]] | None = field(default=None, repr=False)
    ok: Collection[int] = (200,)
    limit: int = BODY_LIMIT
    for_token: bool = False


@dataclass(frozen=True, slots=True)
class Response:
    """A registry's answer, read to its end. ``headers`` don't tell upper from lower case."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)

    def json(self, subject: str) -> Mapping[str, object]:
        """The body, a JSON object; RegistryUnavailable if it is something else."""
        try:
            value = json.loads(self.body)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise RegistryUnavailable(
                f"{subject}: the answer is no JSON object", hint="check that the name is that of a registry"
            )
        return value


@dataclass(frozen=True, slots=True)
class TransferStats:
    """Bytes ``read`` from the network and ``written`` to it: bodies, without headers; failed attempts count too."""

    read: int = 0
    written: int = 0


class Meter:
    """Counts traffic of many threads."""

    def __init__(self) -> None:
        """Start from zero."""
        self._traffic = TransferStats()
        self._lock = threading.Lock()

    @property
    def traffic(self) -> TransferStats:
        """What has been moved so far."""
        return self._traffic

    def count(self, *, read: int = 0, written: int = 0) -> None:
        """Add to the count."""
        with self._lock:
            self._traffic = TransferStats(self._traffic.read + read, self._traffic.written + written)
