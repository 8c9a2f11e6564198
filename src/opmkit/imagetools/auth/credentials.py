"""What a registry or its token server is shown."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user's name and password, or in their place an identity token or a registry token.

    An identity token (an OAuth2 refresh token) is for the token server, a registry token (a bearer token) is good for
    the registry as it is. ``source`` says where they were found. ``repr`` shows no secret.
    """

    username: str
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)
    registry_token: str = field(default="", repr=False)
    source: str = ""

    def basic(self) -> str:
        """The value of an Authorization header (RFC 7617)."""
        pair = f"{self.username}:{self.password}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"
