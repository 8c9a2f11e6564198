"""``--require-signature`` of commands that add bundles and validate catalogs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from opmkit.imagetools.signing.sign import Signer
from tests.imagetools.signing.conftest import private_key
from tests.kit.bundles import bundle_image, push_image

if TYPE_CHECKING:
    from tests.kit.opm import Opm
    from tests.kit.registry import Registry

KEY = ("--require-signature", "cosign.pub")


@pytest.fixture
def site(opm_http: Opm, registry: Registry, request: pytest.FixtureRequest) -> tuple[Opm, str, str]:
    """Push two bundles, of which the first is signed, and write the public key; return the images."""
    key = private_key("ecdsa")
    (opm_http.directory / "cosign.pub").write_bytes(key.public_key.pem)
    prefix = f"{registry.host}/require-{request.node.name.replace('_', '-')}"
    signed, unsigned = (f"{prefix}/{name}:1.0.0" for name in ("signed", "unsigned"))
    for image in (signed, unsigned):
        push_image(image, bundle_image(image.rpartition("/")[2].partition(":")[0], "1.0.0", opm_http.directory))
    repository = RegistryClient(RegistryOptions(plain_http=True)).target(Reference.parse(signed))
    Signer(key).sign(repository, repository.resolve("1.0.0"), repository.name)
    return opm_http, signed, unsigned


def test_index_add(site: tuple[Opm, str, str]) -> None:
    opm, signed, unsigned = site
    (opm.directory / "catalog").mkdir()
    add = ("index", "add", "-f", "catalog", *KEY, "--bundles")
    failed = opm.attempt(*add, f"{signed},{unsigned}")
    assert failed.returncode == 1
    assert "unsigned@sha256:" in failed.stderr
    assert ": no signature found\n  hint: create one with 'opm image sign'" in failed.stderr
    assert not list((opm.directory / "catalog").iterdir())
    opm(*add, signed)
    assert opm("alpha", "list", "bundles", "catalog").split()[-1] == signed


def test_index_update(site: tuple[Opm, str, str]) -> None:
    opm, signed, unsigned = site
    (opm.directory / "catalog").mkdir()
    update = ("index", "update", "-f", "catalog", *KEY, "--add")
    assert "no signature found" in opm.attempt(*update, unsigned).stderr
    assert not list((opm.directory / "catalog").iterdir())
    opm(*update, signed)


def test_permissive_add_does_not_accept_unsigned_bundles(site: tuple[Opm, str, str]) -> None:
    opm, _, unsigned = site
    failed = opm.attempt("registry", "add", "-b", unsigned, "--permissive", "--database", "index.db", *KEY)
    assert failed.returncode == 1
    assert not (opm.directory / "index.db").exists()


def test_directories_have_no_signatures(site: tuple[Opm, str, str]) -> None:
    opm = site[0]
    failed = opm.attempt("registry", "add", "-b", "./bundle", "--database", "index.db", *KEY)
    assert "./bundle: directories have no signatures\n  hint: " in failed.stderr


def test_policy_file(site: tuple[Opm, str, str]) -> None:
    opm, signed, unsigned = site
    rule = {"type": "sigstoreSigned", "keyPath": "cosign.pub", "signedIdentity": {"type": "matchRepository"}}
    scopes = {signed.rpartition("/")[0]: [rule], unsigned.rpartition(":")[0]: [{"type": "insecureAcceptAnything"}]}
    document = {"default": [{"type": "reject"}], "transports": {"docker": scopes}}
    (opm.directory / "policy.json").write_text(json.dumps(document))
    required = ("--require-signature", "policy.json")
    opm("registry", "add", "-b", f"{signed},{unsigned}", "--database", "index.db", *required)
    (opm.directory / "policy.json").write_text(json.dumps({**document, "transports": {}}))
    failed = opm.attempt("registry", "add", "-b", signed, "--database", "other.db", *required)
    assert "rejected by policy.json.default[0]" in failed.stderr


def test_validate(site: tuple[Opm, str, str]) -> None:
    opm, signed, unsigned = site
    (opm.directory / "catalog").mkdir()
    opm("index", "add", "-f", "catalog", "--bundles", f"{signed},{unsigned}")
    failed = opm.attempt("validate", "catalog", *KEY, "-o", "json")
    assert failed.returncode == 1
    (finding,) = json.loads(failed.stdout)["findings"]
    assert finding["rule"] == "GATE-SIGNATURE"
    assert finding["bundle"] == "unsigned.v1.0.0"
    assert finding["message"].endswith(": no signature found")
    opm("index", "rm", "-f", "catalog", "-o", "unsigned")
    assert opm("validate", "catalog", *KEY) == ""
