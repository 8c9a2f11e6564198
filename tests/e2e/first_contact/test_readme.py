"""The commands of the README and the tour, in a new clone."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.kit.command_lines import ROOT, console_commands, console_script
from tests.kit.typed_commands import assert_fits, type_commands

if TYPE_CHECKING:
    from tests.kit.installed import InstalledOpm


def test_the_tour_runs_without_a_warning(newcomer: InstalledOpm) -> None:
    (newcomer.directory / "fixtures").symlink_to(ROOT / "fixtures")
    script = "\n".join(console_script(ROOT / name) for name in ("README.md", "docs/tour.md"))
    assert script.count("opm ") > 15
    done = newcomer.shell_out(["bash", "-c", script])
    assert done.returncode == 0, done.stderr
    assert "lagoon-operator.v0.3.0" in done.stdout
    assert "Warning" not in done.stderr
    assert "quay.io/me/lagoon-operator:0.3.0" in done.stdout


@pytest.mark.parametrize("progress", ["auto", "none"])
def test_the_tour_fits_a_terminal(newcomer: InstalledOpm, progress: str) -> None:
    (newcomer.directory / "fixtures").symlink_to(ROOT / "fixtures")
    commands = [command for name in ("README.md", "docs/tour.md") for command in console_commands(ROOT / name)]
    output = assert_fits(type_commands(commands, newcomer.directory, newcomer.environment, progress=progress))
    assert "lagoon-operator.v0.3.0" in output


def test_the_demo_runs_without_a_warning_and_ends_with_the_next_step(newcomer: InstalledOpm) -> None:
    environment = newcomer.bin.parent
    shutil.copy(ROOT / "requirements.lock", environment / ".opmkit-requirements.lock")  # has these dependencies
    demo = newcomer.with_env(OPMKIT_VENV=str(environment), OPMKIT_INSTALL="no")
    done = demo.shell_out([str(ROOT / "scripts" / "demo"), "output"])
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.startswith("Created three bundle images and an index image")
    next_step = re.search(r"run '(.*?)'", last)
    assert next_step
    assert newcomer.shell_out(["bash", "-c", next_step[1]]).returncode == 0
    page = (newcomer.directory / "catalog.html").read_text()
    assert "lagoon-operator.v0.3.0" in page


def test_install_section_contains_working_commands_only() -> None:
    text = (ROOT / "README.md").read_text()
    assert not re.search(r"^ {4}pip install opmkit", text, re.MULTILINE)
    assert "pip install ." in text
    assert "uv tool install ." in text
    assert "pipx install ." in text
