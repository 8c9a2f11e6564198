"""Commands that write in a checkout of files from others: links, files that cannot be replaced, several at once."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.index.templates.repository.test_promotion import CI, add_operator
from tests.kit.opm import LAGOON
from tests.kit.template_repository import tree

if TYPE_CHECKING:
    from tests.kit.installed import InstalledOpm

PROMOTE = ("template", "promote", ".", "--from", "v4.20", "--to", "v4.21")
TEMPLATE = "schema: olm.semver\ngenerateMajorChannels: true\n"
IMAGES = ("registry.example.com/water/lagoon-operator:0.1.1", "registry.invalid/lagoon:1")
CATALOG = """
schema: olm.package
name: lagoon-operator
defaultChannel: stable
---
schema: olm.channel
package: lagoon-operator
name: stable
entries: [{name: lagoon-operator.v0.1.1}]
---
schema: olm.bundle
name: lagoon-operator.v0.1.1
package: lagoon-operator
image: registry.invalid/lagoon:1
properties: [{type: olm.package, value: {packageName: lagoon-operator, version: 0.1.1}}]
"""


def bundle(directory: Path, version: str) -> Path:
    """Write a bundle with a version of its own."""
    path = directory / version
    shutil.copytree(LAGOON / "0.1.0", path)
    for file in (path / "manifests").iterdir():
        file.write_text(file.read_text().replace("0.1.0", version))
    return path


@pytest.fixture
def outside(newcomer: InstalledOpm) -> Path:
    path = newcomer.directory.parent / "outside"
    path.mkdir()
    return path


def link_out(newcomer: InstalledOpm, path: str, outside: Path) -> None:
    """Move a file or directory of the checkout outside, and leave a link."""
    place = newcomer.directory / path
    target = outside / Path(path).name
    if place.exists():
        shutil.move(place, target)
    else:
        target.mkdir()
        place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)


@pytest.mark.parametrize(
    "path",
    [
        "catalogs",
        "catalogs/v4.20",
        "catalogs/v4.20/reef",
        "catalogs/v4.21",
        "catalogs/v4.21/reef",
        "operators",
        "operators/reef",
        "operators/reef/ci.yaml",
    ],
)
def test_promote_follows_no_links(newcomer: InstalledOpm, outside: Path, path: str) -> None:
    add_operator(newcomer.directory, "reef")
    link_out(newcomer, path, outside)
    before = tree(outside), tree(newcomer.directory)
    for where in (".", "operators/reef"):
        done = newcomer.attempt("template", "promote", where, *PROMOTE[3:])
        assert done.returncode == 1
        assert "refusing to follow a symbolic link" in done.stdout + done.stderr
    assert (tree(outside), tree(newcomer.directory)) == before


@pytest.mark.parametrize("path", ["operators", "operators/lagoon-operator", "operators/lagoon-operator/Makefile"])
def test_onboard_follows_no_links(newcomer: InstalledOpm, outside: Path, path: str) -> None:
    operator = newcomer.directory / "operators" / "lagoon-operator"
    bundle(operator, "0.1.1")
    (operator / "ci.yaml").write_text("reviewers: [me]\n")
    (operator / "Makefile").write_text("all:\n")
    image = ("semver.yaml", f"{TEMPLATE}stable: {{bundles: [{{image: 'quay.io/me/lagoon:0.1.1'}}]}}\n")
    (newcomer.directory / image[0]).write_text(image[1])
    catalog = newcomer("render", str(operator / "0.1.1"), "--alpha-image-ref-template", "quay.io/me/lagoon:0.1.1")
    published = newcomer.directory / "published" / "v4.20"
    published.mkdir(parents=True)
    channel = '{"schema": "olm.channel", "package": "lagoon-operator", "name": "stable", "entries": [{"name": "%s"}]}'
    name = "lagoon-operator.v0.1.1"
    package = '{"schema": "olm.package", "name": "lagoon-operator", "defaultChannel": "stable"}'
    (published / "catalog.json").write_text(package + channel % name + catalog)
    link_out(newcomer, path, outside)
    before = tree(outside)
    for where in (".", "operators/lagoon-operator"):
        done = newcomer.attempt("template", "onboard", where, "--from", "published/v4.20")
        assert done.returncode == 1
        assert "refusing to follow a symbolic link" in done.stdout + done.stderr
        assert tree(outside) == before


def test_edits_follow_no_links_out_of_the_checkout(newcomer: InstalledOpm, outside: Path) -> None:
    source = bundle(newcomer.directory, "0.1.1")
    (outside / "t.yaml").write_text(TEMPLATE)
    (newcomer.directory / "t.yaml").symlink_to(outside / "t.yaml")
    done = newcomer.attempt("template", "add", "t.yaml", f"./{source.name}=quay.io/me/lagoon:1", "--channel", "stable")
    assert done.returncode == 1
    assert "refusing to follow a symbolic link that leads out of" in done.stderr
    assert tree(outside) == {"t.yaml": TEMPLATE.encode()}


@pytest.mark.parametrize(
    "command",
    [
        "bundle unpack ./0.1.1 --out OUT/sub",
        "bundle pin ./0.1.1 --exclude * --output-dir OUT/sub",
        "bundle render ./0.1.1 --namespace one --output-dir OUT/sub",
        "bundle generate --directory 0.1.1/manifests --package lagoon --channels one --output-dir OUT",
        "bundle validate ./0.1.1 --write-baseline OUT/baseline.json",
        "migrate catalog OUT",
        "image copy quay.io/me/lagoon:1 oci:OUT",
        "image copy quay.io/me/lagoon:1 oci-archive:OUT/file",
    ],
)
def test_outputs_follow_no_links_out_of_the_checkout(newcomer: InstalledOpm, outside: Path, command: str) -> None:
    bundle(newcomer.directory, "0.1.1")
    (newcomer.directory / "catalog").mkdir()
    (newcomer.directory / "catalog" / "catalog.yaml").write_text(CATALOG)
    if command.startswith("image "):
        newcomer("bundle", "build", "--directory", "0.1.1/manifests", "--tag", "quay.io/me/lagoon:1")
    link_out(newcomer, "first/out", outside)
    before = tree(outside)
    done = newcomer.attempt(*command.replace("OUT", "first/out").split())
    assert done.returncode == 1
    assert "refusing to follow a symbolic link that leads out of" in done.stderr
    assert tree(outside) == before
    assert newcomer.attempt(*command.replace("OUT", str(outside / "out")).split()).returncode == 0


@pytest.mark.parametrize(
    ("path", "command"),
    [
        ("0.1.1", "bundle pin ./0.1.1 --replacements images.yaml"),
        ("0.1.1/manifests", "bundle pin ./0.1.1 --replacements images.yaml"),
        ("0.1.1/manifests", "bundle pin ./0.1.1/manifests --replacements images.yaml"),
        ("catalog", "bundle pin catalog --replacements images.yaml"),
        ("catalog", "bundle pin catalog/catalog.yaml --replacements images.yaml"),
        ("catalog", "index rm --from-index catalog --operators lagoon-operator"),
        ("index.db", "registry rm --database index.db --packages lagoon-operator"),
        ("catalogs", "template render t.yaml --no-validate --output-dir catalogs"),
    ],
)
def test_changes_follow_no_links_out_of_the_checkout(
    newcomer: InstalledOpm, outside: Path, path: str, command: str
) -> None:
    bundle(newcomer.directory, "0.1.1")
    (newcomer.directory / "catalog").mkdir()
    (newcomer.directory / "catalogs").mkdir()
    (newcomer.directory / "catalog" / "catalog.yaml").write_text(CATALOG)
    (newcomer.directory / "index.db").touch()
    template = {"schema": "olm.template.basic", "entries": list(yaml.safe_load_all(CATALOG))[:2]}
    (newcomer.directory / "t.yaml").write_text(yaml.safe_dump(template))
    images = dict.fromkeys(IMAGES, f"registry.invalid/lagoon@sha256:{64 * '0'}")
    (newcomer.directory / "images.yaml").write_text(yaml.safe_dump(images))
    link_out(newcomer, path, outside)
    before = tree(outside)
    done = newcomer.attempt(*command.split())
    assert done.returncode == 1
    assert "refusing to follow a symbolic link" in done.stdout + done.stderr
    assert tree(outside) == before


@pytest.mark.parametrize(
    ("path", "command"),
    [
        ("operators/reef/ci.yaml", "template render operators --no-validate"),
        ("operators/reef/catalog-templates/v4.20.yaml", "template render operators --no-validate"),
        ("catalog.lock", "template render t.yaml --no-validate --lock catalog.lock"),
        ("operators/reef/Makefile", "template onboard operators/reef --from catalog"),
        ("operators/reef/ci.yaml", "template onboard operators/reef --from catalog"),
    ],
)
def test_pipes_in_a_checkout_are_not_read(newcomer: InstalledOpm, path: str, command: str) -> None:
    add_operator(newcomer.directory, "reef")
    (newcomer.directory / "catalog").mkdir()
    (newcomer.directory / "catalog" / "catalog.yaml").write_text(CATALOG)
    template = {"schema": "olm.template.basic", "entries": list(yaml.safe_load_all(CATALOG))[:2]}
    (newcomer.directory / "t.yaml").write_text(yaml.safe_dump(template))
    pipe = newcomer.directory / path
    pipe.parent.mkdir(parents=True, exist_ok=True)
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    out, err = newcomer.start(*command.split()).communicate(timeout=60)
    assert "Traceback" not in out + err


def test_promote_writes_all_or_none(newcomer: InstalledOpm) -> None:
    add_operator(newcomer.directory, "reef")
    (newcomer.directory / "catalogs" / "v4.21").mkdir()
    (newcomer.directory / "catalogs" / "v4.21" / "reef").write_text("in the way")
    before = tree(newcomer.directory)
    done = newcomer.attempt(*PROMOTE)
    assert done.returncode == 1
    assert tree(newcomer.directory) == before


def test_promotions_wait_for_each_other(newcomer: InstalledOpm) -> None:
    names = ("reef", "tide", "lagoon", "shoal")
    for name in names:
        add_operator(newcomer.directory, name, f"{CI}  version_promotion_strategy: always\n")
    running = [newcomer.start(*PROMOTE) for _ in range(4)]
    for process in running:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, out + err
    for name in names:
        config = yaml.safe_load((newcomer.directory / "operators" / name / "ci.yaml").read_text())
        (mapped,) = config["fbc"]["catalog_mapping"]
        assert mapped["catalog_names"].count("v4.21") == 1
        assert (newcomer.directory / "catalogs" / "v4.21" / name).is_dir()


def test_edits_wait_for_each_other(newcomer: InstalledOpm) -> None:
    (newcomer.directory / "t.yaml").write_text(TEMPLATE)
    versions = [f"0.1.{number}" for number in range(1, 7)]
    for version in versions:
        bundle(newcomer.directory, version)
    running = [
        newcomer.start("template", "add", "t.yaml", f"./{version}=quay.io/me/lagoon:{version}", "--channel", "stable")
        for version in versions
    ]
    for process in running:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, out + err
    listed = yaml.safe_load((newcomer.directory / "t.yaml").read_text())["stable"]["bundles"]
    assert sorted(each["image"] for each in listed) == [f"quay.io/me/lagoon:{version}" for version in versions]
