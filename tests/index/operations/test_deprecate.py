"""Tests of adding and removing deprecations."""

from __future__ import annotations

import pytest

from opmkit.index.errors import CatalogError, InvalidCatalog, MultipleErrors, UnknownPackage
from opmkit.index.fbc.blobs import Blobs, Deprecation
from opmkit.index.fbc.check.catalog import check_blobs
from opmkit.index.operations.deprecate import DeprecationEdit, edit_deprecations
from tests.kit.edits import catalog

PLAIN = catalog(
    {
        "demo": {"alpha": ["demo.v1.0.0", "demo.v1.1.0 > demo.v1.0.0"], "beta": ["demo.v1.0.0"]},
        "other": {"alpha": ["other.v1.0.0"]},
    }
)
BUNDLE, CHANNEL, PACKAGE = "olm.bundle", "olm.channel", "olm.package"


def deprecation(
    message: str, schema: str = BUNDLE, name: str = "demo.v1.0.0", package: str = "demo"
) -> DeprecationEdit:
    return DeprecationEdit(package, Deprecation(schema, name, message))


def deprecations(blobs: Blobs) -> list[tuple[str, list[str]]]:
    return [(blob.package, [f"{entry.name}: {entry.message}" for entry in blob.entries]) for blob in blobs.deprecations]


def test_adds_and_replaces_entries_in_one_blob_per_package() -> None:
    first = edit_deprecations(
        PLAIN, [deprecation("old"), deprecation("gone", PACKAGE, "", "other"), deprecation("slow", CHANNEL, "beta")]
    )
    assert deprecations(first.blobs) == [("demo", ["demo.v1.0.0: old", "beta: slow"]), ("other", [": gone"])]
    assert (first.warnings, first.failures) == ((), ())
    assert not check_blobs(first.blobs)
    second = edit_deprecations(first.blobs, [deprecation("older"), deprecation("new", name="demo.v1.1.0")])
    demo = ["demo.v1.0.0: older", "beta: slow", "demo.v1.1.0: new"]
    assert deprecations(second.blobs) == [("demo", demo), ("other", [": gone"])]
    assert second.blobs.deprecations[1] is first.blobs.deprecations[1]


def test_removes_entries_and_empty_blobs() -> None:
    full = edit_deprecations(PLAIN, [deprecation("old"), deprecation("slow", CHANNEL, "beta")]).blobs
    half = edit_deprecations(full, [deprecation("")]).blobs
    assert deprecations(half) == [("demo", ["beta: slow"])]
    assert edit_deprecations(half, [deprecation("", CHANNEL, "beta")]).blobs == PLAIN


def test_warns_about_missing_deprecations() -> None:
    result = edit_deprecations(PLAIN, [deprecation(""), deprecation("", PACKAGE, "")])
    assert result.blobs == PLAIN
    assert result.warnings == ("bundle demo.v1.0.0 of package demo is not deprecated", "package demo is not deprecated")


def test_removes_deprecations_of_missing_objects() -> None:
    stale = {"reference": {"schema": BUNDLE, "name": "demo.v0.9.0"}, "message": "old"}
    blobs = PLAIN + catalog({}, {"schema": "olm.deprecations", "package": "demo", "entries": [stale]})
    with pytest.raises(InvalidCatalog, match=r'cannot deprecate bundle "demo\.v0\.9\.0": bundle not found'):
        edit_deprecations(blobs, [deprecation("old")])
    assert edit_deprecations(blobs, [deprecation("", name="demo.v0.9.0")]).blobs == PLAIN


@pytest.mark.parametrize(
    ("edit", "message", "hint"),
    [
        (deprecation("old", name="demo.v1.1"), "bundle demo.v1.1: cannot", "did you mean demo.v1.1.0 or demo.v1.0.0?"),
        (deprecation("", name="x"), "bundle x: cannot", "use one of the bundles: demo.v1.0.0, demo.v1.1.0"),
        (deprecation("old", CHANNEL, "alfa"), "channel alfa: cannot", "did you mean alpha?"),
        (
            deprecation("old", "olm.bundles"),
            '"olm.bundles": cannot',
            "use one of the schemas: olm.package, olm.channel, olm.bundle",
        ),
        (deprecation("old", package="dem"), "package dem: cannot", "did you mean demo?"),
        (deprecation("old", PACKAGE, "", "x"), "package x: cannot", "use one of the packages: demo, other"),
    ],
)
def test_rejects_unknown_objects(edit: DeprecationEdit, message: str, hint: str) -> None:
    with pytest.raises(CatalogError, match=r"be deprecated") as failure:
        edit_deprecations(PLAIN, [deprecation("old"), edit])
    assert failure.value.message.startswith(message)
    assert str(failure.value.hint) == hint


def test_reports_all_errors() -> None:
    with pytest.raises(MultipleErrors) as failure:
        edit_deprecations(PLAIN, [deprecation("old", package="x"), deprecation("old", name="y")])
    assert [type(error) for error in failure.value.errors] == [UnknownPackage, CatalogError]


def test_rejects_name_in_reference_to_a_package() -> None:
    with pytest.raises(InvalidCatalog, match="package name must be empty"):
        edit_deprecations(PLAIN, [deprecation("old", PACKAGE, "demo")])
