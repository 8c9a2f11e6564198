"""Mirrors of the public API: results equal the documents that the installed command prints."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from opmkit import CatalogError, ImageSet, ImageToolsError, MirrorOptions, MirrorPolicy, Opm, RegistryOptions, Shard
from tests.kit.mirror_site import MirrorSite, digest_at

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.opm import Opm as Command
    from tests.kit.registry import Registry


@pytest.fixture
def site(registry: Registry, tmp_path: Path) -> MirrorSite:
    """Return a place for images in repositories of this test."""
    return MirrorSite(registry.host, f"api-{tmp_path.name.replace('_', '-').lower()}", tmp_path)


@pytest.fixture
def api(tmp_path: Path) -> Opm:
    return Opm(RegistryOptions(plain_http=True), tmp_path / "store")


def test_plan_and_mirror(site: MirrorSite, api: Opm, opm: Command) -> None:
    catalog, to = site.push_catalog(site.sample()), f"{site.host}/{site.prefix}-copy"
    planned = api.plan_mirror(catalog, to)
    printed = opm("mirror", catalog, "--to", to, "--use-http", "--dry-run", "--output", "json")
    assert planned.to_dict() == json.loads(printed)
    assert {image.status for image in planned.images} == {"absent"}
    assert digest_at(f"{to}/{site.prefix}/catalog:1") == ""

    mirrored = api.mirror(catalog, to)
    assert {image.status for image in mirrored.images} == {"copied"}
    assert digest_at(f"{to}/{site.prefix}/catalog:1") == mirrored.catalogs[0].digest == digest_at(catalog)
    repeated = api.mirror(catalog, to)
    printed = opm("mirror", catalog, "--to", to, "--use-http", "--output", "json")
    assert repeated.to_dict() == json.loads(printed)
    assert repeated.transferred == 0


@pytest.mark.parametrize("form", ["directory", "archive"])
def test_mirrors_are_carried(site: MirrorSite, api: Opm, tmp_path: Path, form: str) -> None:
    catalog, to = site.push_catalog(site.sample()), f"{site.host}/{site.prefix}-loaded"
    carried = str(tmp_path / "carried") if form == "directory" else f"oci-archive:{tmp_path}/carried.tar"
    written = api.mirror(catalog, carried, MirrorOptions(have=tmp_path / "have.json" if form == "archive" else None))
    assert len(written.images) == 5
    assert (tmp_path / "have.json").exists() is (form == "archive")
    loaded = api.mirror(carried.removeprefix("oci-archive:"), to)
    assert not loaded.failures
    assert digest_at(f"{to}/{site.prefix}/catalog:1") == digest_at(catalog)
    with pytest.raises(ValueError, match="can only be copied to a registry"):
        api.mirror(carried.removeprefix("oci-archive:"), to, MirrorOptions(filters=("reef",)))


def test_filters_and_failures(site: MirrorSite, api: Opm, tmp_path: Path) -> None:
    reef, atoll = site.sample()
    missing = f"{site.host}/{site.prefix}/missing@sha256:{'0' * 64}"
    catalog = site.push_catalog([reef, replace(atoll, images=[*atoll.images, missing])])
    to = f"{site.host}/{site.prefix}-part"
    with pytest.raises(ImageToolsError, match="missing"):
        api.mirror(catalog, to)
    assert digest_at(f"{to}/{site.prefix}/catalog:1") == ""
    tolerant: dict[str, Any] = api.mirror(catalog, to, MirrorOptions(continue_on_errors=True)).to_dict()
    (failure,) = tolerant["failures"]
    assert "missing" in failure["image"]
    assert json.dumps(tolerant)
    named = MirrorOptions(filters=("reef",), target_catalog="reefs:2", platforms=("linux/amd64",))
    api.mirror(catalog, to, named)
    assert set(api.open_index(f"{to}/reefs:2").catalog().packages) == {"reef"}
    with pytest.raises(CatalogError, match="nothing"):
        api.mirror(catalog, to, MirrorOptions(filters=("nothing",)))
    with pytest.raises(ValueError, match="requires an archive"):
        api.mirror(catalog, to, MirrorOptions(have=tmp_path / "have.json"))


def test_manifests_are_written_and_options_checked(site: MirrorSite, api: Opm, tmp_path: Path) -> None:
    catalog, to, manifests = site.push_catalog(site.sample()), f"{site.host}/{site.prefix}-cluster", tmp_path / "files"
    options = MirrorOptions(manifests=manifests, policy=MirrorPolicy(never_contact_source=True))
    with api.open_mirror(catalog, to, options) as planned:
        assert {image.status for image in planned.result.images} == {"absent"}
        mirrored = planned.run()
        assert {image["status"] for image in planned.to_dict()["images"]} == {"copied"}
    assert sorted(path.name for path in manifests.iterdir()) == list(mirrored.manifests)
    configuration = (manifests / "registries.conf").read_text()
    assert "blocked = true" in configuration
    assert "insecure = true" in configuration

    parts = [api.mirror(catalog, f"{to}-parts", MirrorOptions(shard=Shard(part, 2))) for part in (1, 2)]
    assert sum(len(part.images) for part in parts) == len(mirrored.images) - 1
    assert not any(part.catalogs for part in parts)
    for refused in (MirrorOptions(shard=Shard(1, 2)), options):
        with pytest.raises(ValueError, match="require a registry"):
            api.mirror(catalog, str(tmp_path / "directory"), refused)
    with pytest.raises(ValueError, match="exclude each other"):
        api.mirror(catalog, to, replace(options, shard=Shard(1, 2)))


def test_archives_report_changes(site: MirrorSite, api: Opm, tmp_path: Path) -> None:
    catalog, to = site.push_catalog(site.sample()), f"oci-archive:{tmp_path}/mirror.tar"
    assert [api.mirror(catalog, to).has_changed for _ in range(2)] == [True, False]
    with pytest.raises(ValueError, match="can only be copied to a registry"):
        api.mirror(f"{tmp_path}/mirror.tar", f"{site.host}/{site.prefix}-x", MirrorOptions(index_only=True))


def test_image_sets_are_mirrored(site: MirrorSite, api: Opm, opm: Command, tmp_path: Path) -> None:
    catalog, to, config = site.push_catalog(site.sample()), f"{site.host}/{site.prefix}-set", tmp_path / "set.yaml"
    head = "apiVersion: mirror.openshift.io/v2alpha1\nkind: ImageSetConfiguration\narchiveSize: 4\n"
    config.write_text(f"{head}mirror:\n  operators:\n  - catalog: {catalog}\n    packages: [name: atoll]\n")
    wanted = ImageSet.read(config)
    planned = api.plan_mirror(wanted, to)
    assert planned.warnings == (f"{config}:3: archiveSize has no effect: archives are not split",)
    printed = opm("mirror", "--config", str(config), "--to", to, "--use-http", "--dry-run", "--output", "json")
    assert planned.to_dict() == json.loads(printed)
    api.mirror(wanted, to)
    assert set(api.open_index(f"{to}/{site.prefix}/catalog:1").catalog().packages) == {"atoll"}
    with pytest.raises(ValueError, match="selects bundles itself"):
        api.mirror(wanted, to, MirrorOptions(filters=("reef",)))
