"""What changed in a bundle, in all outputs of ``opm index diff``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.opm import Opm

GVK = {"group": "reef.example.com", "kind": "Reef", "version": "v1"}
LONG = "A reef. " * 40


def write_catalog(directory: Path, properties: list[Any], images: list[tuple[str, str]], image: str) -> None:
    package = {"packageName": "reef", "version": "1.0.0"}
    bundle = {
        "schema": "olm.bundle",
        "name": "reef.v1.0.0",
        "package": "reef",
        "image": image,
        "properties": [{"type": kind, "value": value} for kind, value in [("olm.package", package), *properties]],
        "relatedImages": [{"name": name, "image": related} for name, related in images],
    }
    documents = [
        {"schema": "olm.package", "name": "reef", "defaultChannel": "stable"},
        {"schema": "olm.channel", "name": "stable", "package": "reef", "entries": [{"name": "reef.v1.0.0"}]},
        bundle,
    ]
    directory.mkdir()
    (directory / "catalog.json").write_text("\n".join(map(json.dumps, documents)))


@pytest.fixture
def catalogs(opm: Opm) -> Opm:
    metadata = {"displayName": "Reef", "description": LONG}
    write_catalog(
        opm.directory / "before",
        [("olm.gvk", GVK), ("olm.maxOpenShiftVersion", "4.15"), ("olm.csv.metadata", metadata)],
        [("operator", "quay.io/a/operator:1"), ("old", "quay.io/a/old:1")],
        "quay.io/a/bundle:1",
    )
    write_catalog(
        opm.directory / "after",
        [("olm.maxOpenShiftVersion", "4.16"), ("olm.csv.metadata", {"displayName": "Coral", "description": "A reef."})],
        [("operator", "quay.io/a/operator:2"), ("", "quay.io/a/new:1")],
        "quay.io/a/bundle:2",
    )
    return opm


def test_text_shows_what_changed_in_a_bundle(catalogs: Opm) -> None:
    assert catalogs("index", "diff", "before", "after").splitlines() == [
        "~ package reef",
        "  ~ bundle reef.v1.0.0 1.0.0 quay.io/a/bundle:2",
        "      ~ image: quay.io/a/bundle:1 -> quay.io/a/bundle:2",
        "      ~ metadata description: ... -> A reef.",
        "      ~ metadata displayName: Reef -> Coral",
        f"      - property olm.gvk: {json.dumps(GVK, separators=(',', ':'))}",
        "      ~ property olm.maxOpenShiftVersion: 4.15 -> 4.16",
        "      + related image: quay.io/a/new:1",
        "      - related image old: quay.io/a/old:1",
        "      ~ related image operator: quay.io/a/operator:1 -> quay.io/a/operator:2",
    ]


def test_documents_show_what_changed_in_a_bundle(catalogs: Opm) -> None:
    report = json.loads(catalogs("index", "diff", "before", "after", "-o", "json"))
    details = report["packages"][0]["bundles"][0]["details"]
    assert {"kind": "changed", "part": "property olm.maxOpenShiftVersion", "before": "4.15", "after": "4.16"} in details
    markdown = catalogs("index", "diff", "before", "after", "-o", "markdown")
    assert "`~ related image operator: quay.io/a/operator:1 -> quay.io/a/operator:2`" in markdown
    page = catalogs("index", "diff", "before", "after", "-o", "html")
    assert "property olm.maxOpenShiftVersion: 4.15 -" in page
    failed = catalogs.attempt("index", "diff", "before", "after", "--fail-on", "changed-bundle")
    assert failed.returncode == 1
    assert "new related image: quay.io/a/new:1; no longer related image old: quay.io/a/old:1" in failed.stderr


def test_an_order_that_differs_is_named(opm: Opm) -> None:
    properties = [("olm.gvk", GVK), ("a.b", 1)]
    write_catalog(opm.directory / "before", properties, [], "quay.io/a/bundle:1")
    write_catalog(opm.directory / "after", properties[::-1], [], "quay.io/a/bundle:1")
    *_, last = opm("index", "diff", "before", "after").splitlines()
    assert last == "      ~ order of properties or related images"
