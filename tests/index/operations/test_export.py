"""Tests of exporting packages as directories of manifests."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
import yaml
from msgspec.structs import replace

from opmkit.bundle import NotABundle
from opmkit.imagetools.errors import ImageToolsError
from opmkit.imagetools.registry import RegistryOptions
from opmkit.imagetools.store import ImageStore, LayoutRepository
from opmkit.imagetools.tools import open_tool
from opmkit.index.convert.database_blobs import database_to_blobs
from opmkit.index.errors import CatalogError
from opmkit.index.operations.add.sqlite import add_bundles
from opmkit.index.operations.export import PackageManifest, export_packages, packages_in_catalog, packages_in_database
from opmkit.index.sqlite import open_database, replace_database
from opmkit.index.sqlite.packages import deprecated_bundles
from tests.index.builders import bundle
from tests.index.recorded_adds import REGISTRY
from tests.index.recorded_steps import step
from tests.kit.corpus import LayoutCorpus, save_files
from tests.kit.shared import Case, cases, found_files, needs_shared

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit.bundle import Bundle
    from opmkit.imagetools.tools.tool import ContainerTool


@pytest.fixture
def tool(tmp_path: Path) -> ContainerTool:
    return open_tool("none", options=RegistryOptions(), store=ImageStore.open(tmp_path / "store"))


@pytest.mark.slow
@needs_shared
@pytest.mark.parametrize("case", cases("export"), ids=str)
def test_files_equal_recorded_results(case: Case, tmp_path: Path, tool: ContainerTool) -> None:
    path, corpus = tmp_path / "index.db", LayoutCorpus(tmp_path / "layouts")
    *changes, export = [recorded["argv"] for recorded in case.record["steps"]]
    for argv in changes:
        corpus.fill(argv)
        change = step(argv)
        assert change is not None
        assert change.run(path) == 0
    values = dict(zip(export, [*export[1:], ""], strict=True))
    packages = [name for name in values.get("--package", "").split(",") if name]
    assert_equal_catalog_export(path, packages)
    move_images(path, corpus.prefix)
    directory = values.get("--download-folder", "downloaded")
    with open_database(path) as database:
        export_packages(packages_in_database(database, packages), tmp_path / "work" / directory, tool)
    assert found_files(tmp_path / "work") == case.record["files"]


def assert_equal_catalog_export(path: Path, packages: list[str]) -> None:
    """Check that the export of the converted catalog is equal, without deprecated bundles."""
    with open_database(path) as database:
        deprecated = deprecated_bundles(database)
        expected = [
            replace(package, bundles=[bundle for bundle in package.bundles if bundle.name not in deprecated])
            for package in packages_in_database(database, packages)
        ]
        assert list(packages_in_catalog(database_to_blobs(database), packages)) == expected


def move_images(path: Path, prefix: str) -> None:
    """Replace the registry of bundle images."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE operatorbundle SET bundlepath = replace(bundlepath, ?, ?)", (REGISTRY, prefix))


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    """Layouts of the bundle images demo:1.0.0 and demo:1.1.0 and of another image."""
    layouts = LayoutRepository(tmp_path / "layouts" / "demo")
    for tag in ("1.0.0", "1.1.0"):
        file = tmp_path / f"{tag}.yaml"
        file.write_text(f"version: {tag}\n")
        files = {"manifests/csv.yaml": file, "manifests/more/file.yaml": file, "metadata/annotations.yaml": file}
        save_files(files, {}, layouts, tag)
    save_files({"bin/operator": file}, {}, layouts, "operator")
    return f"oci:{tmp_path}/layouts"


def index(tmp_path: Path, *bundles: Bundle) -> Path:
    path = tmp_path / "index.db"
    with replace_database(path) as database:
        add_bundles(database, bundles)
    return path


def export(path: Path, destination: Path, tool: ContainerTool, *packages: str) -> list[str]:
    with open_database(path) as database:
        export_packages(packages_in_database(database, packages), destination, tool)
    return sorted(file.relative_to(destination).as_posix() for file in destination.rglob("*") if file.is_file())


