"""Databases written here, read by the reference tool where OPMKIT_REFERENCE_OPM names it."""

from __future__ import annotations

import os
import subprocess
from dataclasses import astuple
from typing import TYPE_CHECKING

import pytest

from opmkit.index.operations.add.sqlite import add_bundles
from opmkit.index.operations.list import list_bundles
from opmkit.index.rendering.database_catalog import load_catalog
from opmkit.index.sqlite import open_database, replace_database
from tests.index.builders import bundle

if TYPE_CHECKING:
    from pathlib import Path

REFERENCE = os.environ.get("OPMKIT_REFERENCE_OPM", "")

pytestmark = pytest.mark.skipif(not REFERENCE, reason="OPMKIT_REFERENCE_OPM does not name the reference tool")


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


def reference(directory: Path, *argv: str) -> list[str]:
    done = subprocess.run([REFERENCE, *argv], cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_lists_the_same_bundles(database: Path, tmp_path: Path) -> None:
    with open_database(database) as opened:
        ours = list_bundles(load_catalog(opened))
    cells = [[",".join(cell) if isinstance(cell, tuple) else cell for cell in astuple(row)] for row in ours]
    theirs = reference(tmp_path, "alpha", "list", "bundles", str(database))[1:]
    assert [line.split() for line in theirs] == [list(filter(None, row)) for row in cells]


def test_renders_it(database: Path, tmp_path: Path) -> None:
    assert reference(tmp_path, "render", str(database))


def test_finds_nothing_to_migrate(database: Path, tmp_path: Path) -> None:
    with open_database(database) as opened:
        before = list(opened.connection.iterdump())
    reference(tmp_path, "registry", "add", "--database", str(database))
    with open_database(database) as opened:
        assert list(opened.connection.iterdump()) == before
