"""Fixtures for tests of the installed wheel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from filelock import FileLock

from tests.kit.installed import InstalledOpm, create_environment

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def installed_bin(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config, worker_id: str) -> Path:
    """Return the ``bin`` directory of a virtual environment with the wheel, one for all workers of a test run."""
    assert pytestconfig.cache is not None
    base = tmp_path_factory.getbasetemp()
    done = (base if worker_id == "master" else base.parent) / "installed.done"
    directory = pytestconfig.cache.mkdir("installed")
    with FileLock(directory.with_suffix(".lock")):
        if not done.exists():
            create_environment(directory)
            done.touch()
    return directory / "bin"


@pytest.fixture
def newcomer(installed_bin: Path, tmp_path: Path) -> InstalledOpm:
    """Return the installed commands with an empty HOME and working directory and a minimal environment."""
    home, directory = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    directory.mkdir()
    return InstalledOpm(installed_bin, home, directory)
