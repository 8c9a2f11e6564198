"""Saying what is deprecated, and taking it back."""

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


def say(message: str, schema: str = BUNDLE, name: str = "demo.v1.0.0", package: str = "demo") -> DeprecationEdit:
    return DeprecationEdit(package, Deprecation(schema, name, message))


def said(blobs: Blobs) -> list[tuple[str, list[str]]]:
    return [(blob.package, [f"{one.name}: {one.message}" for one in blob.entries]) for blob in blobs.deprecations]


def test_what_is_said_is_kept_in_one_blob_of_the_package() -> None:
    first = edit_deprecations(PLAIN, [say("old"), say("gone", PACKAGE, "", "other"), say("slow", CHANNEL, "beta")])
    assert said(first.blobs) == [("demo", ["demo.v1.0.0: old", "beta: slow"]), ("other", [": gone"])]
    assert (first.warnings, first.failures) == ((), ())
    assert not check_blobs(first.blobs)
    second = edit_deprecations(first.blobs, [say("older"), say("new", name="demo.v1.1.0")])
    demo = ["demo.v1.0.0: older", "beta: slow", "demo.v1.1.0: new"]
    assert said(second.blobs) == [("demo", demo), ("other", [": gone"])]
    assert second.blobs.deprecations[1] is first.blobs.deprecations[1]


def test_it_can_be_taken_back_and_an_empty_blob_goes() -> None:
    full = edit_deprecations(PLAIN, [say("old"), say("slow", CHANNEL, "beta")]).blobs
    half = edit_deprecations(full, [say("")]).blobs
    assert said(half) == [("demo", ["beta: slow"])]
    assert edit_deprecations(half, [say("", CHANNEL, "beta")]).blobs == PLAIN


def test_there_may_be_nothing_to_take_back() -> None:
    result = edit_deprecations(PLAIN, [say(""), say("", PACKAGE, "")])
    assert result.blobs == PLAIN
    assert result.warnings == ("bundle demo.v1.0.0 of package demo is not deprecated", "package demo is not deprecated")


def test_what_is_said_of_things_that_are_gone_can_be_taken_back() -> None:
    stale = {"reference": {"schema": BUNDLE, "name": "demo.v0.9.0"}, "message": "old"}
    blobs = PLAIN + catalog({}, {"schema": "olm.deprecations", "package": "demo", "entries": [stale]})
    with pytest.raises(InvalidCatalog, match=r'cannot deprecate bundle "demo\.v0\.9\.0": bundle not found'):
        edit_deprecations(blobs, [say("old")])
    assert edit_deprecations(blobs, [say("", name="demo.v0.9.0")]).blobs == PLAIN


@pytest.mark.parametrize(
    ("statement", "message", "advice"),
    [
        (say("old", name="demo.v1.1"), "bundle demo.v1.1: cannot", "did you mean demo.v1.1.0 or demo.v1.0.0?"),
        (say("", name="x"), "bundle x: cannot", "use one of the bundles: demo.v1.0.0, demo.v1.1.0"),
        (say("old", CHANNEL, "alfa"), "channel alfa: cannot", "did you mean alpha?"),
        (
            say("old", "olm.bundles"),
            '"olm.bundles": cannot',
            "use one of the schemas: olm.package, olm.channel, olm.bundle",
        ),
        (say("old", package="dem"), "package dem: cannot", "did you mean demo?"),
        (say("old", PACKAGE, "", "x"), "package x: cannot", "use one of the packages: demo, other"),
    ],
)
def test_what_is_referred_to_must_be_there(statement: DeprecationEdit, message: str, advice: str) -> None:
    with pytest.raises(CatalogError, match=r"be deprecated") as failure:
        edit_deprecations(PLAIN, [say("old"), statement])
    assert failure.value.message.startswith(message)
    assert str(failure.value.hint) == advice


def test_all_that_is_wrong_is_told() -> None:
    with pytest.raises(MultipleErrors) as failure:
        edit_deprecations(PLAIN, [say("old", package="x"), say("old", name="y")])
    assert [type(error) for error in failure.value.errors] == [UnknownPackage, CatalogError]


def test_a_package_is_referred_to_without_a_name() -> None:
    with pytest.raises(InvalidCatalog, match="package name must be empty"):
        edit_deprecations(PLAIN, [say("old", PACKAGE, "demo")])
