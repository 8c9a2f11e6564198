"""Credentials as headers of requests: tokens, passwords and credential plugins."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from opmkit.core.files import read_limited
from opmkit.kube.connection import ClientCertificate
from opmkit.kube.errors import ClusterError

if TYPE_CHECKING:
    from opmkit.kube.connection import CredentialPlugin, User

_API_GROUP = "client.authentication.k8s.io/"
_TOKEN_FILE_LIFETIME = 60.0
"""Seconds after which a token file is read again; the kubelet replaces tokens well before they expire."""
_EXPIRY_MARGIN = 10.0
"""Seconds before the expiry of a token from which on it is not used."""


class Credentials:
    """The credentials of a user, renewed when necessary."""

    def __init__(self, user: User) -> None:
        """Create credentials; files are read and programs are run on first use."""
        self._user = user
        self._token = user.token
        self._certificate = user.certificate
        self._expires = 0.0 if user.token_file or user.plugin else float("inf")

    def headers(self) -> list[tuple[str, str]]:
        """Return the headers of a request.

        Raises:
            ClusterError: if a token file cannot be read, or the credential plugin fails.
        """
        if time.time() >= self._expires:
            self.renew()
        headers = list(self._user.impersonation)
        if self._token:
            headers.append(("Authorization", f"Bearer {self._token}"))
        elif self._user.name:
            login = base64.b64encode(f"{self._user.name}:{self._user.password}".encode()).decode()
            headers.append(("Authorization", f"Basic {login}"))
        return headers

    @property
    def certificate(self) -> ClientCertificate | None:
        """The client certificate; of a credential plugin, the one that it returned last."""
        return self._certificate

    def renew(self) -> bool:
        """Renew the credentials, and return whether they may have changed; raises ClusterError."""
        if self._user.token_file:
            try:
                self._token = read_limited(self._user.token_file).decode("ascii").strip()
            except (OSError, ValueError) as error:
                cause = error.strerror if isinstance(error, OSError) else "not a token"
                raise ClusterError(f"token file {self._user.token_file}: {cause}") from error
            self._expires = time.time() + _TOKEN_FILE_LIFETIME
            return True
        if self._user.plugin:
            self._take(_run(self._user.plugin), self._user.plugin)
            return True
        return False

    def _take(self, status: dict[str, Any], plugin: CredentialPlugin) -> None:
        """Use the credentials that a plugin returned."""
        names = ("token", "clientCertificateData", "clientKeyData", "expirationTimestamp")
        token, certificate, key, expiry = (status.get(name) or "" for name in names)
        if not all(isinstance(value, str) for value in (token, certificate, key, expiry)):
            raise _invalid_output(plugin)
        if not token and not (certificate and key):
            raise ClusterError(f"credential plugin {plugin.command}: returned no credentials")
        self._token = token
        self._certificate = ClientCertificate(certificate, key) if certificate and key else self._user.certificate
        self._expires = _timestamp(expiry) - _EXPIRY_MARGIN if expiry else float("inf")


def _run(plugin: CredentialPlugin) -> dict[str, Any]:
    """Run a credential plugin and return the ``status`` of its output. It may ask for a login on stderr."""
    if not plugin.api_version.startswith(_API_GROUP):
        raise ClusterError(
            f"credential plugin {plugin.command}: unsupported apiVersion {plugin.api_version!r}",
            hint=f"use {_API_GROUP}v1 in the kubeconfig",
        )
    interactive = plugin.interactive and sys.stdin is not None and sys.stdin.isatty()
    spec = {"interactive": interactive, **({"cluster": plugin.cluster} if plugin.cluster else {})}
    info = json.dumps({"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec})
    try:
        done = subprocess.run(
            [plugin.command, *plugin.arguments],
            env={**os.environ, **plugin.environment, "KUBERNETES_EXEC_INFO": info},
            stdin=None if interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            check=False,
        )
    except (OSError, ValueError) as error:
        cause = error.strerror if isinstance(error, OSError) else "invalid command"
        raise ClusterError(
            f"credential plugin {plugin.command}: {cause}",
            hint=plugin.install_hint or "install it, or correct the user in the kubeconfig",
        ) from error
    if done.returncode:
        raise ClusterError(
            f"credential plugin {plugin.command}: exit status {done.returncode}",
            hint="run it to see what is wrong, or log in to the cluster again",
        )
    try:
        status = json.loads(done.stdout)["status"]
        if not isinstance(status, dict):
            raise TypeError
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise _invalid_output(plugin) from error
    return status


def _invalid_output(plugin: CredentialPlugin) -> ClusterError:
    return ClusterError(f"credential plugin {plugin.command}: output is not an ExecCredential")


def _timestamp(text: str) -> float:
    """Return the seconds of an RFC 3339 time, 0 if it is invalid, so that the credentials are used once."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return 0.0
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
