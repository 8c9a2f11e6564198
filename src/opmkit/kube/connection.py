"""Addresses and credentials of clusters, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class Server(Struct, frozen=True):
    """An API server.

    Attributes:
        authorities: Certificate authorities to trust in PEM, or "" for those of the system.
        tls_name: Name in its certificate, or "" for the host of ``url``.
        proxy: URL of the proxy, or "" for the one in the environment.
    """

    url: str
    authorities: str = ""
    verify_tls: bool = True
    tls_name: str = ""
    proxy: str = ""


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """A client certificate and its key in PEM."""

    certificate: str
    key: str = field(repr=False)


class CredentialPlugin(Struct, frozen=True):
    """A program that prints an ``ExecCredential``.

    Attributes:
        cluster: Description of the cluster to pass to the program, None if it does not ask for it.
        interactive: Whether it may read from the terminal.
    """

    command: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    api_version: str
    install_hint: str = ""
    cluster: Mapping[str, object] | None = None
    interactive: bool = True


@dataclass(frozen=True, slots=True)
class User:
    """Credentials; the default is an anonymous user.

    Attributes:
        token_file: File with a token that is replaced from time to time.
        impersonation: Headers that request the permissions of another user.
    """

    token: str = field(default="", repr=False)
    token_file: Path | None = None
    name: str = ""
    password: str = field(default="", repr=False)
    certificate: ClientCertificate | None = None
    plugin: CredentialPlugin | None = None
    impersonation: tuple[tuple[str, str], ...] = ()


class ClusterConnection(Struct, frozen=True):
    """A cluster, the credentials for it, and the namespace to use by default."""

    server: Server
    user: User
    namespace: str = "default"
