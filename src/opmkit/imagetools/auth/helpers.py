"""Credential helpers: the programs ``docker-credential-NAME`` that keep secrets in a keyring or get them from a cloud.

The protocol is that of docker/docker-credential-helpers: the server's name on standard input, JSON on standard output.
"""

from __future__ import annotations

import json
import logging

from opmkit.imagetools.auth.credentials import Credentials

TIMEOUT = 30.0
"""Seconds that a helper may take; those of clouds ask over the network."""

_IDENTITY = "<token>"
_NOTHING_STORED = "credentials not found"
_log = logging.getLogger(__name__)


def ask_helper(name: str, server: str, timeout: float = TIMEOUT) -> Credentials | None:
    """What the helper has for ``server``; None, and a warning in the log, if it is missing, fails or hangs.

    A broken helper isn't fatal, since the image may be public or another file may have the credentials.
    """
    import subprocess  # most runs have no helper to ask

    program = f"docker-credential-{name}"
    try:
        done = subprocess.run(
            [program, "get"], input=server.encode(), capture_output=True, timeout=timeout, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = f"gave no answer in {timeout:g} s" if isinstance(error, subprocess.TimeoutExpired) else error.strerror
        _log.warning("credential helper %s for %s: %s", program, server, reason)
        return None
    if done.returncode != 0:
        if _NOTHING_STORED not in done.stdout.decode(errors="replace"):
            _log.warning("credential helper %s for %s: exit code %d", program, server, done.returncode)
        return None
    return _parse(program, server, done.stdout)


def _parse(program: str, server: str, answer: bytes) -> Credentials | None:
    try:
        fields = json.loads(answer)
        username, secret = fields["Username"], fields["Secret"]
    except (ValueError, KeyError, TypeError):
        username = secret = None
    if not isinstance(username, str) or not isinstance(secret, str):
        _log.warning("credential helper %s for %s: its answer is not the JSON it should be", program, server)
        return None
    if username == _IDENTITY:
        return Credentials("", identity_token=secret, source=program)
    return Credentials(username, secret, source=program)
