"""Signatures with keys need no extra; keyless ones name the extra ``keyless`` if it is not installed."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

import pytest

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


@pytest.mark.parametrize(
    "command",
    [
        ("index", "add", "--bundles", "IMAGE", "-t", "catalog:1", "--require-signature="),
        ("index", "add", "--bundles", "IMAGE", "-t", "catalog:1", "--require-signature", ""),
        ("registry", "add", "-b", "IMAGE", "--require-signature="),
        ("validate", "catalog", "--require-signature="),
        ("validate", "catalog", "--allowed-registries="),
        ("validate", "catalog", "--allowed-registries=quay.io/me,"),
        ("image", "verify", "--key", "cosign.pub", "--signed-repository=", "IMAGE"),
        ("image", "verify", "--key", "cosign.pub", "-a", "", "IMAGE"),
        ("image", "verify", "--key=", "IMAGE"),
        ("image", "inspect", "--cert-dir=", "IMAGE"),
        ("image", "inspect", "--ca-file=", "IMAGE"),
        ("image", "inspect", "--authfile=", "IMAGE"),
        ("image", "inspect", "--signature-policy=", "IMAGE"),
    ],
    ids=" ".join,
)
def test_an_empty_restriction_is_an_error(newcomer: InstalledOpm, command: tuple[str, ...]) -> None:
    failed = newcomer.attempt(*command)
    assert failed.returncode == 1
    assert failed.stderr.startswith("Error: empty value of -")


def test_a_bundle_without_an_image_is_not_signed(newcomer: InstalledOpm) -> None:
    signer = newcomer.with_env(COSIGN_PASSWORD="secret")
    signer("image", "generate-key-pair")
    (newcomer.directory / "catalog").mkdir()
    value = {"packageName": "lagoon", "version": "1.0.0"}
    csv = {"kind": "ClusterServiceVersion", "apiVersion": "operators.coreos.com/v1alpha1"}
    encoded = base64.b64encode(json.dumps(csv).encode()).decode()
    blobs: list[dict[str, object]] = [
        {"schema": "olm.package", "name": "lagoon", "defaultChannel": "c"},
        {"schema": "olm.channel", "package": "lagoon", "name": "c", "entries": [{"name": "lagoon.v1"}]},
        {
            "schema": "olm.bundle",
            "name": "lagoon.v1",
            "package": "lagoon",
            "properties": [
                {"type": "olm.package", "value": value},
                {"type": "olm.bundle.object", "value": {"data": encoded}},
            ],
        },
    ]
    (newcomer.directory / "catalog" / "catalog.json").write_text("\n".join(map(json.dumps, blobs)))
    failed = newcomer.attempt("validate", "catalog", "--require-signature", "cosign.pub", "-o", "json")
    assert failed.returncode == 1
    assert "GATE-SIGNATURE" in {finding["rule"] for finding in json.loads(failed.stdout)["findings"]}
