"""``opm mirror --config`` with real registries."""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from opmkit.imagetools.reference import Reference
from opmkit.supply.mirror.model import digest_tag
from tests.kit.images import small_image
from tests.kit.mirror_site import MirrorSite, SampleBundle, digest_at, incomplete_tags
from tests.kit.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from subprocess import CompletedProcess

    from tests.kit.opm import Opm


@dataclass(frozen=True)
class Mirror:
    """A catalog with two packages, and the prefix of its mirror."""

    site: MirrorSite
    opm: Opm
    catalog: str
    bundles: list[SampleBundle]
    to: str

    def run(self, config: dict[str, Any] | str, *flags: str) -> CompletedProcess[str]:
        """Run the command with a configuration, of which only ``mirror`` is given."""
        document = {"apiVersion": "mirror.openshift.io/v2alpha1", "kind": "ImageSetConfiguration", "mirror": config}
        path = self.site.scratch / "set.yaml"
        path.write_text(config if isinstance(config, str) else json.dumps(document, indent=1))
        return self.opm.attempt("mirror", "--config", str(path), "--to", self.to, *flags)

    def at(self, image: str) -> str:
        """Return the reference of an image in the mirror."""
        return f"{self.to}/{image.partition('/')[2]}"

    def bundles_of(self, catalog: str) -> list[str]:
        """Return the names of the bundles of a catalog in the mirror."""
        listed = json.loads(self.opm("alpha", "list", "bundles", f"{self.to}/{catalog}", "-o", "json"))
        return sorted({bundle["bundle"] for bundle in listed})


@pytest.fixture(scope="module")
def target() -> Iterator[Registry]:
    """Start a second registry."""
    with Registry() as started:
        yield started


@pytest.fixture
def mirror(opm_http: Opm, registry: Registry, target: Registry, tmp_path: Path) -> Mirror:
    """Push a catalog: ``reef`` needs the operands ``fish`` and ``kelp``, and ``atoll`` needs ``kelp``."""
    site = MirrorSite(registry.host, f"set-{tmp_path.name.replace('_', '-').lower()}", tmp_path)
    bundles = site.sample()
    return Mirror(site, opm_http, site.push_catalog(bundles), bundles, f"{target.host}/{site.prefix}")


def test_edited_configuration_follows_the_tags_of_its_images(mirror: Mirror) -> None:
    """The record of the earlier one shows who has set them."""
    site = mirror.site
    shell = Reference.parse(site.push_operand("tools/shell", 13)).with_tag("v1")
    for seed, others in ((13, []), (14, [{"name": site.push_operand("tools/other", 15)}])):
        site.push("tools/shell", "v1", small_image(site.scratch, {"file": bytes([seed])}))
        done = mirror.run({"additionalImages": [{"name": str(shell)}, *others]})
        assert done.returncode == 0, done.stderr
        assert digest_at(mirror.at(str(shell))) == digest_at(str(shell))


def test_several_catalogs_and_images_are_mirrored_in_one_run(mirror: Mirror) -> None:
    site, (reef, atoll) = mirror.site, mirror.bundles
    extra = site.push_operand("tools/shell", 13)
    other = site.push_catalog([SampleBundle("lagoon", "1.0.0", site.push_bundle("lagoon-bundle", 3))], "2")
    done = mirror.run(
        {
            "operators": [
                {"catalog": mirror.catalog, "packages": [{"name": "reef"}], "targetCatalog": "mine/reefs"},
                {"catalog": other, "full": True, "targetTag": "two"},
            ],
            "additionalImages": [
                {"name": extra, "targetRepo": "tools/sh", "targetTag": "v1"},
                {"name": atoll.images[0]},
            ],
        }
    )
    assert done.returncode == 0, done.stderr
    reefs, whole = f"{mirror.to}/mine/reefs:1", f"{mirror.to}/{site.prefix}/catalog:two"
    assert done.stdout == f"{reefs}@{digest_at(reefs)}\n{whole}@{digest_at(whole)}\n"
    assert digest_at(whole) == digest_at(other)
    assert mirror.bundles_of("mine/reefs:1") == [reef.name]
    assert all(digest_at(mirror.at(image)) for image in (reef.image, *reef.images))
    assert not digest_at(mirror.at(atoll.image))
    digest = extra.partition("@")[2]
    assert digest_at(f"{mirror.to}/tools/sh:v1") == digest_at(f"{mirror.to}/tools/sh:{digest_tag(digest)}") == digest
    assert incomplete_tags(mirror.to.partition("/")[0], site.prefix) == []
    again = mirror.run(json.loads((site.scratch / "set.yaml").read_text())["mirror"])
    assert (again.stdout, again.stderr.startswith("0 images copied (0 B)")) == (done.stdout, True)


def test_dry_run_and_json_and_blocked_images(mirror: Mirror, tmp_path: Path) -> None:
    config = {"operators": [{"catalog": mirror.catalog, "full": True}], "blockedImages": [{"name": "/kelp@"}]}
    planned = mirror.run(config, "--dry-run", "--output", "json")
    assert planned.returncode == 0, planned.stderr
    plan = json.loads(planned.stdout)
    kelp = mirror.bundles[1].images[0]
    assert kelp not in {image["source"] for image in plan["images"]}
    assert len(plan["images"]) == 4
    assert [catalog["source"] for catalog in plan["catalogs"]] == [plan["catalog"]["source"]]
    done = mirror.run(config, "--manifests", str(tmp_path / "cluster"))
    assert done.returncode == 0, done.stderr
    assert not digest_at(mirror.at(kelp))
    assert (tmp_path / "cluster" / "idms-operator.yaml").is_file()
    catalog = mirror.run({**config, "blockedImages": [{"name": "/catalog:1$"}]}, "--dry-run", "--output", "json")
    assert json.loads(catalog.stdout)["catalogs"] == []


