"""Authentication as a registry asks for it: Basic, or Bearer tokens (distribution's token specification)."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from opmkit.imagetools.errors import AuthenticationFailed
from opmkit.imagetools.hints import Hint, Setting
from opmkit.imagetools.registry.challenge import Challenge
from opmkit.imagetools.registry.messages import Request, Response, http_url

if TYPE_CHECKING:
    from collections.abc import Callable

    from opmkit.imagetools.auth import Credentials, Keychain
    from opmkit.imagetools.registry.access import Access
    from opmkit.imagetools.registry.retry import Deadline

    Fetch = Callable[[Request, Deadline], Response]

_CLIENT = "opmkit"
_TOKEN_STATUS = (200, 400, 401, 403)
_LIFETIME = 60
_MAX_LIFETIME = 86_400
_SAFETY = 0.9
"""The part of its lifetime for which a token is used, so that it doesn't expire on its way."""


@dataclass(frozen=True, slots=True)
class _Token:
    value: str = field(repr=False)
    fresh_until: float


class Authenticator:
    """Says what Authorization header a request gets; shared by all threads of a client.

    A registry is first asked without one. What it demands then is remembered, so that later requests, also to its other
    repositories, come with the right header at once. ``fetch`` sends a request to a token server.
    """

    def __init__(self, keychain: Keychain, fetch: Fetch, clock: Callable[[], float], *, plain_http: bool) -> None:
        """``plain_http`` allows to send credentials to a token server without encryption."""
        self._keychain = keychain
        self._fetch = fetch
        self._plain_http = plain_http
        self._clock = clock
        self._challenges: dict[str, Challenge] = {}
        self._tokens: dict[Access, _Token] = {}
        self._turns: dict[Access, threading.Lock] = {}
        self._lock = threading.Lock()

    def header(self, access: Access, deadline: Deadline) -> str | None:
        """The header for a request that needs ``access``; None if its registry hasn't asked for any so far."""
        challenge = self._challenges.get(access.registry)
        return self._respond(challenge, access, None, deadline) if challenge else None

    def answer(self, asked: str, access: Access, refused: str | None, deadline: Deadline) -> str:
        """The header that answers ``asked`` (WWW-Authenticate), after the header ``refused`` was not good enough.

        Raises AuthenticationFailed when there is nothing better to send.
        """
        challenge = Challenge.parse(asked)
        if challenge is None:
            raise AuthenticationFailed(
                f"{access.name}: the registry asks for an authentication that is not known here",
                hint="registries with Basic and Bearer authentication can be used",
            )
        self._challenges[access.registry] = challenge
        header = self._respond(challenge, access, refused, deadline)
        if header is None or header == refused:
            raise self.denied(access, f"{access.name}: the registry asks for credentials")
        return header

    def denied(self, access: Access, message: str) -> AuthenticationFailed:
        """The error for a refusal: ``message``, with the credentials that were used or the places without any."""
        found = self._keychain.find(access.registry, access.repository)
        places = ", ".join(str(place) for place in self._keychain.places)
        used = f"no credentials for {access.registry} in {places}"
        if found:
            used = f"authentication failed for {access.registry} (user {found.username}) with {found.source}"
        return AuthenticationFailed(f"{message}; {used}", hint=f"log in with `podman login {access.registry}`")

    def _respond(self, challenge: Challenge, access: Access, refused: str | None, deadline: Deadline) -> str | None:
        if challenge.scheme == "basic":
            credentials = self._keychain.find(access.registry, access.repository)
            return credentials.basic() if credentials else None
        with self._turn(access):
            token = self._cached(access)
            if token is None or f"Bearer {token.value}" == refused:
                token = self._tokens[access] = self._new_token(challenge, access, deadline)
        return f"Bearer {token.value}"

    def _turn(self, access: Access) -> threading.Lock:
        """What lets one thread at a time ask for the same token."""
        with self._lock:
            return self._turns.setdefault(access, threading.Lock())

    def _cached(self, access: Access) -> _Token | None:
        """A token for this access, else for more than it, that is still good."""
        own = self._tokens.get(access)
        candidates = [own] if own else [token for had, token in list(self._tokens.items()) if had.covers(access)]
        return next((token for token in candidates if self._clock() < token.fresh_until), None)

    def _new_token(self, challenge: Challenge, access: Access, deadline: Deadline) -> _Token:
        credentials = self._keychain.find(access.registry, access.repository)
        if credentials and credentials.registry_token:
            return _Token(credentials.registry_token, math.inf)
        request = self._token_request(challenge, access, credentials)
        begun = self._clock()
        answer = self._fetch(request, deadline)
        if answer.status != 200:
            raise self.denied(access, f"{access.name}: the token server refuses access")
        fields = answer.json(f"{access.name}: token server")
        value = fields.get("token") or fields.get("access_token")
        if not isinstance(value, str) or not value.isascii() or not value.isprintable():
            raise self.denied(access, f"{access.name}: the token server gives no token")
        lifetime = fields.get("expires_in")
        seconds = min(lifetime, _MAX_LIFETIME) if isinstance(lifetime, int) and lifetime > 0 else _LIFETIME
        return _Token(value, begun + seconds * _SAFETY)

    def _token_request(self, challenge: Challenge, access: Access, credentials: Credentials | None) -> Request:
        realm = urlsplit(http_url("", challenge.realm, access.name))
        subject = f"{access.name}: token server {realm.netloc}"
        if credentials and realm.scheme == "http" and not (self._plain_http or access.place.insecure):
            raise AuthenticationFailed(
                f"{subject}: credentials are not sent without encryption",
                hint=Hint.any_of(
                    Hint("use {} if the whole registry is unencrypted", Setting.PLAIN_HTTP),
                    "mark it as insecure in registries.conf",
                ),
            )
        scopes = [*access.scopes(), *_foreign_scopes(challenge)]
        if credentials and credentials.identity_token:
            form = {"grant_type": "refresh_token", "refresh_token": credentials.identity_token, "client_id": _CLIENT}
            content = urlencode({**form, "service": challenge.service, "scope": " ".join(scopes)}).encode()
            form_type = {"Content-Type": "application/x-www-form-urlencoded"}
            return Request(
                "POST",
                challenge.realm,
                subject,
                access,
                form_type,
                lambda: content,
                ok=_TOKEN_STATUS,
                for_token=True,
            )
        query = urlencode([("service", challenge.service), *(("scope", scope) for scope in scopes)])
        url = realm._replace(query="&".join(filter(None, (realm.query, query)))).geturl()
        headers = {"Authorization": credentials.basic()} if credentials else {}
        return Request("GET", url, subject, access, headers, ok=_TOKEN_STATUS, for_token=True)


def _foreign_scopes(challenge: Challenge) -> list[str]:
    """Scopes that the registry names and that are of another kind than ours, such as ``aws`` of Amazon's."""
    return [scope for scope in challenge.scope.split() if not scope.startswith("repository:")]
