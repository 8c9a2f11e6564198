"""The installed commands start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.kit.installed import InstalledOpm


@pytest.mark.parametrize("program", ["opm", "initializer", "registry-server", "configmap-server"])
def test_every_program_has_help(newcomer: InstalledOpm, program: str) -> None:
    done = newcomer.attempt("--help", program=program)
    assert done.returncode == 0, done.stderr
    assert "Usage:" in done.stdout
    assert done.stderr == ""
    assert not list(newcomer.home.iterdir())