def test_retains_other_files(tmp_path: Path, prefix: str, tool: ContainerTool) -> None:
    destination = tmp_path / "out"
    (destination / "demo").mkdir(parents=True)
    (destination / "demo" / "notes").touch()
    path = index(tmp_path, bundle("1.0.0", image=f"{prefix}/demo:1.0.0"), bundle("1.0.0", package="other", image="x"))
    assert export(path, destination, tool, "demo", "demo") == [
        "demo/1.0.0/csv.yaml",
        "demo/1.0.0/more/file.yaml",
        "demo/notes",
        "demo/package.yaml",
    ]
    assert (destination / "demo" / "package.yaml").read_text() == (
        "packageName: demo\nchannels:\n    - name: alpha\n      currentCSV: demo.v1.0.0\ndefaultChannel: alpha\n"
    )


def test_directories_of_bundles_with_equal_versions_have_their_names(
    tmp_path: Path, prefix: str, tool: ContainerTool
) -> None:
    path = index(tmp_path, bundle("1.0.0", image=f"{prefix}/demo:1.0.0"))
    with replace_database(path) as database:
        added = bundle("1.1.0", replaces="demo.v1.0.0", image=f"{prefix}/demo:1.1.0")
        add_bundles(database, [added])
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE operatorbundle SET version = ''")
    written = export(path, tmp_path / "out", tool)
    assert written[::2] == ["demo/demo.v1.0.0/csv.yaml", "demo/demo.v1.1.0/csv.yaml", "demo/package.yaml"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("image", "name", "error", "message"),
    [
        ("demo:9.9.9", "demo", ImageToolsError, "9.9.9"),
        ("demo:operator", "demo", NotABundle, "demo:operator is not a bundle"),
        ("demo:1.1.0", "../demo", CatalogError, "package '../demo': cannot be exported"),
        ("demo:1.1.0", "..", CatalogError, "package '..': cannot be exported"),
        ("", "demo", CatalogError, "bundle demo.v1.1.0: cannot be exported: it has no image"),
    ],
)
def test_error_writes_nothing(
    tmp_path: Path, prefix: str, tool: ContainerTool, image: str, name: str, error: type[Exception], message: str
) -> None:
    path = index(tmp_path, bundle("1.0.0", image=f"{prefix}/demo:1.0.0"))
    with replace_database(path) as database:
        replacing = bundle("1.1.0", replaces="demo.v1.0.0", image=f"{prefix}/{image}")
        add_bundles(database, [replacing])
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for table, column in (("package", "name"), ("channel", "package_name"), ("channel_entry", "package_name")):
            connection.execute(f"UPDATE {table} SET {column} = ?", (name,))
        if not image:
            connection.execute("UPDATE operatorbundle SET bundlepath = '' WHERE version = '1.1.0'")
    with pytest.raises(error) as failure:
        export(path, tmp_path / "out", tool)
    assert message in str(failure.value)
    assert not (tmp_path / "out").exists()


def test_rejects_versions_that_are_paths(tmp_path: Path, prefix: str, tool: ContainerTool) -> None:
    path = index(tmp_path, bundle("1.0.0", image=f"{prefix}/demo:1.0.0"))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE operatorbundle SET version = '../../1.0.0'")
    with pytest.raises(CatalogError, match=r"'\.\./\.\./1\.0\.0': cannot be exported"):
        export(path, tmp_path / "out", tool)
    assert not (tmp_path / "out").exists()


def test_names_are_quoted_where_yaml_reads_them_differently() -> None:
    manifest = PackageManifest("1.31", "", (("\x85\u202e", "a\nb"), ("null", "x.v1")))
    assert yaml.safe_load(manifest.to_yaml()) == {
        "packageName": "1.31",
        "channels": [{"name": "\x85\u202e", "currentCSV": "a\nb"}, {"name": "null", "currentCSV": "x.v1"}],
        "defaultChannel": "",
    }
    assert PackageManifest("x", "", ()).to_yaml() == b'packageName: x\nchannels: []\ndefaultChannel: ""\n'
