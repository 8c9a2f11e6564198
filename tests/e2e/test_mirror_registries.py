"""``opm mirror``, ``--prune`` and ``delete`` with registries of other implementations, next to catalogs of others."""

from __future__ import annotations

import json
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from opmkit.imagetools.image import Image
from opmkit.imagetools.signatures.keys import load_private_key
from opmkit.imagetools.spec import Platform
from tests.e2e.test_mirror_delete import Mirror, mirrored
from tests.kit import golang
from tests.kit.mirror_site import MirrorSite, digest_at, incomplete_tags
from tests.kit.opm import FIXTURES
from tests.kit.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.opm import Opm

pytestmark = pytest.mark.timeout(900)  # building takes minutes, the first time


@contextmanager
def go_registry(program: Path) -> Iterator[str]:
    """Run the registry of go-containerregistry, and yield its address."""
    with subprocess.Popen([program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


@pytest.fixture(params=["docker-registry", "distribution", "go-containerregistry"])
def host(request: pytest.FixtureRequest, pytestconfig: pytest.Config) -> Iterator[str]:
    """Start an empty registry, and yield its address."""
    assert pytestconfig.cache is not None
    cache = pytestconfig.cache.mkdir("opmkit-go")
    if request.param == "go-containerregistry":
        with go_registry(golang.goregistry(cache)) as address:
            yield address
    else:
        with Registry(program=golang.distribution(cache) if request.param == "distribution" else None) as registry:
            yield registry.host


@pytest.fixture
def mirror(opm_http: Opm, registry: Registry, host: str, tmp_path: Path) -> Mirror:
    """Mirror two catalogs, with a signature, and an SBOM that refers to its image."""
    site = MirrorSite(registry.host, f"reg-{tmp_path.name.replace('_', '-').lower()}", tmp_path)
    key = load_private_key(str(FIXTURES / "signatures" / "ecdsa.key"), lambda: "throw-away").key
    opm_http.env["SIGNING_KEY"] = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    result = mirrored(opm_http, site, host, is_mirrored=False)
    reef, atoll = result.bundles
    (tmp_path / "sbom.json").write_text('{"spdxVersion": "SPDX-2.3"}')
    opm_http("image", "sign", "--key", "env://SIGNING_KEY", reef.images[0], atoll.image)
    attest = ("image", "attest", "--key", "env://SIGNING_KEY", "--predicate", "sbom.json", "--type", "spdxjson")
    opm_http(*attest, "--new-bundle-format", reef.image)
    for catalog in result.catalogs:
        opm_http("mirror", catalog, "--to", result.to)
    return result


def test_nothing_needed_is_lost(mirror: Mirror) -> None:
    first, second = mirror.catalogs
    reef, atoll = mirror.bundles
    fish, kelp = reef.images
    theirs = MirrorSite(mirror.host, "m/theirs", mirror.site.scratch)
    theirs.push_catalog([reef], "oc")  # of another tool, which relies on the images that are there
    kept = mirror.delete(first, "--yes")
    assert kept.returncode == 0, kept.stderr
    assert mirror.has(first, reef.image, fish, kelp, atoll.image) == [False, True, True, True, True]
    pruned = mirror.opm.attempt("mirror", first, "--to", mirror.to, "--target-catalog", "current:1", "--prune")
    assert pruned.returncode == 0, pruned.stderr
    done = mirror.delete(f"{mirror.to}/theirs/catalog:oc", "--yes")  # no mirror has put it
    assert (done.returncode, "pass --yes-unrecorded" in done.stderr) == (1, True)
    assert digest_at(f"{mirror.to}/theirs/catalog:oc")
    done = mirror.delete(f"{mirror.to}/theirs/catalog:oc", "--yes", "--yes-unrecorded")
    assert done.returncode == 0, done.stderr
    assert mirror.has(reef.image, fish, kelp, atoll.image) == [True] * 4  # for current:1
    pruned = mirror.opm.attempt("mirror", second, "--to", mirror.to, "--target-catalog", "current:1", "--prune")
    assert (pruned.returncode, mirror.has(reef.image, fish, kelp, atoll.image)) == (0, [False, False, True, True])
    assert incomplete_tags(mirror.host) == []
    done = mirror.delete(second, f"{mirror.to}/current:1", "--yes", "--output", "json")
    assert {image["state"] for image in json.loads(done.stdout)["images"]} == {"deleted"}
    assert mirror.tags() == []
    again = mirror.opm.attempt("mirror", first, "--to", mirror.to)
    assert (again.returncode, mirror.has(first, reef.image, fish, kelp, atoll.image)) == (0, [True] * 5), again.stderr


def test_tags_of_others_are_not_moved(mirror: Mirror) -> None:
    first, second = mirror.catalogs
    name = ("--target-catalog", "other:1", "--to", mirror.to)
    theirs = MirrorSite(mirror.host, "m", mirror.site.scratch)
    theirs.push("other", "1", Image.scratch(Platform.parse("linux/amd64")))
    refused = mirror.opm.attempt("mirror", second, *name)
    assert (refused.returncode, "m/other:1: refusing to move the tag" in refused.stderr) == (1, True)
    assert "with --overwrite-tags" in refused.stderr
    moved = mirror.opm.attempt("mirror", second, *name, "--overwrite-tags")
    assert (moved.returncode, digest_at(f"{mirror.to}/other:1")) == (0, digest_at(second)), moved.stderr
    assert mirror.opm.attempt("mirror", first, *name).returncode == 0
