"""Registry credentials."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user name with a password, or a token. Secrets are not part of ``repr``.

    Attributes:
        username: User name; empty with a token.
        password: Password.
        identity_token: OAuth2 refresh token, for the token server.
        registry_token: Bearer token, for the registry itself.
        source: The file or program that provided the credentials.
    """

    username: str
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)
    registry_token: str = field(default="", repr=False)
    source: str = ""

    def basic(self) -> str:
        """Return the value of an Authorization header (RFC 7617)."""
        pair = f"{self.username}:{self.password}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"
