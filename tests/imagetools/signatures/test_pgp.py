"""OpenPGP messages that GnuPG verifies."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.signatures.errors import InvalidKey, InvalidSignature
from opmkit.imagetools.signatures.pgp import open_keyring
from tests.kit.requirements import require

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONTENT = b'{"critical":{}}'
SIGNER, OTHER = "releases@example.com", "other@example.com"


@dataclass(frozen=True)
class Signers:
    """The home directory of GnuPG with two secret keys."""

    home: Path

    def run(self, *arguments: str, content: bytes = CONTENT) -> bytes:
        options = ["--homedir", str(self.home), "--batch", "--passphrase", "", "--pinentry-mode", "loopback"]
        command = [require("gpg"), *options, *arguments]
        return subprocess.run(command, input=content, capture_output=True, check=True).stdout

    def key(self, name: str = SIGNER) -> bytes:
        return self.run("--export", name)


@pytest.fixture(scope="module")
def signers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Signers]:
    home = tmp_path_factory.mktemp("gpg")
    home.chmod(0o700)
    signers = Signers(home)
    for name in (SIGNER, OTHER):
        signers.run("--quick-gen-key", name, "ed25519", "sign", "never")
    yield signers
    subprocess.run([require("gpgconf"), "--homedir", str(home), "--kill", "all"], check=True)


def read(message: bytes, *keys: bytes) -> bytes:
    with open_keyring({f"key {number}": key for number, key in enumerate(keys)}) as keyring:
        return keyring.read(message)


def test_content_of_a_message_by_one_of_the_keys(signers: Signers) -> None:
    message = signers.run("--local-user", SIGNER, "--sign")
    assert read(message, signers.key()) == CONTENT
    assert read(message, signers.key(OTHER), signers.key()) == CONTENT
    assert read(message, signers.run("--export", "--armor", SIGNER)) == CONTENT


def test_messages_that_prove_nothing(signers: Signers) -> None:
    signed = signers.run("--local-user", SIGNER, "--sign")
    literal = signers.run("--store")
    both = signers.run("--local-user", SIGNER, "--local-user", OTHER, "--sign")
    for message in (b"", b"x", literal, literal + signed, both, signed[:-9]):
        with pytest.raises(InvalidSignature, match="not signed with the key"):
            read(message, signers.key(), signers.key(OTHER))
    with pytest.raises(InvalidSignature):
        read(signed, signers.key(OTHER))


@pytest.mark.parametrize("compression", ["0", "1"])
def test_only_signed_content_is_returned(signers: Signers, compression: str) -> None:
    signed = signers.run("-z", compression, "--local-user", SIGNER, "--sign")
    literal = signers.run("-z", compression, "--store", content=b"forged")
    for message in (literal + signed, signed + literal, signed + signed, literal + signed + literal):
        try:
            content = read(message, signers.key())
        except InvalidSignature:
            continue
        assert content == CONTENT


def test_large_contents(signers: Signers) -> None:
    with pytest.raises(InvalidSignature):
        read(signers.run("--local-user", SIGNER, "--sign", content=bytes(8 << 20)), signers.key())


def test_expired_keys(signers: Signers) -> None:
    name = "expired@example.com"
    past = ("--faked-system-time", "20200101T000000!")
    signers.run(*past, "--quick-gen-key", name, "ed25519", "sign", "1d")
    message = signers.run(*past, "--local-user", name, "--sign")
    with pytest.raises(InvalidSignature, match="EXPKEYSIG"):
        read(message, signers.key(name))


def test_invalid_keys(signers: Signers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(InvalidKey, match="key 0: not an OpenPGP public key"):
        read(b"", b"x")
    (tmp_path / "gpg").touch(mode=0o700)
    monkeypatch.chdir(tmp_path)
    for path, problem in ((str(tmp_path / "empty"), "gpg not found"), (".", "not an OpenPGP"), ("", "not an OpenPGP")):
        monkeypatch.setenv("PATH", path)  # never a program of the working directory: "." and "" mean the default path
        with pytest.raises(InvalidKey, match=problem):
            read(b"", b"x")
