"""Sign images with cosign and record the result as an image layout in fixtures/signatures."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.kit.content import put_image
from tests.kit.registry import Registry

from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from opmkit.imagetools.repository import Repository
from opmkit.imagetools.spec import Manifest
from opmkit.imagetools.store import LayoutRepository

FIXTURES = Path(__file__).parents[1] / "fixtures" / "signatures"
PASSWORD = "throw-away"  # noqa: S105 (of keys that only tests use)
KEYS = {
    "ecdsa": ("openssl", "ecparam", "-genkey", "-name", "prime256v1", "-noout"),
    "p384": ("openssl", "ecparam", "-genkey", "-name", "secp384r1", "-noout"),
    "rsa": ("openssl", "genrsa", "2048"),
    "ed25519": ("openssl", "genpkey", "-algorithm", "ed25519"),
}
OFFLINE = ("--tlog-upload=false", "--use-signing-config=false", "--yes")


def main() -> None:
    """Record the signatures that the cosign at the path in the arguments creates."""
    shutil.rmtree(FIXTURES / "layout", ignore_errors=True)
    FIXTURES.mkdir(exist_ok=True)
    with Registry() as registry, TemporaryDirectory() as scratch:
        cosign = partial(run, str(Path(sys.argv[1]).resolve()))
        os.chdir(scratch)
        Path("predicate.json").write_text('{"content":"sample"}')
        for name, command in KEYS.items():
            Path(f"{name}.pem").write_bytes(subprocess.run(command, capture_output=True, check=True).stdout)
            cosign("import-key-pair", "--key", f"{name}.pem", "--output-key-prefix", name, "--yes")
        for tag in ("tags", "bundles"):
            repository = RegistryClient(RegistryOptions(plain_http=True)).target(
                Reference(registry.host, f"sample/{tag}")
            )
            image = put_image(repository, tag, tag.encode())
            name, form = f"{repository.name}@{image.digest}", f"--new-bundle-format={str(tag == 'bundles').lower()}"
            for key in KEYS:
                cosign("sign", "--key", f"{key}.key", "-a", f"key={key}", form, *OFFLINE, name)
            for key in ("ecdsa", "ed25519"):
                cosign(
                    *("attest", "--key", f"{key}.key", form, *OFFLINE, "--type", "cyclonedx"),
                    *("--predicate", "predicate.json", name),
                )
            record(repository, LayoutRepository(FIXTURES / "layout"), image.digest)
        for key in KEYS:
            shutil.copy(f"{key}.pub", FIXTURES)
        shutil.copy("ecdsa.key", FIXTURES)
    for temporary in ("opmkit.lock", "ingest"):
        path = FIXTURES / "layout" / temporary
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def run(*command: str) -> None:
    """Run a program with the password of the keys."""
    subprocess.run(command, check=True, env={**os.environ, "COSIGN_PASSWORD": PASSWORD})


def record(repository: Repository, target: Repository, digest: str) -> None:
    """Copy all tagged manifests and all referrers of an image."""
    for tag in repository.tags():
        if isinstance(repository.get_manifest(tag), Manifest):
            copy(repository, target, tag, tag)
    for referrer in repository.referrers(digest):
        copy(repository, target, referrer.digest)


def copy(repository: Repository, target: Repository, identifier: str, tag: str | None = None) -> None:
    """Copy one manifest with its blobs."""
    manifest = repository.get_manifest(identifier)
    for blob in manifest.children:
        target.put_blob(blob, partial(repository.open_blob, blob))
    target.put_manifest(manifest, tag)


if __name__ == "__main__":
    main()
