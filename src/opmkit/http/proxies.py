"""Proxies that the environment sets, by the rules of Go (golang.org/x/net/http/httpproxy)."""

from __future__ import annotations

import os
from base64 import b64encode
from contextlib import suppress
from typing import TYPE_CHECKING, cast
from urllib.parse import unquote_to_bytes, urlsplit

from msgspec import Struct

from opmkit.http.errors import InvalidURL, ProxyError
from opmkit.http.messages import Origin, ascii_host

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from ipaddress import IPv4Address, IPv6Address

_LOCALHOST = "localhost"


class Proxy(Struct, frozen=True):
    """A proxy, and the setting that names it, such as ``HTTPS_PROXY``."""

    url: str
    setting: str

    def __str__(self) -> str:
        """Return the URL without login, and the setting."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]} ({self.setting})"

    def __repr__(self) -> str:
        """Return the URL without login, and the setting."""
        return f"Proxy({self})"

    def error(self, message: str = "", *, status: int = 0, error: Exception | None = None) -> ProxyError:
        """Return the error of this proxy: an invalid setting, its status code, or what failed."""
        return ProxyError(str(self), self.setting, message, status=status, error=error)

    @property
    def origin(self) -> Origin:
        """The server; raises ProxyError for a URL that is invalid, or of another kind of proxy."""
        if urlsplit(self.url).scheme not in ("http", "https"):
            raise self.error("unsupported kind of proxy")
        try:
            return Origin.from_url(self.url)
        except InvalidURL:
            raise self.error("invalid URL") from None

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers that authenticate to the proxy."""
        login, at, _ = urlsplit(self.url).netloc.rpartition("@")
        if not at:
            return {}
        user, _, password = login.partition(":")
        credentials = unquote_to_bytes(user) + b":" + unquote_to_bytes(password)
        return {"Proxy-Authorization": f"Basic {b64encode(credentials).decode()}"}


def environment_proxy(url: str, environ: Mapping[str, str] = os.environ) -> Proxy | None:
    """Return the proxy that the environment sets for a URL, None if it sets none or the host is this machine."""
    scheme = urlsplit(url).scheme
    # Other than Go, curl and requests read ALL_PROXY, too
    names = [name for base in (f"{scheme}_proxy", "all_proxy") for name in (base.upper(), base)]
    setting = next((name for name in names if environ.get(name)), "")
    if not setting:
        return None
    try:
        origin = Origin.from_url(url)
    except InvalidURL:  # reported when a request is sent
        return None
    if not _uses_proxy(origin, environ.get("NO_PROXY") or environ.get("no_proxy") or ""):
        return None
    value = environ[setting].strip()
    return Proxy(value if "://" in value else f"http://{value}", setting)


def _uses_proxy(origin: Origin, exceptions: str) -> bool:
    host, address = origin.host.lower(), _address(origin.host)
    if host == _LOCALHOST or (address and address.is_loopback):
        return False
    entries = [entry.strip().lower() for entry in exceptions.split(",")]
    return not any(_matches(entry, host, address, origin.port) for entry in entries if entry)


def _matches(entry: str, host: str, address: IPv4Address | IPv6Address | None, port: int) -> bool:
    """Return whether an entry of NO_PROXY names the host: by name, address or network, and optionally the port."""
    if entry == "*":
        return True
    if "/" in entry:
        return address is not None and address in _networks(entry)
    name, colon, entry_port = entry.rpartition(":")
    if not colon or (":" in name and not name.endswith("]")):  # an IPv6 address has no port without brackets
        name, entry_port = entry, ""
    if entry_port not in ("", str(port)):
        return False
    if address:
        return _address(name.strip("[]")) == address
    name = name.removeprefix("*") if name.startswith("*.") else name
    with suppress(UnicodeError):
        name = ascii_host(name)
    return bool(name) and (host.endswith(name) if name.startswith(".") else f".{host}".endswith(f".{name}"))


def _networks(text: str) -> Collection[IPv4Address | IPv6Address]:
    """Return the addresses of a network, none if it is invalid."""
    from ipaddress import ip_network  # slow to import

    try:
        return cast("Collection[IPv4Address | IPv6Address]", ip_network(text, strict=False))
    except ValueError:
        return ()


def _address(host: str) -> IPv4Address | IPv6Address | None:
    """Return an IP address; one of IPv4 that is mapped to IPv6 is that of IPv4, as in Go."""
    from ipaddress import IPv6Address, ip_address  # slow to import

    try:
        address = ip_address(host)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
