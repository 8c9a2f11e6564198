"""Authorization headers: Basic, or Bearer tokens of the distribution token specification."""

from __future__ import annotations

import math
import re
import threading
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from msgspec import Struct

from opmkit.core.hints import Hint
from opmkit.imagetools.errors import AuthenticationFailed
from opmkit.imagetools.hint_terms import ImageSetting
from opmkit.imagetools.registry.messages import Request, Response, http_url, url_host

if TYPE_CHECKING:
    from collections.abc import Callable

    from opmkit.http.messages import Deadline
    from opmkit.imagetools.credentials import Credentials, Keychain
    from opmkit.imagetools.registry.access import Access

    Send = Callable[[Request, Deadline], Response]


_CLIENT_ID = "opmkit"
_TOKEN_STATUSES = (200, 400, 401, 403)
_DEFAULT_LIFETIME = 60
"""Seconds that a token without ``expires_in`` is valid."""
_MAX_LIFETIME = 86_400
_USED_LIFETIME = 0.9
"""Fraction of its lifetime for which a token is used, so that it does not expire in transit."""


class _Token(Struct, frozen=True):
    value: str
    expires_at: float

    def __repr__(self) -> str:
        return f"_Token(expires_at={self.expires_at})"


class Authenticator:
    """The Authorization headers of a client's requests. Thread-safe.

    The first request to a registry has none. The challenge in its response is remembered, so that later requests, also
    to other repositories of the registry, are authorized right away.
    """

    def __init__(self, keychain: Keychain, send: Send, clock: Callable[[], float], *, plain_http: bool) -> None:
        """Create an authenticator.

        Args:
            keychain: The credentials.
            send: A function that sends requests to token servers.
            clock: Monotonic clock.
            plain_http: Whether credentials may be sent to token servers over HTTP.
        """
        self._keychain = keychain
        self._send = send
        self._plain_http = plain_http
        self._clock = clock
        self._challenges: dict[str, Challenge] = {}
        self._tokens: dict[Access, _Token] = {}
        self._token_locks: dict[Access, threading.Lock] = {}
        self._lock = threading.Lock()

    def authorization(self, access: Access, deadline: Deadline) -> str | None:
        """Return the header for a request that needs ``access``, or None if the registry has sent no challenge yet."""
        challenge = self._challenges.get(access.registry)
        return self._respond(challenge, access, None, deadline) if challenge else None

    def respond(self, www_authenticate: str, access: Access, rejected: str | None, deadline: Deadline) -> str:
        """Return the header that responds to a challenge, after the registry rejected the header ``rejected``.

        Raises:
            AuthenticationFailed: There is nothing better to send.
        """
        challenge = Challenge.parse(www_authenticate)
        if challenge is None:
            raise AuthenticationFailed(
                f"{access.name}: unsupported authentication scheme",
                hint="use a registry with Basic or Bearer authentication",
            )
        self._challenges[access.registry] = challenge
        header = self._respond(challenge, access, rejected, deadline)
        if header is None or header == rejected:
            raise self.access_denied(access, f"{access.name}: the registry requires credentials")
        return header

    def access_denied(self, access: Access, message: str) -> AuthenticationFailed:
        """Return the error for denied access: ``message`` with the credentials that were used, or the files read."""
        credentials = self._keychain.find(access.registry, access.repository)
        if credentials:
            details = (
                f"authentication failed for {access.registry} (user {credentials.username}) with {credentials.source}"
            )
        else:
            paths = ", ".join(str(path) for path in self._keychain.paths)
            details = f"no credentials for {access.registry} in {paths}"
        return AuthenticationFailed(f"{message}; {details}", hint=f"log in with `podman login {access.registry}`")

    def _respond(self, challenge: Challenge, access: Access, rejected: str | None, deadline: Deadline) -> str | None:
        if challenge.scheme == "basic":
            credentials = self._keychain.find(access.registry, access.repository)
            return credentials.basic() if credentials else None
        with self._token_lock(access):
            token = self._cached_token(access)
            if token is None or f"Bearer {token.value}" == rejected:
                token = self._tokens[access] = self._request_token(challenge, access, deadline)
        return f"Bearer {token.value}"

    def _token_lock(self, access: Access) -> threading.Lock:
        with self._lock:
            return self._token_locks.setdefault(access, threading.Lock())

    def _cached_token(self, access: Access) -> _Token | None:
        """Return a valid token for this access, or for one that covers it."""
        exact = self._tokens.get(access)
        tokens = [exact] if exact else [token for other, token in list(self._tokens.items()) if other.covers(access)]
        return next((token for token in tokens if self._clock() < token.expires_at), None)

    def _request_token(self, challenge: Challenge, access: Access, deadline: Deadline) -> _Token:
        credentials = self._keychain.find(access.registry, access.repository)
        if credentials and credentials.registry_token:
            return _Token(credentials.registry_token, math.inf)
        request = self._token_request(challenge, access, credentials)
        requested_at = self._clock()
        response = self._send(request, deadline)
        if response.status != 200:
            raise self.access_denied(access, f"{access.name}: access denied by the token server")
        fields = response.json(f"{access.name}: token server")
        value = fields.get("token") or fields.get("access_token")
        if not isinstance(value, str) or not value.isascii() or not value.isprintable():
            raise self.access_denied(access, f"{access.name}: the token server sent no valid token")
        expires_in = fields.get("expires_in")
        lifetime = expires_in if isinstance(expires_in, int) and expires_in > 0 else _DEFAULT_LIFETIME
        return _Token(value, requested_at + min(lifetime, _MAX_LIFETIME) * _USED_LIFETIME)

    def _token_request(self, challenge: Challenge, access: Access, credentials: Credentials | None) -> Request:
        realm = urlsplit(http_url("", challenge.realm, access.name))
        subject = f"{access.name}: token server {url_host(challenge.realm)}"
        if realm.scheme == "http" and not (self._plain_http or access.location.insecure):
            what = "send credentials" if credentials else "ask for a token"
            raise AuthenticationFailed(
                f"{subject}: refusing to {what} over plain HTTP",
                hint=Hint.any_of(
                    Hint("use {} if the whole registry is unencrypted", ImageSetting.PLAIN_HTTP),
                    "mark it as insecure in registries.conf",
                ),
            )
        scopes = [*access.scopes(), *_other_scopes(challenge)]
        if credentials and credentials.identity_token:
            form = {"grant_type": "refresh_token", "refresh_token": credentials.identity_token, "client_id": _CLIENT_ID}
            body = urlencode({**form, "service": challenge.service, "scope": " ".join(scopes)}).encode()
            headers = {"Content-Type": "application/x-www-form-urlencoded"}
            return Request(
                "POST", challenge.realm, subject, access, headers, lambda: body, ok=_TOKEN_STATUSES, for_token=True
            )
        query = urlencode([("service", challenge.service), *(("scope", scope) for scope in scopes)])
        url = realm._replace(query="&".join(filter(None, (realm.query, query)))).geturl()
        headers = {"Authorization": credentials.basic()} if credentials else {}
        return Request("GET", url, subject, access, headers, ok=_TOKEN_STATUSES, for_token=True)


