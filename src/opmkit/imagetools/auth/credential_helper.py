"""Client of credential helpers, the programs ``docker-credential-NAME``.

They read the server's name from standard input and print JSON, see https://github.com/docker/docker-credential-helpers.
"""

from __future__ import annotations

import json
import logging
import selectors
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from opmkit.imagetools.auth.credentials import Credentials

if TYPE_CHECKING:
    from subprocess import Popen

TIMEOUT = 30.0
"""Seconds for a helper to answer; those of cloud providers use the network."""

MAX_OUTPUT = 1 << 20
"""Bytes of the answer of a helper."""
_CHUNK = 1 << 16

_TOKEN_USERNAME = "<token>"  # noqa: S105 - not a secret
_NOT_FOUND = "credentials not found"
_log = logging.getLogger(__name__)


def run_credential_helper(name: str, server: str, timeout: float = TIMEOUT) -> Credentials | None:
    """Get the credentials for ``server`` from a helper.

    If the helper is missing, fails or times out, log a warning and return None: the image may be public, or another
    source may have the credentials.
    """
    program = f"docker-credential-{name}"
    try:
        status, output = _run([program, "get"], server.encode(), timeout)
    except OSError as error:
        _log.warning("credential helper %s for %s: %s", program, server, error.strerror or error)
        return None
    if status != 0:
        if _NOT_FOUND not in output.decode(errors="replace"):
            _log.warning("credential helper %s for %s: exit code %d", program, server, status)
        return None
    return _parse(program, server, output)


def _run(command: list[str], content: bytes, timeout: float) -> tuple[int, bytes]:
    """Run a program and return its exit code and its output; raise OSError if it takes too long or prints too much."""
    import subprocess  # most runs need no helper

    deadline = time.monotonic() + timeout
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
    ) as process:
        try:
            output = _exchange(process, content, deadline)
            return process.wait(max(0.0, deadline - time.monotonic())), output
        except (subprocess.TimeoutExpired, TimeoutError):
            raise TimeoutError(f"timed out after {timeout:g} s") from None
        finally:
            process.kill()


def _exchange(process: Popen[bytes], content: bytes, deadline: float) -> bytes:
    """Write the input of a process, and return its output."""
    if process.stdin is None or process.stdout is None:
        raise OSError("the helper has no pipes")
    with suppress(BrokenPipeError):
        process.stdin.write(content)
    process.stdin.close()
    output = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while selector.select(max(0.0, deadline - time.monotonic())):
            data = process.stdout.read(_CHUNK)
            if not data:
                return bytes(output)
            output += data
            if len(output) > MAX_OUTPUT:
                raise OSError(f"the output exceeds the limit of {MAX_OUTPUT} bytes")
    raise TimeoutError


def _parse(program: str, server: str, output: bytes) -> Credentials | None:
    try:
        fields = json.loads(output)
        username, secret = fields["Username"], fields["Secret"]
    except (ValueError, KeyError, TypeError, RecursionError):
        username = secret = None
    if not isinstance(username, str) or not isinstance(secret, str):
        _log.warning("credential helper %s for %s: invalid JSON in its output", program, server)
        return None
    if username == _TOKEN_USERNAME:
        return Credentials("", identity_token=secret, source=program)
    return Credentials(username, secret, source=program)
