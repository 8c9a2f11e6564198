"""Tests that Go opm reads databases of opmkit; OPMKIT_REFERENCE_OPM is its path."""

from __future__ import annotations

import os
import subprocess
from dataclasses import astuple
from typing import TYPE_CHECKING

import pytest

from opmkit.index.convert.database_blobs import load_catalog
from opmkit.index.operations.add.sqlite import add_bundles
from opmkit.index.operations.list import list_bundles
from opmkit.index.sqlite import open_database, replace_database
from tests.index.builders import bundle

if TYPE_CHECKING:
    from pathlib import Path

GO_OPM = os.environ.get("OPMKIT_REFERENCE_OPM", "")

pytestmark = pytest.mark.skipif(not GO_OPM, reason="OPMKIT_REFERENCE_OPM is not set")


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "index.db"
    with replace_database(path) as opened:
        bundles = [
            bundle("1.0.0", channels="alpha,beta", default="beta"),
            bundle("1.1.0", channels="alpha,beta", default="beta", replaces="demo.v1.0.0"),
            bundle("1.2.0", channels="alpha", replaces="demo.v1.0.0", skips=("demo.v1.1.0", "demo.v1.0.5")),
            bundle("0.1.0", package="other"),
        ]
        add_bundles(opened, bundles)
    return path


def go_opm(directory: Path, *argv: str) -> list[str]:
    done = subprocess.run([GO_OPM, *argv], cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_go_opm_lists_the_same_bundles(database: Path, tmp_path: Path) -> None:
    with open_database(database) as opened:
        ours = list_bundles(load_catalog(opened))
    cells = [[",".join(cell) if isinstance(cell, tuple) else cell for cell in astuple(row)] for row in ours]
    theirs = go_opm(tmp_path, "alpha", "list", "bundles", str(database))[1:]
    assert [line.split() for line in theirs] == [list(filter(None, row)) for row in cells]


def test_go_opm_renders_the_database(database: Path, tmp_path: Path) -> None:
    assert go_opm(tmp_path, "render", str(database))


def test_go_opm_does_not_migrate_the_database(database: Path, tmp_path: Path) -> None:
    with open_database(database) as opened:
        before = list(opened.connection.iterdump())
    go_opm(tmp_path, "registry", "add", "--database", str(database))
    with open_database(database) as opened:
        assert list(opened.connection.iterdump()) == before