def test_archive_carries_an_image_set(mirror: Mirror, target: Registry, tmp_path: Path) -> None:
    config = tmp_path / "set.yaml"
    assert mirror.run({"operators": [{"catalog": mirror.catalog}]}, "--dry-run").returncode == 0
    mirror.opm("mirror", "--config", str(config), "--to", f"oci-archive:{tmp_path}/mirror.tar")
    loaded = mirror.opm("mirror", str(tmp_path / "mirror.tar"), "--to", mirror.to)
    mirror.opm("mirror", "--config", str(config), "--to", f"{mirror.to}-direct")
    name = f"{mirror.site.prefix}/catalog:1"
    assert loaded == f"{mirror.to}/{name}@{digest_at(f'{mirror.to}-direct/{name}')}\n"


def test_catalog_in_a_directory_is_mirrored(mirror: Mirror, tmp_path: Path) -> None:
    mirror.opm("image", "copy", mirror.catalog, f"oci:{tmp_path}/sea:1")
    done = mirror.run({"operators": [{"catalog": f"oci://{tmp_path}/sea", "packages": [{"name": "atoll"}]}]})
    assert done.returncode == 0, done.stderr
    assert mirror.bundles_of("sea:latest") == ["atoll.v0.1.0"]


def test_index_and_selection_flags_exclude_a_configuration(mirror: Mirror, tmp_path: Path) -> None:
    config = tmp_path / "set.yaml"
    config.write_text("x")
    for arguments, message in (
        (["quay.io/me/catalog:1"], "INDEX and --config are mutually exclusive"),
        (["--with-dependencies"], "--with-dependencies and --config are mutually exclusive"),
        (["--target-catalog", "x"], "--target-catalog and --config are mutually exclusive"),
        (["--default-channel", "a=b"], "--default-channel and --config are mutually exclusive"),
    ):
        refused = mirror.opm.attempt("mirror", *arguments, "--config", str(config), "--to", mirror.to)
        assert (refused.returncode, message in refused.stderr) == (1, True), refused.stderr
    missing = mirror.opm.attempt("mirror", "--to", mirror.to)
    assert "INDEX or --config is required" in missing.stderr


def test_mistakes_are_reported_before_the_target_is_asked(mirror: Mirror, target: Registry) -> None:
    before = len(target.requests())
    for config, message in (
        ({"platform": {"graph": True}}, "mirror.platform cannot be mirrored"),
        ({"operators": [{"catalog": mirror.catalog, "targetCatalog": "../../etc"}]}, "is not a valid repository"),
        ("\x1b[2J: [", "set.yaml"),
        ("a: &a [*a]", "set.yaml"),
        ("a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]", "set.yaml"),
    ):
        refused = mirror.run(config)
        assert (refused.returncode, message in refused.stderr) == (1, True), refused.stderr
        assert "\x1b" not in refused.stderr
    assert len(target.requests()) == before
    unknown = mirror.run({"operators": [{"catalog": mirror.catalog, "packages": [{"name": "reeff"}]}]})
    assert (unknown.returncode, "set.yaml:6: the selection has no bundles" in unknown.stderr) == (1, True), (
        unknown.stderr
    )
    partly = mirror.run(
        {"operators": [{"catalog": mirror.catalog, "packages": [{"name": "reeff"}, {"name": "atoll"}]}]}
    )
    assert (partly.returncode, "did you mean reef?" in partly.stderr) == (0, True), partly.stderr


def test_two_runs_at_once_result_in_the_same_mirror(mirror: Mirror) -> None:
    from concurrent.futures import ThreadPoolExecutor

    config = {"operators": [{"catalog": mirror.catalog, "packages": [{"name": "reef"}, {"name": "atoll"}]}]}
    mirror.run(config, "--dry-run")
    arguments = ("mirror", "--config", str(mirror.site.scratch / "set.yaml"), "--to", mirror.to)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: mirror.opm.attempt(*arguments), range(2))
    assert (first.returncode, second.returncode, first.stdout) == (0, 0, second.stdout)
    assert incomplete_tags(mirror.to.partition("/")[0], mirror.site.prefix) == []
    assert digest_at(f"{mirror.to}/{mirror.site.prefix}/catalog:1")


def test_run_that_was_killed_is_completed_by_the_next(mirror: Mirror) -> None:
    images = [{"name": mirror.site.push_operand(f"more/operand-{seed}", seed, 300_000)} for seed in range(20, 26)]
    config = {"operators": [{"catalog": mirror.catalog, "packages": [{"name": "reef"}]}], "additionalImages": images}
    assert mirror.run(config, "--dry-run").returncode == 0
    arguments = ("mirror", "--config", str(mirror.site.scratch / "set.yaml"), "--to", mirror.to)
    for delay in (0.6, 0.9, 1.2, 1.5):
        command = mirror.opm.argv(*arguments)
        environment = {**os.environ, **mirror.opm.env}
        process = subprocess.Popen(command, cwd=mirror.opm.directory, env=environment, stderr=subprocess.DEVNULL)
        time.sleep(delay)
        process.kill()
        process.wait()
        assert incomplete_tags(mirror.to.partition("/")[0], mirror.site.prefix) == []
    done = mirror.opm.attempt(*arguments)
    assert done.returncode == 0, done.stderr
    assert all(digest_at(mirror.at(image["name"])) for image in images)
