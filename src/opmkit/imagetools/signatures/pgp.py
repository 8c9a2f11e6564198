"""OpenPGP signatures of images, verified by GnuPG as containers/image does."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.core.scratch import ScratchDirectory
from opmkit.core.search_paths import find_program
from opmkit.imagetools.signatures.documents import MAX_PAYLOAD_SIZE
from opmkit.imagetools.signatures.errors import InvalidKey, InvalidSignature

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_TIMEOUT = 60
_PREFIX = "[GNUPG:] "
_EACH_ONCE = ("NEWSIG", "GOODSIG", "VALIDSIG", "PLAINTEXT")
_ALLOWED = frozenset(
    {*_EACH_ONCE, "KEY_CONSIDERED", "SIG_ID", "PLAINTEXT_LENGTH", "TRUST_ULTIMATE", "TRUST_FULLY", "TRUST_UNDEFINED"}
    | {"TRUST_MARGINAL", "VERIFICATION_COMPLIANCE_MODE", "PROGRESS", "NOTATION_NAME", "NOTATION_DATA"}
    | {"NOTATION_FLAGS", "POLICY_URL"}
    | {"KEYEXPIRED"}  # of any subkey; if it is the one that signed, there is no GOODSIG
)
"""Reports of GnuPG about a message that is only signed; any other, such as EXPKEYSIG or REVKEYSIG, is a failure."""


class Keyring(Struct, frozen=True):
    """The keys that may sign, in a home directory of GnuPG that contains no others."""

    program: str
    home: Path

    def read(self, message: bytes) -> bytes:
        """Return the content of a message that one of the keys signed.

        Raises:
            InvalidSignature: The message is malformed, not signed by exactly one key, or the key is expired or revoked.
        """
        content, status = self.home / "content", self.home / "status"
        content.unlink(missing_ok=True)
        status.touch()
        (self.home / "message").write_bytes(message)
        done = _run(
            self,
            *("--status-file", status, "--trust-model", "always", "--max-output", MAX_PAYLOAD_SIZE),
            *("--output", content, "--decrypt", self.home / "message"),
        )
        reports = [
            line.removeprefix(_PREFIX).split()[0]
            for line in status.read_text(errors="replace").splitlines()
            if line.startswith(_PREFIX)
        ]
        problem = next((report for report in reports if report not in _ALLOWED), "")
        if done.returncode or problem or any(reports.count(report) != 1 for report in _EACH_ONCE):
            raise InvalidSignature(f"not signed with the key ({problem or f'gpg: exit code {done.returncode}'})")
        return content.read_bytes()


@contextmanager
def open_keyring(keys: Mapping[str, bytes]) -> Iterator[Keyring]:
    """Provide a keyring with keys, armored or not, by their names for messages.

    Raises:
        InvalidKey: A key is invalid, or GnuPG is not installed.
    """
    program = find_program("gpg")
    if program is None:
        raise InvalidKey(f"{next(iter(keys))}: cannot be used without GnuPG: gpg not found", hint="install gpg")
    with ScratchDirectory("opm-gpg-") as directory:
        keyring = Keyring(program, Path(directory))
        for name, content in keys.items():
            path = keyring.home / "key"
            path.write_bytes(content)
            if _run(keyring, "--import", path).returncode:
                raise InvalidKey(f"{name}: not an OpenPGP public key", hint="export it with `gpg --export`")
        yield keyring


def _run(keyring: Keyring, *arguments: object) -> subprocess.CompletedProcess[bytes]:
    options = ("--homedir", keyring.home, "--batch", "--no-tty", "--yes", "--no-autostart", "--no-auto-key-retrieve")
    command = [keyring.program, *map(str, options), *map(str, arguments)]
    try:
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, cwd=keyring.home, timeout=_TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise InvalidSignature("gpg does not end") from error
