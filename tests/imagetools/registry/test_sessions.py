"""TLS settings, and what connections need to be imported."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.registry.sessions import TLSConfig

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def own_authority(tmp_path: Path) -> Path:
    """Return a file with one certificate authority."""
    path = tmp_path / "ca.crt"
    argv = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=own"]
    subprocess.run([*argv, "-keyout", str(tmp_path / "key"), "-out", str(path)], check=True, capture_output=True)
    return path


def authorities() -> int:
    return TLSConfig().context().cert_store_stats()["x509_ca"]


def test_only_the_authorities_of_the_system_are_trusted(own_authority: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(own_authority))
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    assert authorities() == 1


def test_authorities_of_certifi_are_trusted_if_the_system_has_none(
    own_authority: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "certs"
    directory.mkdir()
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing"))
    monkeypatch.setenv("SSL_CERT_DIR", str(directory))
    assert authorities() > 50

    (directory / "0123abcd.0").write_bytes(own_authority.read_bytes())
    assert authorities() == 0


def test_other_clients_are_not_imported() -> None:
    program = """if True:
        import sys
        from opmkit.imagetools.errors import RegistryUnavailable
        from opmkit.imagetools.reference import Reference
        from opmkit.imagetools.registry import RegistryClient, RegistryOptions, RetryPolicy
        client = RegistryClient(RegistryOptions(plain_http=True), retry=RetryPolicy(max_attempts_unreachable=1))
        try:
            client.repository(Reference("127.0.0.1:9", "a")).resolve("1")
        except RegistryUnavailable:
            print({"requests", "urllib3", "http.client"} & set(sys.modules))
    """
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env={})
    assert run.stdout == "set()\n"
