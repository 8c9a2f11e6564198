"""Findings of catalogs with one mistake: its cause is named once, with all places."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.kit.opm import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.installed import InstalledOpm

CHANNELS = ("alpha", "beta", "gamma", "stable")


def write_catalog(directory: Path, entries: list[dict[str, object]], channels: tuple[str, ...] = CHANNELS) -> str:
    directory.mkdir()
    documents: list[dict[str, object]] = [{"schema": "olm.package", "name": "demo", "defaultChannel": channels[0]}]
    documents += [{"schema": "olm.channel", "package": "demo", "name": name, "entries": entries} for name in channels]
    for number in (1, 2, 3):
        value = {"packageName": "demo", "version": f"{number}.0.0"}
        properties = [{"type": "olm.package", "value": value}]
        image = f"quay.io/me/demo:{number}"
        documents.append(
            {
                "schema": "olm.bundle",
                "package": "demo",
                "name": f"demo.v{number}",
                "image": image,
                "properties": properties,
            }
        )
    (directory / "catalog.json").write_text("\n".join(map(json.dumps, documents)))
    return directory.name


@pytest.fixture
def published(newcomer: InstalledOpm) -> str:
    entries: list[dict[str, object]] = [
        {"name": "demo.v1"},
        {"name": "demo.v2", "replaces": "demo.v1"},
        {"name": "demo.v3", "replaces": "demo.v2"},
    ]
    return write_catalog(newcomer.directory / "published", entries)


def test_a_missing_replaced_bundle_is_named_once_with_all_channels(newcomer: InstalledOpm) -> None:
    entries: list[dict[str, object]] = [
        {"name": "demo.v1"},
        {"name": "demo.v2", "replaces": "demo.v1"},
        {"name": "demo.v3", "replaces": "demo.v2.1"},
    ]
    catalog = write_catalog(newcomer.directory / "catalog", entries)
    done = newcomer.attempt("validate", catalog, "--output", "text")
    assert done.returncode == 1
    first, hint, *places, last = done.stderr.splitlines()
    assert first.startswith('catalog/catalog.json:2: error: package "demo", channel "alpha": multiple channel heads')
    assert "(demo.v3 replaces demo.v2.1, which is not in the channel; " in first
    assert hint.endswith(", or correct what demo.v3 replaces")
    assert places == [
        "  and in 3 other places:",
        *(f'    catalog/catalog.json:{line}: channel "{name}"' for line, name in enumerate(CHANNELS[1:], 3)),
    ]
    assert last.endswith("(4 errors, 0 warnings)")
    document = json.loads(newcomer.attempt("validate", catalog, "--output", "json").stdout)
    assert [finding["channel"] for finding in document["findings"]] == [*CHANNELS]


def test_a_lost_way_is_reported_once_per_cause(newcomer: InstalledOpm, published: str) -> None:
    catalog = write_catalog(newcomer.directory / "catalog", [{"name": "demo.v3"}])
    done = newcomer.attempt("validate", catalog, "--against", published)
    assert done.returncode == 1
    rules = [line.rpartition("[")[2].rstrip("]") for line in done.stderr.splitlines() if line.endswith("]")]
    assert rules == ["GATE-BUNDLE-REMOVED", "GATE-UPGRADE-PATH", "FBC-BUNDLE-STRANDED"]
    assert done.stderr.count("  and in 7 other places:") == 2
    assert max(map(len, done.stderr.splitlines())) < 200


def test_long_lists_of_places_are_cut(newcomer: InstalledOpm) -> None:
    channels = tuple(f"c{number:02}" for number in range(12))
    catalog = write_catalog(newcomer.directory / "catalog", [{"name": "demo.v1"}, {"name": "demo.v2"}], channels)
    done = newcomer.attempt("validate", catalog)
    assert "  and in 11 other places:" in done.stderr
    assert done.stderr.count("catalog/catalog.json:") == 11  # 1 and 9 places, and another finding
    assert "    and 2 more, which --output json lists" in done.stderr


def test_misspelt_schemas_and_keys_get_a_suggestion(newcomer: InstalledOpm) -> None:
    write_catalog(
        newcomer.directory / "catalog",
        [{"name": f"demo.v{number}", "Replaces": f"demo.v{number - 1}"} for number in (1, 2, 3)],
    )
    more = newcomer.directory / "catalog" / "more.yaml"
    more.write_text(
        "schema: olm.chanel\nname: x\npackage: demo\n---\n"
        "schema: my.own\nnmae: x\n---\n"
        "schema: olm.deprecations\npackage: demo\nentires: []\nentries:\n"
        "- {reference: {schema: olm.bundle, name: demo.v1}, mesage: old, message: old}\n"
    )
    done = newcomer.attempt("validate", "./catalog", "--output", "text")
    assert done.returncode == 0
    assert [line.partition(": ")[2] for line in done.stderr.splitlines() if "more.yaml" in line] == [
        'warning: unknown schema "olm.chanel": the document is not part of a package [FBC-SCHEMA-UNKNOWN]',
        'warning: unknown key "entires" is ignored [FBC-KEY-UNKNOWN]',
        'warning: unknown key "entries[0].mesage" is ignored [FBC-KEY-UNKNOWN]',
    ]
    hints = [line.strip() for line in done.stderr.splitlines() if line.startswith("  hint")]
    assert hints == ["hint: did you mean olm.channel?", "hint: did you mean entries?", "hint: did you mean message?"]


@pytest.mark.parametrize("files", [{}, {"README.txt": ""}, {".indexignore": "*", "catalog.yaml": "schema: x"}])
def test_a_catalog_without_a_document_is_valid(newcomer: InstalledOpm, files: dict[str, str]) -> None:
    """Services remove the last operator of a catalog, and validate the rest."""
    (newcomer.directory / "catalog").mkdir()
    for name, text in files.items():
        (newcomer.directory / "catalog" / name).write_text(text)
    if "README.txt" in files:
        (newcomer.directory / "catalog" / ".indexignore").write_text("README.txt")
    done = newcomer.attempt("validate", "./catalog")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.splitlines()[0] == "warning: no documents found [FBC-EMPTY]"
    assert newcomer.attempt("validate", "./catalog", "--fail-on", "warning").returncode == 1
    done = newcomer.attempt("validate", "./catalog", "--fail-on", "empty")
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == "error: no documents found [FBC-EMPTY]"
    assert newcomer.attempt("validate", "./catalog", "--fail-on", "empty", "--ignore", "FBC-EMPTY").returncode == 0


@pytest.mark.parametrize("template", ["basic", "substitutes"])
def test_catalogs_with_repeated_keys_become_templates(newcomer: InstalledOpm, template: str) -> None:
    catalog = newcomer.directory / "catalog.yaml"
    catalog.write_text(
        "schema: olm.package\nname: demo\ndefaultChannel: alpha\n---\n"
        "schema: olm.bundle\nname: demo.v1\npackage: demo\nimage: quay.io/me/demo:1\nproperties:\n"
        "- type: olm.package\n  value:\n    packageName: other\n    packageName: demo\n    version: 1.0.0\n"
    )
    done = newcomer.attempt("alpha", "convert-template", template, "catalog.yaml")
    assert done.returncode == 0
    assert done.stderr == "Warning: catalog.yaml:13: duplicate key 'packageName': only the last value counts\n"
    assert "quay.io/me/demo:1" in json.dumps(json.loads(done.stdout))


def test_a_dependency_without_a_value_is_not_rendered(newcomer: InstalledOpm) -> None:
    bundle = newcomer.directory / "bundle"
    shutil.copytree(FIXTURES / "lagoon-operator" / "0.1.0", bundle)
    (bundle / "metadata" / "dependencies.yaml").write_text("dependencies:\n- type: olm.gvk\n")
    done = newcomer.attempt("render", "./bundle")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[0].endswith("property or dependency of type olm.gvk: value is missing")
