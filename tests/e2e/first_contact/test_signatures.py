"""Signatures with keys need no extra; keyless ones name the extra ``keyless`` if it is not installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.imagetools.store import LayoutRepository
from tests.kit.content import put_image

if TYPE_CHECKING:
    from tests.kit.installed import InstalledOpm


def test_keys(newcomer: InstalledOpm) -> None:
    digest = put_image(LayoutRepository(newcomer.directory / "images"), "1", b"x").digest
    signer = newcomer.with_env(COSIGN_PASSWORD="secret")
    signer("image", "generate-key-pair")
    assert signer("image", "sign", "--key", "cosign.key", "oci:images:1") == f"oci:images@{digest}\n"
    verified = signer("image", "verify", "--key", "cosign.pub", "oci:images:1")
    assert verified == f"oci:images@{digest}: signed with cosign.pub\n"


def test_missing_extra(newcomer: InstalledOpm) -> None:
    put_image(LayoutRepository(newcomer.directory / "images"), "1", b"x")
    for arguments in (
        ("sign", "--keyless", "--identity-token", "x"),
        ("verify", "--certificate-identity", "me@example.com", "--certificate-oidc-issuer", "https://example.com"),
    ):
        failed = newcomer.attempt("image", *arguments, "oci:images:1")
        assert failed.returncode == 1
        assert failed.stderr == (
            "Error: keyless signatures are not supported by this installation: sigstore not found\n"
            "  hint: install the extra in a checkout of opmkit: pip install '.[keyless]'\n"
        )
