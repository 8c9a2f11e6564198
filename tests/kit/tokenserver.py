"""Authorization server for docker-registry with ``auth: token``.

The protocol is the distribution project's token specification. Tokens are JWTs signed with RS256, with the certificate
in ``x5c``; the registry verifies their scopes and expiry.
"""

from __future__ import annotations

import base64
import json
import re
import ssl
import subprocess
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self
from urllib.parse import parse_qs, urlsplit

from tests.kit.certificates import RSA, certificate_authority
from tests.kit.requirements import require
from tests.kit.webserver import QuietHandler, WebServer

if TYPE_CHECKING:
    from collections.abc import Mapping

_ISSUER, _SERVICE = "opmkit-tests", "registry-tests"


@dataclass(frozen=True)
class IssuedToken:
    """An issued token: the user ("" if anonymous) and the requested scopes."""

    user: str
    scopes: tuple[str, ...]


class TokenServer:
    """A token server for the ``users`` (name to password), who may do everything.

    Anonymous users may pull repositories that match ``public``. ``limits`` maps users to a pattern of the only
    repositories that they may access. ``identity_tokens`` maps refresh tokens to users. A token is valid for
    ``lifetime`` seconds, and 60 more because of the registry's leeway; its response claims ``declared`` seconds. The
    next ``stale`` tokens have expired when they are issued.
    """

    def __init__(
        self,
        users: Mapping[str, str],
        *,
        public: str = r"public/.*",
        limits: Mapping[str, str] | None = None,
        identity_tokens: Mapping[str, str] | None = None,
    ) -> None:
        self.users = dict(users)
        self.identity_tokens = dict(identity_tokens or {})
        self.public = re.compile(public)
        self.limits = dict(limits or {})
        self.lifetime = self.declared = 300
        self.stale = 0
        self.issued: list[IssuedToken] = []

    def __enter__(self) -> Self:
        self._directory = tempfile.TemporaryDirectory(prefix="opmkit-tokens-")
        self._signer = certificate_authority(Path(self._directory.name), "Token signer", RSA)
        pem = self._signer.certificate.read_text()
        self._x5c = base64.b64encode(ssl.PEM_cert_to_DER_cert(pem)).decode()
        server = self

        class Handler(QuietHandler):
            def do_GET(self) -> None:  # noqa: N802 (http.server names it)
                self._reply(parse_qs(urlsplit(self.path).query))

            def do_POST(self) -> None:  # noqa: N802
                self._reply(parse_qs(self.request_body().decode()))

            def _reply(self, query: dict[str, list[str]]) -> None:
                user = server.user_of(self.headers.get("Authorization"), query.get("refresh_token"))
                if user is None:
                    return self.answer(401, b'{"details":"incorrect username or password"}')
                return self.answer(200, server.issue(user, query.get("scope", [])))

        self._web = WebServer(Handler).__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._web.__exit__()
        self._directory.cleanup()

    @property
    def realm(self) -> str:
        return f"http://{self._web.host}/token"

    @property
    def registry_configuration(self) -> dict[str, str]:
        """The section ``auth: token`` of docker-registry's configuration."""
        certificate = str(self._signer.certificate)
        return {"realm": self.realm, "service": _SERVICE, "issuer": _ISSUER, "rootcertbundle": certificate}

    def user_of(self, authorization: str | None, refresh_token: list[str] | None) -> str | None:
        """Return the user of a request, "" without credentials, None with invalid ones."""
        if refresh_token:
            return self.identity_tokens.get(refresh_token[0])
        if authorization is None:
            return ""
        name, _, password = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        return name if self.users.get(name) == password else None

    def issue(self, user: str, scopes: list[str]) -> bytes:
        """Return the response with a token for those of the scopes that the user has rights for."""
        requested = [scope for text in scopes for scope in text.split()]
        self.issued.append(IssuedToken(user, tuple(requested)))
        lifetime = self.lifetime
        if self.stale > 0:
            self.stale, lifetime = self.stale - 1, -120
        token = self._sign([grant for scope in requested if (grant := self._grant(user, scope))], user, lifetime)
        return json.dumps({"token": token, "access_token": token, "expires_in": self.declared}).encode()

    def _grant(self, user: str, scope: str) -> dict[str, object] | None:
        kind, name, actions = scope.split(":")
        allowed = set(actions.split(","))
        if not re.fullmatch(self.limits.get(user, ".*"), name):
            return None
        if not user:
            allowed &= {"pull"} if self.public.fullmatch(name) else set()
        return {"type": kind, "name": name, "actions": sorted(allowed)} if allowed else None

    def _sign(self, access: list[dict[str, object]], user: str, lifetime: int) -> str:
        now = int(time.time())
        claims: dict[str, object] = {
            "iss": _ISSUER,
            "sub": user,
            "aud": _SERVICE,
            "jti": uuid.uuid4().hex,
            "access": access,
        }
        claims |= {"iat": now, "nbf": now - 600, "exp": now + lifetime}
        header = {"typ": "JWT", "alg": "RS256", "x5c": [self._x5c]}
        signed = f"{_base64url(json.dumps(header).encode())}.{_base64url(json.dumps(claims).encode())}"
        command = [require("openssl"), "dgst", "-sha256", "-sign", str(self._signer.key)]
        signature = subprocess.run(command, input=signed.encode(), check=True, capture_output=True).stdout
        return f"{signed}.{_base64url(signature)}"


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
