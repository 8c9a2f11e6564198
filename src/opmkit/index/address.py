"""Addresses of running catalogs: ``HOST:PORT``."""

from __future__ import annotations

import re
from ipaddress import IPv6Address, ip_address

from msgspec import Struct

from opmkit.index.errors import CatalogError

_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\.?")
_MAX_HOST_LENGTH = 253
_MAX_PORT = 65535


class Address(Struct, frozen=True):
    """A host name or IP address, and a TCP port."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether the host is this machine."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host.rstrip(".").lower() == "localhost"

    def __str__(self) -> str:
        """``HOST:PORT``, with brackets around an IPv6 address."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """Parse ``HOST:PORT`` or ``[IPV6]:PORT``; raises InvalidAddress."""
    if "://" in text:
        raise _invalid(text, "it is a URL", f"omit {text.partition('://')[0]}://")
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        raise _invalid(text, "the port is missing", "write HOST:PORT; catalogs are usually served on port 50051")
    if not re.fullmatch("[0-9]{1,5}", port) or not 0 < int(port) <= _MAX_PORT:
        raise _invalid(text, f"{port!r} is not a port", f"write a number from 1 to {_MAX_PORT} as the port")
    if host.startswith("[") and host.endswith("]") and _is_ipv6(host[1:-1]):
        return Address(host[1:-1], int(port))
    if _is_ipv6(host):
        raise _invalid(text, "the IPv6 address has no brackets", f"write [{host}]:{port}")
    if not _HOST.fullmatch(host) or len(host) > _MAX_HOST_LENGTH:
        raise _invalid(text, f"{host!r} is not a host", "write HOST:PORT with a host name or an IP address")
    return Address(host, int(port))


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except ValueError:
        return False
    return "%" not in text


def _invalid(text: str, reason: str, hint: str) -> InvalidAddress:
    return InvalidAddress(f"invalid address {text!r}: {reason}", hint=hint)


class InvalidAddress(CatalogError):
    """A text that is not ``HOST:PORT``."""