def _other_scopes(challenge: Challenge) -> list[str]:
    """Return the scopes of the challenge that are not of type ``repository``, such as ``aws`` of Amazon ECR."""
    return [scope for scope in challenge.scope.split() if not scope.startswith("repository:")]


_WORD = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_PART = re.compile(
    rf'[\s,]*(?:(?P<name>{_WORD})\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^\s,"]+))|(?P<scheme>{_WORD}))'
)
_SCHEMES = ("bearer", "basic")
"""The supported schemes, in order of preference."""


class Challenge(Struct, frozen=True):
    """A challenge with a supported scheme, ``bearer`` or ``basic``, and its parameters."""

    scheme: str
    realm: str = ""
    service: str = ""
    scope: str = ""

    @classmethod
    def parse(cls, header: str) -> Challenge | None:
        """Return the preferred challenge of a header that may contain several, or None if none is supported."""
        challenges: dict[str, dict[str, str]] = {}
        parameters: dict[str, str] = {}
        for part in _PART.finditer(header):
            if part["scheme"]:
                parameters = challenges.setdefault(part["scheme"].lower(), {})
            else:
                value = part["bare"] or re.sub(r"\\(.)", r"\1", part["quoted"] or "")
                parameters.setdefault(part["name"].lower(), value)
        for scheme in _SCHEMES:
            if scheme in challenges:
                values = challenges[scheme]
                return cls(scheme, *(values.get(name, "") for name in ("realm", "service", "scope")))
        return None
