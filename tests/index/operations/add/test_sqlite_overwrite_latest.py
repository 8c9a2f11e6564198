"""Tests of overwriting the head of a channel in index databases."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from opmkit.index.convert.database_blobs import load_catalog
from opmkit.index.errors import CatalogError
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
    """An index with demo 1.0.0, demo 1.1.0 that replaces it in alpha and beta, and another package."""
    with replace_database(tmp_path / "index.db") as opened:
        bundles = [
            bundle("1.0.0"),
            bundle("1.1.0", channels="alpha,beta", default="alpha", replaces="demo.v1.0.0"),
            bundle("1.0.0", package="other"),
        ]
        add_bundles(opened, bundles)
        yield opened


def rebuilt(version: str, **fields: str) -> Bundle:
    package = fields.get("package", "demo")
    return bundle(version, image=f"registry.example.com/{package}:{version}-rebuilt", **fields)  # type: ignore[arg-type]


def dump(database: IndexDatabase) -> list[str]:
    return list(database.connection.iterdump())


def heads(database: IndexDatabase) -> list[tuple[str, str, str]]:
    return [(row.package, row.channel, row.head) for row in list_channels(load_catalog(database))]


def images(database: IndexDatabase, name: str) -> list[str]:
    rows = database.connection.execute("SELECT bundlepath FROM operatorbundle WHERE name = ?", (name,))
    return [image for (image,) in rows]


def test_new_bundle_replaces_the_old_one_in_its_own_channels(database: IndexDatabase) -> None:
    newer = rebuilt("1.1.0", channels="beta,gamma", default="gamma", replaces="demo.v1.0.0")
    add_bundles(database, [newer], AddOptions(overwrite_latest=True))
    assert images(database, "demo.v1.1.0") == [newer.image]
    assert heads(database) == [
        ("demo", "alpha", "demo.v1.0.0"),
        ("demo", "beta", "demo.v1.1.0"),
        ("demo", "gamma", "demo.v1.1.0"),
        ("other", "alpha", "other.v1.0.0"),
    ]


def test_overwrites_and_adds_bundles_of_several_packages(database: IndexDatabase) -> None:
    added = [
        rebuilt("1.1.0", replaces="demo.v1.0.0"),
        rebuilt("1.0.0", package="other"),
        bundle("1.2.0", replaces="demo.v1.1.0"),
    ]
    assert len(add_bundles(database, added, AddOptions(overwrite_latest=True)).added) == 3
    assert heads(database) == [
        ("demo", "alpha", "demo.v1.2.0"),
        ("demo", "beta", "demo.v1.0.0"),
        ("other", "alpha", "other.v1.0.0"),
    ]


def test_stranded_bundle_is_overwritten(database: IndexDatabase) -> None:
    add_bundles(database, [bundle("3.0.0", replaces="demo.gone")], AddOptions(permissive=True))
    add_bundles(database, [rebuilt("3.0.0", replaces="demo.v1.1.0")], AddOptions(overwrite_latest=True))
    assert ("demo", "alpha", "demo.v3.0.0") in heads(database)


@pytest.mark.parametrize(
    ("added", "problem"),
    [
        ([rebuilt("1.0.0")], "demo.v1.0.0 of package demo: cannot be overwritten: .* by demo.v1.1.0 in channel alpha"),
        ([rebuilt("1.1.0", replaces="demo.gone")], "replaces demo.gone, which is neither"),
        ([rebuilt("1.1.0", package="other", name="demo.v1.1.0")], "demo.v1.1.0 belongs to package demo in the index"),
        ([rebuilt("2.0.0"), rebuilt("3.0.0")], "package demo: several bundles would be overwritten: demo.v2.0.0, de"),
    ],
)
@pytest.mark.parametrize("permissive", [False, True])
def test_error_changes_nothing(database: IndexDatabase, added: list[Bundle], problem: str, permissive: bool) -> None:
    add_bundles(database, [bundle("3.0.0", channels="x"), bundle("2.0.0", channels="y")])
    before = dump(database)
    if permissive:
        result = add_bundles(database, added, AddOptions(overwrite_latest=True, permissive=True))
        assert result.added == ()
        assert re.search(problem, str(result.failures[0]))
    else:
        with pytest.raises(CatalogError, match=problem) as failure:
            add_bundles(database, added, AddOptions(overwrite_latest=True))
        assert failure.value.exit_code == 1
    assert dump(database) == before


def test_rejects_bundle_without_image(database: IndexDatabase) -> None:
    database.connection.execute("DELETE FROM properties")
    database.connection.execute("UPDATE operatorbundle SET bundlepath = ''")
    with pytest.raises(CatalogError, match="the existing bundle has no image"):
        add_bundles(database, [rebuilt("1.1.0")], AddOptions(overwrite_latest=True))


def test_rejects_existing_image(database: IndexDatabase) -> None:
    with pytest.raises(CatalogError, match=r"demo:1.1.0 already exists") as failure:
        add_bundles(database, [bundle("1.1.0")], AddOptions(overwrite_latest=True))
    assert failure.value.exit_code == 2


def test_rejects_semver_modes(database: IndexDatabase) -> None:
    with pytest.raises(CatalogError, match="used by a bundle of the index") as failure:
        add_bundles(database, [rebuilt("1.1.0")], AddOptions(UpdateMode.SEMVER, overwrite_latest=True))
    assert failure.value.exit_code == 1
