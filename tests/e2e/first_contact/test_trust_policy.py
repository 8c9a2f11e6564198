"""policy.json applies to every image that is read, as in skopeo; see containers-policy.json(5)."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.bundles import bundle_image, push_image
from tests.kit.opm import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.installed import InstalledOpm
    from tests.kit.registry import Registry

ACCEPT, REJECT = {"type": "insecureAcceptAnything"}, {"type": "reject"}
SAMPLES = FIXTURES / "signatures"
SIGNER = "releases@example.com"
needs_skopeo = pytest.mark.skipif(not shutil.which("skopeo"), reason="skopeo is not installed")
needs_gpg = pytest.mark.skipif(not (shutil.which("gpg") and shutil.which("skopeo")), reason="gpg is not installed")


@pytest.fixture(scope="module")
def repository(registry: Registry, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a repository with two bundles."""
    scratch = tmp_path_factory.mktemp("policy")
    name = f"{registry.host.replace('127.0.0.1', 'localhost')}/trust/lagoon"
    for version in ("0.1.0", "0.2.0"):
        push_image(f"{name}:{version}", bundle_image("lagoon", version, scratch))
    return name


def write_policy(user: InstalledOpm, default: object, **scopes: object) -> Path:
    """Write the user's policy.json, with scopes of registries and their requirements."""
    path = user.home / ".config" / "containers" / "policy.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    docker = {name: [rule] for name, rule in scopes.items()}
    path.write_text(json.dumps({"default": [default], "transports": {"docker": docker} if docker else {}}))
    return path


