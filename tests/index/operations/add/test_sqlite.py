"""Tests of adding bundles to index databases, and of their rollback."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from opmkit.bundle import ApiKey
from opmkit.bundle.model import BundleAnnotations
from opmkit.index.convert.database_blobs import load_catalog
from opmkit.index.errors import AddRejected, BundleExists, CatalogError, GraphError, InvalidCatalog
from opmkit.index.modes import UpdateMode
from opmkit.index.operations.add.options import AddOptions
from opmkit.index.operations.add.sqlite import add_bundles
from opmkit.index.operations.list import list_channels
from opmkit.index.sqlite import replace_database
from tests.index.builders import bundle

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from opmkit.bundle import Bundle
    from opmkit.index.sqlite import IndexDatabase


@pytest.fixture
def database(tmp_path: Path) -> Iterator[IndexDatabase]:
    """An index with the bundle demo 1.0.0."""
    with replace_database(tmp_path / "index.db") as opened:
        add_bundles(opened, [bundle("1.0.0")])
        yield opened


def dump(database: IndexDatabase) -> list[str]:
    return list(database.connection.iterdump())


def failed_add(database: IndexDatabase, *bundles: Bundle) -> CatalogError:
    """Return the error of an add that fails and changes nothing."""
    before = dump(database)
    with pytest.raises(CatalogError) as failure:
        add_bundles(database, bundles)
    assert dump(database) == before
    return failure.value


def test_newer_bundle_heads_its_channel(database: IndexDatabase) -> None:
    result = add_bundles(database, [bundle("1.1.0", replaces="demo.v1.0.0")])
    assert [added.name for added in result.added] == ["demo.v1.1.0"]
    assert not result.failures
    (channel,) = list_channels(load_catalog(database))
    assert channel.head == "demo.v1.1.0"


def test_existing_image_has_its_own_exit_code(database: IndexDatabase) -> None:
    error = failed_add(database, bundle("1.0.0"))
    assert error.exit_code == 2
    assert "registry.example.com/demo:1.0.0 already exists" in error.message


def test_new_image_is_rejected_with_an_existing_one(database: IndexDatabase) -> None:
    error = failed_add(database, bundle("1.0.0"), bundle("1.1.0", replaces="demo.v1.0.0"))
    assert isinstance(error, AddRejected)
    assert error.exit_code == 2
    assert "demo:1.1.0: not added: registry.example.com/demo:1.0.0 of the same command" in error.message


def test_existing_name_has_its_own_exit_code(database: IndexDatabase) -> None:
    assert failed_add(database, bundle("1.0.0", image="registry.example.com/demo:again")).exit_code == 3


def test_rejects_edges_to_another_package(database: IndexDatabase) -> None:
    error = failed_add(database, bundle("2.0.0", package="other", skips=("demo.v1.0.0",)))
    assert "demo.v1.0.0 belongs to package demo in the index" in error.message
    assert error.exit_code == 1


def test_duplicate_images_are_added_once(database: IndexDatabase) -> None:
    newer = bundle("1.1.0", replaces="demo.v1.0.0")
    assert len(add_bundles(database, [newer, newer]).added) == 1


@pytest.mark.parametrize("swapped", [False, True])
def test_first_of_two_images_with_the_same_name_is_added(database: IndexDatabase, swapped: bool) -> None:
    pair = [bundle("1.1.0", replaces="demo.v1.0.0", image=f"r.example.com/{letter}") for letter in "ab"]
    result = add_bundles(database, reversed(pair) if swapped else pair, AddOptions(permissive=True))
    assert [type(failure) for failure in result.failures] == [BundleExists]
    assert "r.example.com/b: cannot be added: its name is used by r.example.com/a" in result.failures[0].message
    paths = database.connection.execute("SELECT bundlepath FROM operatorbundle WHERE version = '1.1.0'").fetchall()
    assert paths == [("r.example.com/a",)]


def test_rejects_pruned_bundle(database: IndexDatabase) -> None:
    error = failed_add(database, bundle("2.0.0"), bundle("1.5.0"))
    assert isinstance(error, GraphError)
    assert "add prunes bundle demo.v1.5.0" in error.message


def test_permissive_retains_old_graph_and_adds_valid_packages(database: IndexDatabase) -> None:
    result = add_bundles(
        database,
        [bundle("1.2.0", replaces="demo.v1.1.0"), bundle("1.0.0", package="other")],
        AddOptions(permissive=True),
    )
    assert ["demo.v1.2.0 replaces demo.v1.1.0" in failure.message for failure in result.failures] == [True]
    assert [(row.package, row.head) for row in list_channels(load_catalog(database))] == [
        ("demo", "demo.v1.0.0"),
        ("other", "other.v1.0.0"),
    ]
    stranded = add_bundles(
        database, [bundle("1.2.0", image="registry.example.com/demo:x")], AddOptions(permissive=True)
    )
    assert "its name is used by a bundle of the index" in stranded.failures[0].message


@pytest.mark.parametrize("mode", list(UpdateMode))
def test_bundle_without_package(database: IndexDatabase, mode: UpdateMode) -> None:
    before = dump(database)
    nameless = replace(bundle("3.0.0"), annotations=BundleAnnotations("", ("alpha",), ""))
    with pytest.raises(
        CatalogError, match=r"demo:3\.0\.0: cannot be added: the annotation \S+\.package\.v1 is missing"
    ):
        add_bundles(database, [nameless], AddOptions(mode))
    assert dump(database) == before
    result = add_bundles(
        database, [nameless, bundle("1.1.0", replaces="demo.v1.0.0")], AddOptions(mode, permissive=True)
    )
    assert [added.name for added in result.added] == ["demo.v1.1.0"]
    assert ["is missing or empty" in failure.message for failure in result.failures] == [True]


def test_permissive_adds_nothing_if_a_bundle_exists(database: IndexDatabase) -> None:
    before = dump(database)
    result = add_bundles(database, [bundle("1.0.0"), bundle("1.1.0")], AddOptions(permissive=True))
    assert result.added == ()
    assert [failure.exit_code for failure in result.failures] == [2, 3, 2]
    assert dump(database) == before


def test_error_while_reading_bundles_rolls_back(database: IndexDatabase) -> None:
    def bundles() -> Iterator[Bundle]:
        yield bundle("1.1.0", replaces="demo.v1.0.0")
        raise ConnectionResetError

    before = dump(database)
    with pytest.raises(ConnectionResetError):
        add_bundles(database, bundles())
    assert dump(database) == before


def test_bundle_remains_deprecated_when_added_again(database: IndexDatabase) -> None:
    database.connection.execute("INSERT INTO deprecated VALUES ('demo.v1.1.0')")
    newer = bundle("1.2.0", replaces="demo.v1.1.0")
    add_bundles(database, [newer, bundle("1.1.0", replaces="demo.v1.0.0")], AddOptions(permissive=True))
    rows = database.connection.execute("SELECT operatorbundle_name FROM properties WHERE type = 'olm.deprecated'")
    assert rows.fetchall() == [("demo.v1.1.0",)]
    entries = load_catalog(database).packages["demo"].channels["alpha"].entries
    assert {name: entry.replaces for name, entry in entries.items()} == {"demo.v1.2.0": "demo.v1.1.0"}


def test_plural_of_the_lowest_version_is_stored(database: IndexDatabase) -> None:
    plurals = {"1.1.0": "widgets", "1.2.0": "widgetz"}
    bundles = [
        _with_api(bundle(version, skips=("demo.v1.0.0", "demo.v1.1.0")), plurals[version]) for version in plurals
    ]
    add_bundles(database, reversed(bundles))
    assert database.connection.execute("SELECT plural FROM api").fetchall() == [("widgets",)]


def _with_api(parsed: Bundle, plural: str) -> Bundle:
    return replace(parsed, provided_apis=(ApiKey("example.com", "v1", "Widget", plural),))


def test_rejects_substitutes_without_alpha_features(database: IndexDatabase) -> None:
    newer = bundle("1.1.0", replaces="demo.v1.0.0")
    error = failed_add(database, replace(newer, csv=replace(newer.csv, substitutes_for="demo.v1.0.0")))
    assert "it substitutes demo.v1.0.0" in error.message


def test_package_with_a_bundle_without_image_is_not_checked(database: IndexDatabase) -> None:
    """As in operator-registry, the existing image is then rejected only for its name, with another exit code."""
    database.connection.execute("DELETE FROM properties")
    database.connection.execute("UPDATE operatorbundle SET bundlepath = ''")
    error = failed_add(database, bundle("1.0.0"))
    assert isinstance(error, BundleExists)
    assert error.exit_code == 1


def test_rejects_head_that_the_index_skips(database: IndexDatabase) -> None:
    add_bundles(database, [bundle("1.1.0", replaces="demo.v1.0.0", skips=("demo.v2.0.0",))])
    error = failed_add(database, bundle("2.0.0", replaces="demo.v1.1.0"))
    assert str(error.hint).startswith("give the new bundle another name")


def test_rejects_bundle_in_channel_with_deprecated_head(database: IndexDatabase) -> None:
    database.connection.execute("INSERT INTO deprecated VALUES ('demo.v1.1.0')")
    older = bundle("1.1.0", channels="beta", replaces="demo.v1.0.0")
    error = failed_add(database, bundle("1.2.0", default="alpha", replaces="demo.v1.1.0"), older)
    assert "channel beta, which the package does not have: its head is deprecated" in error.message


@pytest.mark.parametrize("csv", ["null", "[]", '{"spec": []}', '{"spec": {"displayName": 1}}', "{"])
def test_package_without_valid_display_name_is_listed(database: IndexDatabase, csv: str) -> None:
    assert load_catalog(database).packages["demo"].display_name == "Demo 1.0.0"
    database.connection.execute("UPDATE operatorbundle SET csv = ?", (csv,))
    assert load_catalog(database).packages["demo"].display_name == ""


def test_no_bundles(database: IndexDatabase) -> None:
    assert add_bundles(database, []).added == ()


def test_modes_are_case_insensitive() -> None:
    assert UpdateMode.parse("SemVer-SkipPatch") is UpdateMode.SEMVER_SKIPPATCH
    with pytest.raises(CatalogError, match='invalid update mode "other"') as failure:
        UpdateMode.parse("other")
    assert str(failure.value.hint) == "use one of: replaces, semver, semver-skippatch"


def test_load_catalog_reports_all_findings(database: IndexDatabase) -> None:
    add_bundles(database, [bundle("1.1.0", replaces="demo.v1.0.0")])
    database.connection.execute(
        "UPDATE properties SET value = '{\"packageName\": \"demo\"}' WHERE value LIKE '%1.1.0%'"
    )
    database.connection.execute("UPDATE properties SET value = '{\"x\": 1}' WHERE value LIKE '%1.0.0%'")
    with pytest.raises(InvalidCatalog) as failure:
        load_catalog(database)
    no_version = '"olm.package" property has version "", which is not a semantic version'
    assert failure.value.message.splitlines() == [
        'package "demo", bundle "demo.v1.0.0": package "demo" does not match "olm.package" property ""',
        f'package "demo", bundle "demo.v1.0.0": {no_version}',
        f'package "demo", bundle "demo.v1.1.0": {no_version}',
    ]


def test_load_catalog_reports_invalid_json(database: IndexDatabase) -> None:
    add_bundles(database, [bundle("1.1.0")])
    database.connection.execute("UPDATE properties SET value = '{' WHERE type = 'olm.package'")
    with pytest.raises(InvalidCatalog, match=r'bundle "demo.v1.1.0": parse property\[\d\] of type "olm.package"'):
        load_catalog(database)
