"""``opm mirror`` with real registries and directories."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from opmkit.imagetools.reference import Reference
from opmkit.imagetools.spec import sha256_digest
from opmkit.supply.mirror.model import digest_tag
from tests.kit.mirror_site import MirrorSite, SampleBundle, digest_at, images_of
from tests.kit.registry import Registry
from tests.kit.requirements import require

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.opm import Opm


@dataclass(frozen=True)
class Mirror:
    """A catalog with two packages, and a function that runs ``opm mirror`` to a prefix of the same registry."""

    site: MirrorSite
    opm: Opm
    catalog: str
    bundles: list[SampleBundle]

    @property
    def images(self) -> list[str]:
        return images_of(self.bundles)


@pytest.fixture
def mirror(opm_http: Opm, registry: Registry, tmp_path: Path) -> Mirror:
    """Push a catalog: ``reef`` needs the operands ``fish`` and ``kelp``, and ``atoll`` needs ``kelp``."""
    site = MirrorSite(registry.host, f"src-{tmp_path.name.replace('_', '-').lower()}", tmp_path)
    bundles = site.sample()
    return Mirror(site, opm_http, site.push_catalog(bundles), bundles)


@pytest.fixture(scope="module")
def target() -> Iterator[Registry]:
    """Start a second registry."""
    with Registry() as started:
        yield started


def mirrored(image: str, to: str) -> str:
    """Return the reference by digest of an image in a mirror."""
    return f"{to}/{image.partition('/')[2]}"


def test_catalog_and_images_are_copied_with_unchanged_digests(mirror: Mirror, target: Registry) -> None:
    to = f"{target.host}/{mirror.site.prefix}"
    done = mirror.opm.attempt("mirror", mirror.catalog, "--to", to)
    assert done.returncode == 0, done.stderr
    catalog = f"{to}/{mirror.site.prefix}/catalog:1"
    assert done.stdout == f"{catalog}@{digest_at(mirror.catalog)}\n"
    assert done.stderr.startswith("5 images copied (")
    for image in mirror.images:
        assert digest_at(mirrored(image, to))
    before = len(target.requests())
    again = mirror.opm.attempt("mirror", mirror.catalog, "--to", to)
    assert again.stderr == "0 images copied (0 B), 5 already present, 0 failed\n"
    # A HEAD for each image; for the catalog, which is known by its tag, also its index and its images.
    assert [request.method for request in target.requests()[before:]].count("HEAD") == 8


def test_dry_run_reports_sizes_and_copies_nothing(mirror: Mirror, target: Registry) -> None:
    to = f"{target.host}/{mirror.site.prefix}"
    plan: dict[str, Any] = json.loads(mirror.opm("mirror", mirror.catalog, "--to", to, "--dry-run", "-o", "json"))
    assert {image["status"] for image in plan["images"]} == {"absent"}
    assert all(0 < image["missing"] == image["size"] for image in plan["images"])
    assert 0 < plan["size"] < sum(image["size"] for image in plan["images"])
    assert not digest_at(f"{to}/{mirror.site.prefix}/catalog:1")
    mirror.opm("mirror", mirror.catalog, "--to", to)
    table = mirror.opm("mirror", mirror.catalog, "--to", to, "--dry-run").splitlines()
    assert [line.split()[1] for line in table[1:-1]] == ["present"] * 5
    assert table[-1] == "0 images to copy, 5 present, 0 failed; 0 B in total"


def test_filtered_catalog_is_built_and_only_its_images_are_copied(mirror: Mirror, target: Registry) -> None:
    to = f"{target.host}/{mirror.site.prefix}"
    done = mirror.opm("mirror", mirror.catalog, "atoll", "--to", to)
    catalog = f"{to}/{mirror.site.prefix}/catalog:1"
    assert done == f"{catalog}@{digest_at(catalog)}\n"
    listed = json.loads(mirror.opm("alpha", "list", "packages", catalog, "-o", "json"))
    assert [package["name"] for package in listed] == ["atoll"]
    reef, atoll = mirror.bundles
    assert all(digest_at(mirrored(image, to)) for image in (atoll.image, *atoll.images))
    assert not any(digest_at(mirrored(image, to)) for image in (reef.image, reef.images[0]))
    again = mirror.opm.attempt("mirror", mirror.catalog, "atoll", "--to", to)
    assert (again.stdout, again.stderr) == (done, "0 images copied (0 B), 2 already present, 0 failed\n")
    mirror.opm("mirror", mirror.catalog, "--to", to, "--target-catalog", "all:2")
    assert digest_at(f"{to}/all:2") == digest_at(mirror.catalog)
    mirror.opm("mirror", mirror.catalog, "--to", to, "--target-catalog", f"{to}/me/all:3")
    assert digest_at(f"{to}/me/all:3") == digest_at(mirror.catalog)


def test_directory_is_an_image_layout_that_other_tools_read(mirror: Mirror, tmp_path: Path) -> None:
    skopeo = require("skopeo")
    done = mirror.opm("mirror", mirror.catalog, "--to", "./mirror")
    assert done == f"{mirror.catalog}@{digest_at(mirror.catalog)}\n"
    fish = Reference.parse(mirror.bundles[0].images[0])
    name = f"oci:{tmp_path}/mirror:{fish.name}:{digest_tag(str(fish.digest))}"
    raw = subprocess.run([skopeo, "inspect", "--raw", name], capture_output=True, check=True).stdout
    assert sha256_digest(raw) == fish.digest
    subprocess.run([skopeo, "copy", "--all", name, f"dir:{tmp_path}/copy"], capture_output=True, check=True)
    again = mirror.opm.attempt("mirror", mirror.catalog, "--to", "./mirror")
    assert again.stderr == "0 images copied (0 B), 5 already present, 0 failed\n"


def test_catalog_directory_is_mirrored_with_a_new_image(mirror: Mirror, target: Registry, tmp_path: Path) -> None:
    to = f"{target.host}/{mirror.site.prefix}"
    directory = str(tmp_path / "catalog-1")
    unnamed = mirror.opm.attempt("mirror", directory, "--to", to)
    assert (unnamed.returncode, "--target-catalog NAME:TAG" in unnamed.stderr) == (1, True)
    done = mirror.opm("mirror", directory, "--to", to, "--target-catalog", "me/new:3", "-i", "scratch")
    assert done.startswith(f"{to}/me/new:3@sha256:")
    assert all(digest_at(mirrored(image, to)) for image in mirror.images)
    assert "reef.v1.0.0" in mirror.opm("alpha", "list", "bundles", f"{to}/me/new:3")


def test_images_that_cannot_be_read_are_listed_with_who_needs_them(mirror: Mirror, target: Registry) -> None:
    to = f"{target.host}/{mirror.site.prefix}"
    lost = f"{mirror.site.host}/{mirror.site.prefix}/kelp@sha256:{'0' * 64}"
    bundles = [*mirror.bundles, SampleBundle("wreck", "1.0.0", mirror.bundles[1].image, [lost, "Not/An Image"])]
    catalog = mirror.site.push_catalog(bundles, "2")
    failed = mirror.opm.attempt("mirror", catalog, "--to", to)
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "2 of 7 images cannot be mirrored; nothing was copied" in failed.stderr
    assert failed.stderr.count("needed by bundle wreck.v1.0.0") == 2
    assert "--continue" in failed.stderr
    assert not digest_at(mirrored(mirror.images[0], to))
    done = mirror.opm.attempt("mirror", catalog, "--to", to, "--continue", "--output", "json")
    assert done.returncode == 5
    report = json.loads(done.stdout)
    assert [failure["needed_by"] for failure in report["failures"]] == [["bundle wreck.v1.0.0"]] * 2
    assert {image["status"] for image in report["images"]} == {"copied"}
    assert digest_at(f"{to}/{mirror.site.prefix}/catalog:2")


def test_selected_platforms_need_a_registry_that_accepts_incomplete_indexes(
    mirror: Mirror, target: Registry, tmp_path: Path
) -> None:
    done = mirror.opm("mirror", mirror.catalog, "--to", "./mirror", "--platform", "linux/arm64")
    assert done == f"{mirror.catalog}@{digest_at(mirror.catalog)}\n"
    to = f"{target.host}/{mirror.site.prefix}"
    refused = mirror.opm.attempt("mirror", mirror.catalog, "--to", to, "--platform", "linux/arm64")
    assert (refused.returncode, "omit --platform" in refused.stderr, "--continue" in refused.stderr) == (1, True, False)
    assert not digest_at(f"{to}/{mirror.site.prefix}/catalog:1")
    absent = mirror.opm.attempt("mirror", mirror.catalog, "--to", to, "--platform", "linux/s390x")
    assert "its platforms are: linux/amd64, linux/arm64" in absent.stderr


def test_names_are_shortened_for_registries_that_limit_paths(mirror: Mirror, target: Registry) -> None:
    to = f"{target.host}/{mirror.site.prefix}"
    mirror.opm("mirror", mirror.catalog, "--to", to, "--max-nested-paths", "2")
    fish = mirror.bundles[0].images[0]
    assert digest_at(f"{to}/{mirror.site.prefix}-team-fish@{fish.partition('@')[2]}")
    long = mirror.opm.attempt("mirror", mirror.catalog, "--to", f"{target.host}/{'x' * 240}")
    assert (long.returncode, "exceeds 255 characters" in long.stderr) == (1, True)


def test_hostile_references_and_names_are_reported(mirror: Mirror, target: Registry) -> None:
    to = f"{target.host}/{mirror.site.prefix}"
    escape = "\x1b[2Jevil"
    bundles = [
        SampleBundle("evil", "1.0.0", mirror.bundles[0].image, [escape, "a" * 5000, "x@sha256:12", "", "oci:/etc"]),
        SampleBundle(escape, "1.0.0", mirror.bundles[0].image, ["Q/UP:1"]),
    ]
    catalog = mirror.site.push_catalog(bundles, "evil")
    done = mirror.opm.attempt("mirror", catalog, "--to", to, "--dry-run")
    assert done.returncode == 5
    assert "\x1b" not in done.stdout + done.stderr
    assert done.stderr.count("Error: ") == 5
