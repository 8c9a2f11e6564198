"""Servers, requests and responses of HTTP as values, and the time that they may take."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol
from urllib.parse import quote, urlsplit

from msgspec import Struct

from opmkit.http.errors import InvalidURL

_PORTS = {"http": 80, "https": 443}
_TARGET_CHARACTERS = "".join(map(chr, range(0x21, 0x7F)))


class Deadline(Struct, frozen=True):
    """A time of ``clock`` after which no request is sent."""

    expires_at: float
    clock: Callable[[], float] = time.monotonic

    def remaining(self) -> float:
        """Return the seconds until the deadline, at least 0."""
        return max(0.0, self.expires_at - self.clock())

    def or_in(self, seconds: float) -> Deadline:
        """Return the later one of this deadline and the one in ``seconds``."""
        return Deadline(max(self.expires_at, self.clock() + seconds), self.clock)


NO_DEADLINE = Deadline(float("inf"))


class TimeLimits(Struct, frozen=True):
    """The seconds that a request may take.

    Attributes:
        connection: Maximum for a connection, and for a TLS handshake.
        response: Maximum for a write, and for the header of the response.
        deadline: The time that ends both, and after which the request is not sent once more.
        grace: Seconds that both have in any case.
    """

    connection: float
    response: float
    deadline: Deadline = NO_DEADLINE
    grace: float = 0.0

    def current(self) -> tuple[float, float]:
        """Return the limits of a connection and of a response that begin now."""
        seconds = max(self.deadline.remaining(), self.grace)
        return min(self.connection, seconds), min(self.response, seconds)


class Origin(Struct, frozen=True):
    """The server of a URL."""

    scheme: str
    host: str
    port: int

    @classmethod
    def from_url(cls, url: str) -> Origin:
        """Return the server of an HTTP or HTTPS URL; raise InvalidURL."""
        parts = urlsplit(url)
        try:
            port = parts.port if parts.port is not None else _PORTS[parts.scheme]
            return cls(parts.scheme, ascii_host(parts.hostname or ""), port)
        except (KeyError, ValueError) as error:
            raise InvalidURL("invalid URL") from error

    @property
    def host_header(self) -> str:
        """The host, with the port unless it is that of the scheme."""
        host = bracketed(self.host.rstrip("."))  # the dot only matters to resolvers
        return f"{host}:{self.port}" if self.explicit_port else host

    @property
    def explicit_port(self) -> int | None:
        """The port, None if it is that of the scheme."""
        return None if self.port == _PORTS[self.scheme] else self.port


def ascii_host(host: str) -> str:
    """Return the ASCII form of an internationalized name; raise UnicodeError if it has none."""
    return host if host.isascii() else host.encode("idna").decode()


def bracketed(host: str) -> str:
    """Return a host as in URLs: an IPv6 address within brackets."""
    return f"[{host}]" if ":" in host else host


def request_target(url: str) -> str:
    """Return the path and query of a URL for a request line."""
    parts = urlsplit(url)
    target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    return quote(target, safe=_TARGET_CHARACTERS)


class Body(Protocol):
    """The content of a request as parts, whose length in bytes becomes the Content-Length."""

    def __len__(self) -> int:
        """Return the number of bytes."""

    def __iter__(self) -> Iterator[bytes]:
        """Iterate over the parts."""


class Headers(Mapping[str, str]):
    """Header fields with case-insensitive names; the values of a repeated one are joined by commas."""

    def __init__(self, fields: list[tuple[bytes, bytes]]) -> None:
        """Create the mapping."""
        values: dict[str, list[str]] = {}
        for name, value in fields:
            values.setdefault(name.decode("ascii").lower(), []).append(value.decode("latin-1"))
        self._values = values

    def __getitem__(self, name: str) -> str:
        """Return a value."""
        return ", ".join(self._values[name.lower()])

    def first(self, name: str) -> str:
        """Return the first value, "" if there is none."""
        return self._values.get(name.lower(), [""])[0]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names, in lower case."""
        return iter(self._values)

    def __len__(self) -> int:
        """Return the number of names."""
        return len(self._values)
