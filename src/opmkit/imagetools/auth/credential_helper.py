"""Client of credential helpers, the programs ``docker-credential-NAME``.

They read the server's name from standard input and print JSON, see https://github.com/docker/docker-credential-helpers.
"""

from __future__ import annotations

import json
import logging

from opmkit.imagetools.auth.credentials import Credentials

TIMEOUT = 30.0
"""Seconds for a helper to answer; those of cloud providers use the network."""

_TOKEN_USERNAME = "<token>"  # noqa: S105 - not a secret
_NOT_FOUND = "credentials not found"
_log = logging.getLogger(__name__)


def run_credential_helper(name: str, server: str, timeout: float = TIMEOUT) -> Credentials | None:
    """Get the credentials for ``server`` from a helper.

    If the helper is missing, fails or times out, log a warning and return None: the image may be public, or another
    source may have the credentials.
    """
    import subprocess  # most runs need no helper

    program = f"docker-credential-{name}"
    try:
        result = subprocess.run(
            [program, "get"], input=server.encode(), capture_output=True, timeout=timeout, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = f"timed out after {timeout:g} s" if isinstance(error, subprocess.TimeoutExpired) else error.strerror
        _log.warning("credential helper %s for %s: %s", program, server, reason)
        return None
    if result.returncode != 0:
        if _NOT_FOUND not in result.stdout.decode(errors="replace"):
            _log.warning("credential helper %s for %s: exit code %d", program, server, result.returncode)
        return None
    return _parse(program, server, result.stdout)


def _parse(program: str, server: str, output: bytes) -> Credentials | None:
    try:
        fields = json.loads(output)
        username, secret = fields["Username"], fields["Secret"]
    except (ValueError, KeyError, TypeError):
        username = secret = None
    if not isinstance(username, str) or not isinstance(secret, str):
        _log.warning("credential helper %s for %s: invalid JSON in its output", program, server)
        return None
    if username == _TOKEN_USERNAME:
        return Credentials("", identity_token=secret, source=program)
    return Credentials(username, secret, source=program)
