"""Failures of credential helpers."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.credentials import run_credential_helper

if TYPE_CHECKING:
    from pathlib import Path


def test_missing_credentials_are_not_a_warning(secrets: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert run_credential_helper("test", "quay.io") is None
    assert not caplog.records


@pytest.mark.parametrize(
    ("script", "warning"),
    [
        (None, "not found in PATH"),
        ("exit 3", "exit code 3"),
        ("echo s3cret", "invalid JSON"),
        ('echo \'{"Username":"u"}\'', "invalid JSON"),
        ("echo '[]'", "invalid JSON"),
        ('printf \'%s\' \'{"Username":"\\ud800","Secret":"s3cret"}\'', "invalid JSON"),
        ("sleep 20", "timed out after 0.2 s"),
        ("cat; exec 1>&-; sleep 20", "timed out after 0.2 s"),
        ("yes s3cret", "exceeds the limit of 1048576 bytes"),
        ("yes [ | head -c 500000 | tr -d '\\n'", "invalid JSON"),
        ("(sleep 20 &) ; exit 3", "timed out after 0.2 s"),
    ],
)
def test_failures_are_warnings(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    script: str | None,
    warning: str,
) -> None:
    if script:
        program = tmp_path / "docker-credential-broken"
        program.write_text(f"#!/bin/sh\nexec {script}\n" if script.startswith("sleep") else f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with caplog.at_level(logging.WARNING):
        assert run_credential_helper("broken", "quay.io", timeout=0.2 if "timed out" in warning else 10) is None
    assert warning in caplog.text
    assert "s3cret" not in caplog.text