COMMANDS = (
    ["image", "inspect", "IMAGE"],
    ["image", "pull", "IMAGE"],
    ["image", "copy", "IMAGE", "oci:copied:1"],
    ["bundle", "validate", "IMAGE"],
    ["bundle", "unpack", "IMAGE"],
    ["bundle", "permissions", "IMAGE"],
    ["render", "IMAGE"],
    ["alpha", "render-template", "basic", "template.yaml"],
    ["index", "add", "--bundles", "IMAGE", "--binary-image", "scratch", "-t", "oci:index:1"],
    ["registry", "add", "-b", "IMAGE", "-d", "index.db"],
    ["mirror", "catalog", "--to", "oci:mirror", "--target-catalog", "me/catalog:1", "--binary-image", "scratch"],
    ["validate", "IMAGE"],
    ["index", "images", "IMAGE"],
    ["index", "diff", "IMAGE", "catalog"],
    ["alpha", "list", "bundles", "IMAGE"],
    ["render", "IMAGE", "--executor", "processes:1"],
    ["index", "manifests", "IMAGE"],
    ["index", "manifests", "IMAGE", "--package", "lagoon"],
    ["index", "manifests", "IMAGE", "--package", "lagoon", "--olm", "v1"],
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_refuses_rejected_images(newcomer: InstalledOpm, repository: str, command: list[str]) -> None:
    image = f"{repository}:0.1.0"
    write_catalog(newcomer, image)
    arguments = [image if word == "IMAGE" else word for word in command]
    newcomer("render", "--use-http", image)  # what is cached must satisfy the policy as well
    path = write_policy(newcomer, ACCEPT, **{repository: REJECT})
    done = newcomer.attempt(*arguments, "--use-http")
    assert done.returncode == 1, done.stdout
    assert f"rejected by {path}.transports.docker.{repository}[0]" in done.stderr + done.stdout
    assert not (newcomer.directory / "copied").exists()


def write_catalog(user: InstalledOpm, image: str) -> None:
    """Write a catalog, and a template, with one bundle."""
    (user.directory / "catalog").mkdir()
    blobs: list[dict[str, Any]] = [
        {"schema": "olm.package", "name": "lagoon", "defaultChannel": "c"},
        {"schema": "olm.channel", "package": "lagoon", "name": "c", "entries": [{"name": "lagoon.v0.1.0"}]},
    ]
    bundle = {"schema": "olm.bundle", "image": image}
    template = {"schema": "olm.template.basic", "entries": [*blobs, bundle]}
    (user.directory / "template.yaml").write_text(json.dumps(template))
    properties = [{"type": "olm.package", "value": {"packageName": "lagoon", "version": "0.1.0"}}]
    complete = {**bundle, "name": "lagoon.v0.1.0", "package": "lagoon", "properties": properties}
    (user.directory / "catalog" / "catalog.json").write_text("\n".join(map(json.dumps, [*blobs, complete])))


def test_no_installer_is_written_for_a_rejected_bundle(newcomer: InstalledOpm, repository: str) -> None:
    """The ServiceAccount that installs a bundle that cannot be read is a cluster admin."""
    catalog = f"{repository.rpartition('/')[0]}/catalog:1"
    write_catalog(newcomer, f"{repository}:0.1.0")
    newcomer("index", "build", "catalog", "--binary-image", "scratch", "--tag", catalog, "--push", "--use-http")
    arguments = ["index", "manifests", catalog, "--package", "lagoon", "--olm", "v1", "--use-http"]
    assert "kind: ClusterExtension\n" in newcomer.attempt(*arguments).stdout
    path = write_policy(newcomer, ACCEPT, **{repository: REJECT})
    done = newcomer.attempt(*arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"rejected by {path}" in done.stderr
    path.write_text("{")
    done = newcomer.attempt("index", "manifests", catalog, "--use-http")
    assert (done.returncode, "invalid JSON" in done.stderr) == (1, True)


def test_local_images_are_rejected(newcomer: InstalledOpm, repository: str) -> None:
    newcomer("image", "copy", "--use-http", f"{repository}:0.1.0", "oci:images:1")
    newcomer("image", "copy", "oci:images:1", "oci-archive:images.tar:1")
    newcomer("image", "pull", "--use-http", f"{repository}:0.1.0")
    write_policy(newcomer, REJECT)
    for image in ("oci:images:1", "oci-archive:images.tar:1", f"store:{repository}:0.1.0"):
        done = newcomer.attempt("image", "inspect", image)
        assert (done.returncode, "rejected by" in done.stderr) == (1, True), done.stderr
        newcomer("image", "inspect", "--insecure-policy", image)


def test_a_cached_bundle_of_a_rejected_repository_is_not_rendered(newcomer: InstalledOpm, repository: str) -> None:
    image = newcomer("image", "copy", "--use-http", f"{repository}:0.1.0", "oci:images:1")
    by_digest = f"{repository}@{image.strip().rpartition('@')[2]}"
    newcomer("render", "--use-http", by_digest)
    write_policy(newcomer, REJECT)
    done = newcomer.attempt("render", "--use-http", by_digest)
    assert (done.returncode, "rejected by" in done.stderr) == (1, True)


def test_broken_policies_reject(newcomer: InstalledOpm, repository: str) -> None:
    path = write_policy(newcomer, ACCEPT)
    for content, problem in (
        ("", "invalid JSON"),
        ("{}", "expected at least one requirement"),
        ('{"default": []}', "expected at least one requirement"),
        (None, "No such file"),
    ):
        path.unlink()
        if content is None:
            path.symlink_to("missing.json")
        else:
            path.write_text(content)
        done = newcomer.attempt("image", "inspect", "--use-http", f"{repository}:0.1.0")
        assert (done.returncode, problem in done.stderr) == (1, True), (content, done.stderr)
    for target in ("missing", str(SAMPLES / "README.md")):
        shutil.rmtree(path.parent, ignore_errors=True)
        path.parent.unlink(missing_ok=True)
        path.parent.symlink_to(target)
        done = newcomer.attempt("image", "inspect", "--use-http", f"{repository}:0.1.0")
        assert (done.returncode, "containers/policy.json: No" in done.stderr) == (1, True), (target, done.stderr)
    done = newcomer.attempt("image", "inspect", "--signature-policy=", f"{repository}:0.1.0")
    assert (done.returncode, "empty value of --signature-policy" in done.stderr) == (1, True)


class Judge:
    """skopeo and the installed opm, which copy an image with one policy."""

    def __init__(self, user: InstalledOpm, skopeo: str) -> None:
        self._user, self._skopeo = user, skopeo

    def accepts(self, image: str, policy: object) -> bool:
        """Return whether both copy an image; they must agree."""
        path = self._user.directory / "policy.json"
        path.write_text(json.dumps(policy))
        options = ["--src-tls-verify=false", f"docker://{image}", f"dir:{self._user.directory / 'copy'}"]
        theirs = self._user.shell_out([self._skopeo, "--policy", str(path), "copy", *options])
        ours = self._user.attempt("image", "copy", "--use-http", "--signature-policy", str(path), image, "oci:copied:1")
        assert (theirs.returncode == 0) is (ours.returncode == 0), (policy, theirs.stderr, ours.stderr)
        return ours.returncode == 0


@pytest.fixture
def judge(newcomer: InstalledOpm) -> Judge:
    """Return skopeo and opm, run by the same user."""
    return Judge(newcomer, shutil.which("skopeo") or "")


@needs_skopeo
def test_scopes_as_in_skopeo(judge: Judge, repository: str) -> None:
    image, host = f"{repository}:0.1.0", repository.partition("/")[0]
    accepted = 0
    for scope in (image, repository, f"{host}/trust", host, "", f"{repository}:0.2.0", f"{host}/trus", "localhost"):
        for rule, other in ((ACCEPT, REJECT), (REJECT, ACCEPT)):
            accepted += judge.accepts(image, {"default": [other], "transports": {"docker": {scope: [rule]}}})
    assert accepted == 8
    assert not judge.accepts(image, {"default": [ACCEPT, REJECT]})
    assert not judge.accepts(image, {"default": [{"type": "signedBaseLayer", "baseLayerIdentity": {"type": "x"}}]})


@needs_skopeo
@pytest.mark.parametrize(
    "scopes",
    [
        {"docker": {"unused.example.com": [{"type": "signedBy", "keyType": "GPGKeys", "keyPath": ""}]}},
        {"docker": {"unused.example.com": [{"type": "signedBaseLayer"}]}},
        {"docker": {"unused.example.com": [{"type": "signedBaseLayer", "baseLayerIdentity": {"type": "x"}}]}},
        {"tarball": {"x": [REJECT]}},
        {"sif": {"x": [REJECT]}},
    ],
    ids=str,
)
def test_scopes_without_the_image_make_policies_invalid_as_in_skopeo(
    judge: Judge, repository: str, scopes: dict[str, Any]
) -> None:
    assert not judge.accepts(f"{repository}:0.1.0", {"default": [ACCEPT], "transports": scopes})


@needs_skopeo
def test_keys_with_line_breaks_as_in_skopeo(judge: Judge, repository: str) -> None:
    rule = {"type": "signedBy", "keyType": "GPGKeys", "keyData": "aGVs\r\nbG8="}
    scopes = {"docker": {"unused.example.com": [rule]}}
    assert judge.accepts(f"{repository}:0.1.0", {"default": [ACCEPT], "transports": scopes})


def _gpg(home: Path, *arguments: object) -> bytes:
    command = ["gpg", "--homedir", str(home), "--batch", "--passphrase", "", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, check=True).stdout


@needs_gpg
def test_signed_by_a_gpg_key_as_in_skopeo(newcomer: InstalledOpm, judge: Judge, repository: str) -> None:
    keys = newcomer.directory / "gnupg"
    keys.mkdir(mode=0o700)
    for name in (SIGNER, "other@example.com"):
        _gpg(keys, "--quick-gen-key", name, "rsa2048", "sign", "never")
        (newcomer.directory / f"{name}.gpg").write_bytes(_gpg(keys, "--export", name))
        (newcomer.directory / f"{name}.asc").write_bytes(_gpg(keys, "--export", "--armor", name))
    subprocess.run(["gpgconf", "--homedir", keys, "--kill", "all"], check=False)
    host = repository.partition("/")[0]
    settings = newcomer.home / ".config" / "containers" / "registries.d"
    settings.mkdir(parents=True)
    storage = newcomer.directory / "lookaside"
    (settings / "local.yaml").write_text(f"docker:\n  {host}:\n    sigstore: file://{storage}\n")
    image, unsigned = f"{repository}:0.1.0", f"{repository}:0.2.0"

    def policy(key: str = f"{SIGNER}.gpg", **identity: str) -> object:
        required = {"type": "signedBy", "keyType": "GPGKeys", "keyPath": str(newcomer.directory / key)}
        return {"default": [{**required, **({"signedIdentity": identity} if identity else {})}]}

    assert not judge.accepts(image, policy())
    _sign(newcomer, keys, image, storage)
    assert judge.accepts(image, policy())
    assert judge.accepts(image, policy(f"{SIGNER}.asc"))
    assert judge.accepts(image, policy(type="matchExact"))
    assert judge.accepts(image, policy(type="matchRepository"))
    assert not judge.accepts(image, policy(type="exactRepository", dockerRepository="quay.io/me/other"))
    assert not judge.accepts(image, policy("other@example.com.gpg"))
    assert not judge.accepts(image, policy("missing.gpg"))
    assert not judge.accepts(unsigned, policy())
    (signature,) = storage.rglob("signature-1")
    signature.write_bytes(signature.read_bytes()[:-20] + bytes(20))
    assert not judge.accepts(image, policy())


def _sign(user: InstalledOpm, keys: Path, image: str, storage: Path) -> None:
    """Sign an image as skopeo does, and store the signature where registries.d says."""
    raw = user.shell_out(["skopeo", "inspect", "--raw", "--tls-verify=false", f"docker://{image}"]).stdout
    manifest = user.directory / "manifest.json"
    manifest.write_text(raw)
    digest = user.shell_out(["skopeo", "manifest-digest", str(manifest)]).stdout.strip()
    path = storage / f"{image.partition('/')[2].rpartition(':')[0]}@{digest.replace(':', '=')}"
    path.mkdir(parents=True)
    command = ["skopeo", "standalone-sign", str(manifest), image, SIGNER, "-o", str(path / "signature-1")]
    done = user.with_env(GNUPGHOME=str(keys)).shell_out(command)
    assert done.returncode == 0, done.stderr


def test_signed_with_a_cosign_key(newcomer: InstalledOpm, repository: str) -> None:
    image, signed = f"{repository}:0.1.0", f"{repository.rpartition('/')[0]}/signed:1"
    newcomer("image", "copy", "--use-http", image, f"docker://{signed}")
    signer = newcomer.with_env(COSIGN_PASSWORD="secret")
    signer("image", "generate-key-pair")
    rule = {"type": "sigstoreSigned", "keyPath": "cosign.pub", "signedIdentity": {"type": "matchRepository"}}
    write_policy(newcomer, rule, **{repository: ACCEPT})
    newcomer("render", "--use-http", image)
    done = newcomer.attempt("render", "--use-http", signed)
    assert (done.returncode, "no signature found" in done.stderr) == (1, True), done.stderr
    signer("image", "sign", "--use-http", "--key", "cosign.key", signed)
    newcomer("render", "--use-http", signed)
    newcomer("image", "copy", "--use-http", signed, "oci:copied:1")
    write_catalog(newcomer, signed)
    catalog = ("--target-catalog", "me/catalog:1", "--binary-image", "scratch")
    newcomer("mirror", "catalog", "--use-http", "--to", "./mirror", *catalog)
    assert '.sig"' in (newcomer.directory / "mirror" / "index.json").read_text()
    done = newcomer.attempt("mirror", "./mirror", "--use-http", "--to", f"{repository.partition('/')[0]}/loaded")
    assert (done.returncode, "not accepted by the policy" in done.stderr) == (1, True), done.stderr
    write_policy(newcomer, {**rule, "rekorPublicKeyPath": "rekor.pub"})
    done = newcomer.attempt("render", "--use-http", signed)
    assert (done.returncode, "rekorPublicKeyPath: unsupported" in done.stderr) == (1, True), done.stderr
