"""Credentials files and a credential helper for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory of the helper ``test``, which prints the file named like the server and logs each call."""
    program = tmp_path / "bin" / "docker-credential-test"
    program.parent.mkdir()
    program.write_text(
        f"#!/bin/sh\nread -r server\necho $server >> {tmp_path}/calls\n"
        f'file={tmp_path}/secrets/$(echo "$server" | tr / _)\n'
        '[ -f "$file" ] || { echo "credentials not found in native keychain"; exit 1; }\ncat "$file"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    directory = tmp_path / "secrets"
    directory.mkdir()
    return directory
