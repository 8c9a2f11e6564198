"""The policy.json of the machine, and which images must be read by digest because of it."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, cast

import pytest

from opmkit.imagetools.errors import ImageToolsError
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryOptions
from opmkit.imagetools.registry.trust_policy import TrustPolicy
from opmkit.imagetools.signatures.documents import SignatureFormat
from opmkit.imagetools.signatures.errors import VerificationFailed
from opmkit.imagetools.spec import IndexManifest
from opmkit.imagetools.store import LayoutRepository
from opmkit.supply.sign.sign import Signer
from tests.kit.content import put_image
from tests.kit.signing import private_key

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit.imagetools.repository import ImageSource

ACCEPT, REJECT = {"type": "insecureAcceptAnything"}, {"type": "reject"}
NAME = "quay.io/me/app"
IMAGE = Reference.parse(f"{NAME}:1")
UNREADABLE = cast("ImageSource", None)
KEY = private_key("ecdsa")


def write(directory: Path, default: object = REJECT, **scopes: object) -> Path:
    path = directory / "containers" / "policy.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    docker = {name: [rule] for name, rule in scopes.items()}
    path.write_text(json.dumps({"default": [default], "transports": {"docker": docker} if docker else {}}))
    return path


@pytest.fixture
def policy(tmp_path: Path) -> TrustPolicy:
    """Return the policy of a user whose home, and whose system's settings, are below ``tmp_path``."""
    return TrustPolicy(RegistryOptions(), {"HOME": str(tmp_path / "home")}, tmp_path / "etc")


def rejects(policy: TrustPolicy) -> bool:
    try:
        policy.admit(IMAGE, UNREADABLE, "1")
    except VerificationFailed:
        return True
    return False


def test_without_a_file_every_image_is_accepted(policy: TrustPolicy) -> None:
    assert not rejects(policy)


def test_the_directory_of_settings_can_be_another(tmp_path: Path) -> None:
    write(tmp_path / "settings")
    write(tmp_path / "home" / ".config", ACCEPT)
    environ = {"HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": str(tmp_path / "settings")}
    assert rejects(TrustPolicy(RegistryOptions(), environ, tmp_path / "etc"))


def test_a_pipe_is_not_a_policy(policy: TrustPolicy, tmp_path: Path) -> None:
    path = write(tmp_path / "home" / ".config")
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ImageToolsError, match="not a regular file"):
        rejects(policy)


def test_the_file_of_the_user_comes_first(policy: TrustPolicy, tmp_path: Path) -> None:
    write(tmp_path / "etc", ACCEPT)
    write(tmp_path / "home" / ".config", REJECT)
    assert rejects(policy)


def test_the_file_of_the_system_applies_to_users_without_one(policy: TrustPolicy, tmp_path: Path) -> None:
    write(tmp_path / "etc", REJECT)
    assert rejects(policy)


def test_options_take_precedence(tmp_path: Path) -> None:
    path = write(tmp_path / "etc", REJECT)
    assert not rejects(TrustPolicy(RegistryOptions(insecure_policy=True), {"HOME": "/"}, tmp_path / "etc"))
    assert rejects(TrustPolicy(RegistryOptions(signature_policy=path), {"HOME": "/"}, tmp_path))
    with pytest.raises(ImageToolsError, match="No such file"):
        rejects(TrustPolicy(RegistryOptions(signature_policy=tmp_path / "missing"), {"HOME": "/"}, tmp_path))
    with pytest.raises(ValueError, match="exclude each other"):
        RegistryOptions(signature_policy=path, insecure_policy=True)


def test_a_dangling_link_is_an_error(policy: TrustPolicy, tmp_path: Path) -> None:
    path = write(tmp_path / "home" / ".config")
    path.unlink()
    path.symlink_to("missing")
    with pytest.raises(ImageToolsError, match=r"signature policy .*No such file"):
        rejects(policy)


def test_accepted_images_cost_no_request(policy: TrustPolicy, tmp_path: Path) -> None:
    write(tmp_path / "etc", REJECT, **{NAME: ACCEPT})
    assert policy.admit(IMAGE, UNREADABLE, "1") == "1"


def test_an_image_accepted_by_tag_is_read_by_digest(policy: TrustPolicy, tmp_path: Path) -> None:
    write(tmp_path / "etc", REJECT, **{f"{NAME}:1": ACCEPT})
    repository = LayoutRepository(tmp_path / "layout")
    digest = put_image(repository, "1", b"x").digest
    by_digest = IMAGE.with_digest(digest)
    with pytest.raises(VerificationFailed):
        policy.admit(by_digest, repository, digest)
    assert policy.admit(IMAGE, repository, "1") == digest
    assert policy.admit(by_digest, repository, digest) == digest
    with pytest.raises(VerificationFailed):
        policy.admit(Reference.parse(f"quay.io/me/other@{digest}"), repository, digest)


def test_each_name_must_be_accepted_itself(policy: TrustPolicy, tmp_path: Path) -> None:
    write(tmp_path / "etc", REJECT, **{f"{NAME}:1": ACCEPT})
    repository = LayoutRepository(tmp_path / "layout")
    digest = put_image(repository, "1", b"x").digest
    put_image(repository, "2", b"x")
    assert policy.admit(IMAGE, repository, "1") == digest
    for identifier in ("2", digest):
        with pytest.raises(VerificationFailed):
            policy.admit(IMAGE.with_tag("2"), repository, identifier)


@pytest.mark.parametrize("signs_index", [True, False])
def test_an_index_is_signed_itself_or_its_images_are(policy: TrustPolicy, tmp_path: Path, *, signs_index: bool) -> None:
    (tmp_path / "key.pub").write_bytes(KEY.public_key.pem)
    identity = {"type": "matchRepository"}
    write(
        tmp_path / "etc",
        {"type": "sigstoreSigned", "keyPath": str(tmp_path / "key.pub"), "signedIdentity": identity},
    )
    repository = LayoutRepository(tmp_path / "layout")
    images = [put_image(repository, "", content).descriptor for content in (b"x", b"y")]
    index = IndexManifest.build(images)
    repository.put_manifest(index, "1")
    signer = Signer(KEY, SignatureFormat.TAG)
    signer.sign(repository, images[0], NAME)
    with pytest.raises(VerificationFailed, match="no signature found"):
        policy.admit(IMAGE, repository, "1")
    signer.sign(repository, index.descriptor if signs_index else images[1], NAME)
    assert policy.admit(IMAGE, repository, "1") == index.digest
