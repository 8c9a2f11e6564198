"""Hints to install an extra name the program that created the environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opmkit.core.hints import install_extra

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("directory", "config", "command"),
    [
        ("venv", "home = /usr/bin\n", "pip install '.[cel]'"),
        ("share/pipx/venvs/opmkit", "home = /usr/bin\n", "pipx runpip opmkit install '.[cel]'"),
        ("share/uv/tools/opmkit", "home = /usr/bin\nuv = 0.9.1\n", "uv tool install '.[cel]'"),
        ("venv", "home = /usr/bin\nuv = 0.9.1\n", "VIRTUAL_ENV={} uv pip install '.[cel]'"),
    ],
)
def test_environments(tmp_path: Path, directory: str, config: str, command: str) -> None:
    prefix = tmp_path / directory
    prefix.mkdir(parents=True)
    (prefix / "pyvenv.cfg").write_text(config)
    expected = f"install the extra in a checkout of opmkit: {command.format(prefix)}"
    assert install_extra("cel", str(prefix)) == expected


def test_images_have_no_program_that_installs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert install_extra("cel", str(tmp_path)).startswith("build the image with scripts/build-runtime")
