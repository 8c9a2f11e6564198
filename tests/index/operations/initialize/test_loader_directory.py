"""Tests of loading directories of package manifests into index databases."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from opmkit.bundle.errors import InvalidBundle
from opmkit.index.errors import BundleExists, CatalogError, GraphError
from opmkit.index.operations.initialize.loader import InitializeResult, initialize
from opmkit.index.sqlite import IndexDatabase, replace_database
from tests.kit.shared import SHARED, Case, assert_equal_index, cases, needs_shared


@pytest.mark.slow
@needs_shared
@pytest.mark.parametrize("case", cases("initializer"), ids=str)
def test_database_equals_recorded_result(case: Case, tmp_path: Path) -> None:
    manifests, path = tmp_path / "manifests", tmp_path / "index.db"
    manifests.mkdir()
    for source in case.record["manifests_dirs"]:
        shutil.copytree(SHARED / source, manifests / Path(source).name)
    [step] = case.record["steps"]
    if step["exit"]:
        with pytest.raises(CatalogError) as failure, replace_database(path) as database:
            initialize(database, manifests)
        assert failure.value.exit_code == step["exit"]
        assert not path.exists()
        return
    with replace_database(path) as database:
        initialize(database, manifests, permissive="--permissive" in step["argv"])
    assert_equal_index(case.record, path, "registry.example.com")


def write(directory: Path, name: str, **spec: Any) -> Path:
    """Write the ClusterServiceVersion ``name``; keyword arguments are annotations and fields of its spec."""
    directory.mkdir(parents=True, exist_ok=True)
    annotations = spec.pop("annotations", {})
    path = directory / f"{name}.yaml"
    path.write_text(
        f"apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\n"
        f"metadata: {{name: {name}, annotations: {annotations}}}\nspec: {spec}\n"
    )
    return path


def describe(path: Path, default: str = "", **heads: str) -> None:
    channels = [{"name": channel, "currentCSV": head} for channel, head in heads.items()]
    path.write_text(f"packageName: demo\ndefaultChannel: '{default}'\nchannels: {channels}\n")


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    """Manifests of demo: version 2 replaces version 1 and heads the channel stable."""
    directory = tmp_path / "manifests"
    write(directory / "1", "demo.v1", version="1.0.0")
    write(directory / "2", "demo.v2", version="no version", replaces="demo.v1")
    describe(directory / "demo.package.yaml", stable="demo.v2")
    return directory


def load(manifests: Path, *, permissive: bool = False) -> tuple[InitializeResult, list[tuple[Any, ...]]]:
    """Load the directory; return the result and the channel entries."""
    with replace_database(manifests.parent / "index.db") as database:
        result = initialize(database, manifests, permissive=permissive)
        return result, entries(database)


def entries(database: IndexDatabase) -> list[tuple[Any, ...]]:
    return database.connection.execute(
        "SELECT channel_name, operatorbundle_name, depth FROM channel_entry ORDER BY 1, 3"
    ).fetchall()


def test_versions_need_not_be_valid(manifests: Path) -> None:
    result, loaded = load(manifests)
    assert result == InitializeResult(("demo.v1", "demo.v2"), ("demo",))
    assert loaded == [("stable", "demo.v2", 0), ("stable", "demo.v1", 1)]


def test_ignores_hidden_files(manifests: Path) -> None:
    write(manifests / ".git", "demo.v3")
    (manifests / "1" / ".notes").write_text("{")
    (manifests / "link").symlink_to(manifests / "1")
    assert load(manifests)[0].bundles == ("demo.v1", "demo.v2")


def test_links_out_of_the_directory_are_refused(manifests: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("a: 1")
    (manifests / "1" / "z.yaml").symlink_to(tmp_path / "outside")
    with pytest.raises(InvalidBundle, match=r"1/z\.yaml: refusing to follow a symbolic link"):
        load(manifests)


def test_last_file_for_a_package_is_used(manifests: Path) -> None:
    describe(manifests / "1" / "demo.yaml", beta="demo.v1")
    assert {channel for channel, *_ in load(manifests)[1]} == {"stable"}
    describe(manifests / "z.yaml", default="fast", fast="demo.v1", slow="demo.v1")
    (manifests.parent / "index.db").unlink()
    assert load(manifests)[1] == [("fast", "demo.v1", 0), ("slow", "demo.v1", 0)]


def corrupt(manifests: Path, how: str) -> None:
    match how:
        case "head":
            describe(manifests / "demo.package.yaml", stable="demo.v9")
        case "default":
            describe(manifests / "demo.package.yaml", stable="demo.v2", beta="demo.v1")
        case "replaces":
            write(manifests / "1", "demo.v1", version="1.0.0", replaces="demo.v0")
        case "cycle":
            write(manifests / "1", "demo.v1", version="1.0.0", replaces="demo.v2")
        case "text":
            (manifests / "README.md").write_text("# Demo\nAn operator.\n")
        case "syntax":
            (manifests / "x.yaml").write_text("a:\n  b: [\n")
        case "empty":
            (manifests / "x.yaml").touch()
        case "channels":
            (manifests / "x.yaml").write_text("packageName: other\nchannels: stable\n")


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("head", r"demo.package.yaml: channel stable of package demo: head demo.v9 not found"),
        ("default", r"no default channel specified for demo: its channels are: stable, beta"),
        ("replaces", r"demo.v1 replaces demo.v0, which is neither in the index"),
        ("cycle", r"has a cycle: demo.v2 -> demo.v1 -> demo.v2"),
        ("text", r"README.md: the document is a string, not a mapping"),
        ("syntax", r"x.yaml:\d+:\d+: "),
        ("empty", r"x.yaml: the file is empty"),
        ("channels", r"x.yaml: channels is a string, not a list"),
    ],
)
def test_invalid_packages(manifests: Path, how: str, message: str) -> None:
    corrupt(manifests, how)
    with pytest.raises(CatalogError, match=message) as failure:
        load(manifests)
    assert str(failure.value.hint)
    assert [path.name for path in manifests.parent.iterdir()] == ["manifests"]
    result, _ = load(manifests, permissive=True)
    assert result.bundles == ("demo.v1", "demo.v2")
    assert len(result.failures) == 1


def test_invalid_package_retains_the_old_graph(manifests: Path) -> None:
    load(manifests)
    shutil.rmtree(manifests / "1")
    shutil.rmtree(manifests / "2")
    corrupt(manifests, "head")
    result, loaded = load(manifests, permissive=True)
    assert isinstance(result.failures[0], GraphError)
    assert len(loaded) == 2


def test_duplicate_name(manifests: Path) -> None:
    write(manifests / "3", "demo.v1", version="1.0.1")
    with pytest.raises(BundleExists, match=r"3/demo\.v1\.yaml: bundle demo\.v1 already exists"):
        load(manifests)


def test_bundle_with_missing_crds_is_a_failure_and_is_stored(manifests: Path) -> None:
    owned = [{"name": "things.example.com", "version": "v1", "kind": "Thing"}]
    write(manifests / "3", "demo.v3", customresourcedefinitions={"owned": owned})
    with pytest.raises(CatalogError, match=r"missing CRDs owned by demo\.v3: example\.com/v1/Thing \(things\)"):
        load(manifests)
    assert load(manifests, permissive=True)[0].bundles == ("demo.v1", "demo.v2", "demo.v3")


def test_invalid_bundles(manifests: Path) -> None:
    write(manifests / "3", "demo.v3", version=["3"])
    write(manifests / "4", "demo.v4", annotations={"olm.substitutesFor": "demo.v1"})
    (write(manifests / "5", "demo.v5").parent / "crd.yaml").write_text(
        "apiVersion: example.com/v1\nkind: CustomResourceDefinition\nmetadata: {name: things.example.com}\n"
    )
    result, _ = load(manifests, permissive=True)
    assert result.bundles == ("demo.v1", "demo.v2")
    problems = ["spec.version is a list", "it substitutes demo.v1", "unknown API group"]
    assert [problem in str(error) for problem, error in zip(problems, result.failures, strict=True)] == [True] * 3


def test_bundles_in_one_directory_share_its_other_objects(tmp_path: Path) -> None:
    flat = tmp_path / "manifests"
    write(flat, "demo.v1")
    write(flat, "demo.v2")
    (flat / "config.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared}\n")
    with replace_database(tmp_path / "index.db") as database:
        initialize(database, flat)
        rows = database.connection.execute(
            "SELECT name, CAST(bundle AS TEXT) FROM operatorbundle ORDER BY 1"
        ).fetchall()
    assert [(name, objects.count("\n"), "shared" in objects) for name, objects in rows] == [
        ("demo.v1", 2, True),
        ("demo.v2", 2, True),
    ]


def test_missing_directory(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="none: not a directory"), replace_database(tmp_path / "x.db") as database:
        initialize(database, tmp_path / "none")
    assert list(tmp_path.iterdir()) == []
    with replace_database(tmp_path / "x.db") as database:
        assert len(initialize(database, tmp_path / "none", permissive=True).failures) == 1
