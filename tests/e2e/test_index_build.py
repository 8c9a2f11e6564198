"""``opm index build`` with directories, databases and images as sources."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import opmkit
from opmkit import IndexPlan
from opmkit.index.errors import InvalidCatalog
from tests.e2e.test_index_merge import write_package
from tests.e2e.test_publish import ScriptedProxy
from tests.kit.bundles import push_image
from tests.kit.catalogs import write_library
from tests.kit.images import small_image
from tests.kit.opm import FIXTURES

if TYPE_CHECKING:
    from tests.kit.opm import Opm
    from tests.kit.registry import Registry

SCRATCH = ("--binary-image", "scratch")


@pytest.fixture
def site(opm: Opm) -> Opm:
    """Write a valid and an invalid catalog, and a database."""
    shutil.copytree(FIXTURES / "catalogs" / "valid", opm.directory / "catalogs")
    shutil.copytree(FIXTURES / "catalogs" / "valid", opm.directory / "broken")
    (opm.directory / "broken" / "more.yaml").write_text(
        "schema: olm.package\nname: reef\ndefaultChannel: stable\n---\n"
        "schema: olm.channel\npackage: reef\nname: stable\nentries: [{name: reef.v1}]\n---\n"
        "schema: olm.bundle\nname: [reef.v1]\npackage: reef\n"
    )
    write_library(opm.directory / "index.db")
    return opm


def digest(printed: str) -> str:
    return printed.strip().rsplit("@", 1)[1]


@pytest.mark.parametrize("source", ["catalogs", "index.db", "image"])
def test_image_equals_that_of_adding_no_bundle(site: Opm, registry: Registry, source: str) -> None:
    prefix = f"{registry.host}/build-{site.directory.name.replace('_', '-').lower()}"
    push_image(f"{prefix}/base:1", small_image(site.directory, {"bin/opm": b"#!"}))
    base: tuple[str, ...] = ("--binary-image", f"{prefix}/base:1")
    target = ("--use-http", "--push", "--tag")
    if source == "image":
        source = f"{prefix}/source:1"
        site("index", "build", "catalogs", *base, *target, source)
        base = ()
    added = site("index", "add", "--bundles", "", "--from-index", source, *base, *target, f"{prefix}/all:1")
    done = site.attempt("index", "build", source, *base, *target, f"{prefix}/all:2", "--also-tag", f"{prefix}/all:3")
    names = [f"{prefix}/all:{tag}@{digest(added)}" for tag in (2, 3)]
    assert (done.returncode, done.stdout.split()) == (0, names), done.stderr
    numbers = "packages: 2, channels: 3, bundles: 4" if source == "index.db" else "packages: 2, channels: 3, bundles: 5"
    assert done.stderr == f"{source}: {numbers}\n"
    assert site("index", "diff", source, f"{prefix}/all:3", "--use-http") == "no difference\n"


def test_database_and_older_bundles_are_converted(site: Opm) -> None:
    site("index", "build", "index.db", "--to-fbc", *SCRATCH, "--tag", "oci:images:1")
    assert site("validate", "oci:images:1") == ""
    site("migrate", "index.db", "objects")
    assert "olm.bundle.object" in site("render", "objects")
    level = ("--migrate-level", "bundle-object-to-csv-metadata")
    site("index", "build", "objects", *level, *SCRATCH, "--tag", "oci:images:2")
    rendered = site("render", "oci:images:2")
    assert ("olm.csv.metadata" in rendered, "olm.bundle.object" in rendered) == (True, False)
    assert "olm.bundle.object" in site("render", "objects")


def test_invalid_catalog_lists_every_error_and_builds_nothing(site: Opm) -> None:
    before = sorted(site.directory.iterdir())
    done = site.attempt("index", "build", "broken", *SCRATCH, "--tag", "oci:images:1")
    assert (done.returncode, done.stdout) == (1, "")
    first, *others = done.stderr.splitlines()
    assert first.startswith('Error: broken: invalid catalog: more.yaml:5: package "reef", channel "stable"')
    assert "  more.yaml:10: name is a list, not a string [FBC-TYPE]" in others
    validated = site.attempt("validate", "broken", "--output", "json")
    reported = {finding["rule"] for finding in json.loads(validated.stdout)["findings"]}
    assert {line.rsplit("[", 1)[1].rstrip("]") for line in done.stderr.splitlines() if line.endswith("]")} == reported
    failed = site.attempt("index", "build", "broken", "--dry-run", "--output", "json")
    assert "more.yaml:10" in json.loads(failed.stderr.splitlines()[0])["error"]["message"]
    assert sorted(site.directory.iterdir()) == before


def test_previews_and_build_contexts(site: Opm) -> None:
    assert site("index", "build", "catalogs", "--dry-run") == "catalogs: packages: 2, channels: 3, bundles: 5\n"
    preview = json.loads(site("index", "build", "catalogs", "--dry-run", "--output", "json"))
    assert preview["content"] == {"packages": 2, "channels": 3, "bundles": 5}
    assert not {"references", "digest"} & preview.keys()
    site("index", "build", "catalogs", "--generate", "--binary-image", "quay.io/me/opm:1")
    assert site("index", "diff", "catalogs", "catalog") == "no difference\n"
    assert "FROM quay.io/me/opm:1" in (site.directory / "index.Dockerfile").read_text()
    (site.directory / "empty").mkdir()
    done = site.attempt("index", "build", "empty", *SCRATCH, "--tag", "oci:images:1")
    assert done.returncode == 1
    assert done.stderr.startswith("Error: empty: invalid catalog: no documents found [FBC-EMPTY]\n")
    assert not (site.directory / "images").exists()


def test_tag_that_another_writer_moves_is_not_overwritten(site: Opm, registry: Registry) -> None:
    repository = f"build-{site.directory.name.replace('_', '-').lower()}"
    flags = (*SCRATCH, "--tag", f"{registry.host}/{repository}:1", "--push", "--use-http")
    first = site("index", "build", "catalogs", *flags)
    write_package(site.directory / "broken", "reef", "quay.io/me/reef:1")
    (site.directory / "broken" / "more.yaml").unlink()

    def move() -> None:
        assert digest(site.here("index", "build", str(site.directory / "broken"), *flags)) != digest(first)

    upload = ("POST", f"/v2/{repository}/blobs/uploads/")
    (site.directory / "catalogs" / "note.json").write_text('{"schema": "acme.note"}')
    with ScriptedProxy(registry.host, (upload, move)) as proxy:
        moved = ("--tag", f"{proxy.host}/{repository}:1")
        done = site.attempt("index", "build", "catalogs", *SCRATCH, *moved, "--push", "--use-http")
    assert done.returncode == 4, done.stderr


def test_client_builds_as_the_command(site: Opm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(site.directory)
    client = opmkit.Opm(store=site.directory / "store")
    plan = IndexPlan(from_index="catalogs", tags=("oci:images:1",), binary_image="scratch")
    built = client.build_index(plan).to_dict()
    printed = site("index", "build", "catalogs", *SCRATCH, "--tag", "oci:images:1", "--output", "json")
    assert json.loads(json.dumps(built)) == json.loads(printed)
    with pytest.raises(InvalidCatalog, match=r"more\.yaml:10"):
        client.build_index(replace(plan, from_index="broken"))


def test_adding_no_bundle_names_the_command_that_builds(site: Opm) -> None:
    done = site.attempt("index", "add", "--from-index", "catalogs", "--tag", "oci:images:1")
    assert (done.returncode, "run 'opm index build'" in done.stderr) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("catalogs",), "no result: pass --tag, --generate or --dry-run"),
        (("./nowhere", "--tag", "oci:images:1"), "./nowhere: no such file or directory"),
        (("catalogs/README.md", "--tag", "oci:images:1"), "README.md: not a database"),
        (("bundle", "--tag", "oci:images:1"), "bundle: unsupported: it is a bundle directory"),
        (("catalogs", "--tag", "oci:images:1", "--on-conflict", "rebase"), "cannot be rebased"),
        (("catalogs", "--tag", "Images"), "Images"),
        (("catalogs", "index.db", "--tag", "oci:images:1"), "index.db"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_mistakes(site: Opm, arguments: tuple[str, ...], message: str) -> None:
    shutil.copytree(FIXTURES / "lagoon-operator" / "0.1.0", site.directory / "bundle")
    done = site.attempt("index", "build", *arguments, *SCRATCH)
    assert (done.returncode, message in done.stderr) == (1, True), done.stderr
    assert "hint:" in done.stderr
    assert not (site.directory / "images").exists()
