"""Tests of deprecatetruncate in index databases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opmkit.index.errors import CatalogError, GraphError
from opmkit.index.operations.add.sqlite import add_bundles
from opmkit.index.operations.truncate.change import TruncateResult, truncate_bundles
from opmkit.index.sqlite import replace_database
from tests.index.builders import bundle
from tests.index.recorded_steps import replay
from tests.kit.shared import Case, cases, needs_shared

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from opmkit.index.sqlite import IndexDatabase

IMAGE = "registry.example.com/demo:"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[IndexDatabase]:
    """Channel alpha with 1.0.0 <- 1.1.0 <- 1.2.0 <- 1.3.0, beta up to 1.1.0, and another package."""
    with replace_database(tmp_path / "index.db") as opened:
        chain = [
            bundle("1.0.0", channels="alpha,beta", default="alpha"),
            bundle("1.1.0", channels="alpha,beta", default="alpha", replaces="demo.v1.0.0"),
            bundle("1.2.0", default="alpha", replaces="demo.v1.1.0"),
            bundle("1.3.0", default="alpha", replaces="demo.v1.2.0"),
            bundle("1.0.0", package="other"),
        ]
        add_bundles(opened, chain)
        yield opened


@pytest.mark.slow
@needs_shared
@pytest.mark.parametrize("case", cases("deprecatetruncate"), ids=str)
def test_database_equals_recorded_result(case: Case, tmp_path: Path) -> None:
    replay(case, tmp_path / "index.db")


def entries(database: IndexDatabase) -> list[tuple[str, str]]:
    return database.connection.execute(
        "SELECT channel_name, operatorbundle_name FROM channel_entry WHERE package_name = 'demo' ORDER BY 1, 2"
    ).fetchall()


def stored(database: IndexDatabase) -> list[str]:
    return [name for (name,) in database.connection.execute("SELECT name FROM operatorbundle ORDER BY name")]


def test_removes_bundles_below(database: IndexDatabase) -> None:
    assert truncate_bundles(database, [f"{IMAGE}1.1.0"]) == TruncateResult(("demo.v1.1.0",))
    assert entries(database) == [("alpha", f"demo.v1.{minor}.0") for minor in (1, 2, 3)]
    assert stored(database) == ["demo.v1.1.0", "demo.v1.2.0", "demo.v1.3.0", "other.v1.0.0"]


def test_bundle_of_another_channel_is_retained(database: IndexDatabase) -> None:
    truncate_bundles(database, [f"{IMAGE}1.2.0"])
    assert entries(database) == [
        ("alpha", "demo.v1.2.0"),
        ("alpha", "demo.v1.3.0"),
        ("beta", "demo.v1.0.0"),
        ("beta", "demo.v1.1.0"),
    ]


def test_skips_removed_bundles(database: IndexDatabase) -> None:
    images = [f"{IMAGE}1.1.0", f"{IMAGE}1.0.0"]
    assert truncate_bundles(database, images) == TruncateResult(("demo.v1.1.0",))


@pytest.mark.parametrize("permissive", [False, True])
def test_rejects_removal_of_the_default_channel(database: IndexDatabase, *, permissive: bool) -> None:
    before = entries(database)
    images = [f"{IMAGE}1.3.0", f"{IMAGE}1.1.0", f"{IMAGE}9.9.9"]
    if not permissive:
        with pytest.raises(CatalogError, match="causing default channel removal: it is the head") as failure:
            truncate_bundles(database, images)
        assert f"missing from registry: [{IMAGE}9.9.9]" in str(failure.value)
        assert str(failure.value.hint)
        assert entries(database) == before
    else:
        result = truncate_bundles(database, images, permissive=True)
        assert result.deprecated == ("demo.v1.1.0",)
        assert [isinstance(failure, GraphError) for failure in result.failures] == [False, True]
        assert len(entries(database)) == 3


def test_removes_package_with_all_heads(database: IndexDatabase) -> None:
    heads = [f"{IMAGE}1.1.0", f"{IMAGE}1.3.0"]
    result = truncate_bundles(database, [*heads, f"{IMAGE}1.2.0"], allow_package_removal=True)
    assert result == TruncateResult((), ("demo",))
    assert stored(database) == ["other.v1.0.0"]


def test_repeated_head_removes_the_package_once(database: IndexDatabase) -> None:
    heads = [f"{IMAGE}1.3.0", f"{IMAGE}1.1.0", f"{IMAGE}1.3.0"]
    with pytest.raises(CatalogError, match="passed twice"):
        truncate_bundles(database, heads, allow_package_removal=True)
    assert "demo.v1.3.0" in stored(database)
    result = truncate_bundles(database, heads, allow_package_removal=True, permissive=True)
    assert (result.removed_packages, len(result.failures)) == (("demo",), 1)


def test_rejects_package_removal_without_all_heads(database: IndexDatabase) -> None:
    with pytest.raises(CatalogError, match=rf"must deprecate {IMAGE}1\.1\.0, head of channel beta"):
        truncate_bundles(database, [f"{IMAGE}1.3.0"], allow_package_removal=True)
    result = truncate_bundles(database, [f"{IMAGE}1.3.0", f"{IMAGE}1.2.0"], allow_package_removal=True, permissive=True)
    assert (result.deprecated, result.removed_packages, len(result.failures)) == (("demo.v1.2.0",), (), 2)


def test_rejects_package_without_default_channel(database: IndexDatabase) -> None:
    database.connection.execute("UPDATE package SET default_channel = NULL WHERE name = 'demo'")
    with pytest.raises(GraphError, match=r"bundle demo\.v1\.1\.0: it is in no package that has a default channel"):
        truncate_bundles(database, [f"{IMAGE}1.1.0"])


def test_many_bundles(tmp_path: Path) -> None:
    """Callers pass up to a thousand images."""
    packages = [f"p{number}" for number in range(334)]
    with replace_database(tmp_path / "many.db") as opened:
        for package in packages:
            links = ("", f"{package}.v1.0.0", f"{package}.v2.0.0")
            chain = [bundle(f"{major + 1}.0.0", package=package, replaces=link) for major, link in enumerate(links)]
            add_bundles(opened, chain)
        images = [f"registry.example.com/{package}:{version}" for version in ("1.0.0", "2.0.0") for package in packages]
        assert len(truncate_bundles(opened, images).deprecated) == len(images)
        assert len(stored(opened)) == len(images)


def test_package_without_default_channel_ends_permissive_operation(database: IndexDatabase) -> None:
    database.connection.execute("UPDATE package SET default_channel = NULL WHERE name = 'demo'")
    add_bundles(database, [bundle("2.0.0", package="other", replaces="other.v1.0.0")])
    images = ["registry.example.com/other:1.0.0", f"{IMAGE}1.1.0", f"{IMAGE}1.0.0"]
    result = truncate_bundles(database, images, permissive=True)
    assert result.deprecated == ("other.v1.0.0",)
    assert len(result.failures) == 1
