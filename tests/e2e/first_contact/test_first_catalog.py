"""The tutorial: from the source code to a published catalog, in a new HOME, command by command."""

from __future__ import annotations

import shutil
import socket
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.kit.command_lines import console_script
from tests.kit.installed import ROOT
from tests.kit.registry import Registry

if TYPE_CHECKING:
    from tests.kit.installed import InstalledOpm


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        return int(listener.getsockname()[1])


def test_first_catalog_is_published_by_typing_the_commands_of_the_page(newcomer: InstalledOpm) -> None:
    script = console_script(ROOT / "docs" / "first-catalog.md")
    assert "python3 -m venv ~/opmkit" in script
    tools = newcomer.home.parent / "tools"
    tools.mkdir()
    (tools / "python3").symlink_to(newcomer.bin / "python3")  # the opm of the page has to be the one that it installs
    (site_packages,) = newcomer.bin.parent.glob("lib/python*/site-packages")
    with Registry() as registry:
        # pip finds the dependencies and the build backend installed, so that it downloads nothing.
        person = replace(newcomer, bin=tools, directory=ROOT).with_env(
            REGISTRY=registry.host,
            PORT=str(free_port()),
            PYTHONPATH=str(site_packages),
            PIP_NO_COMPILE="1",
            PIP_NO_INDEX="1",
            PIP_NO_BUILD_ISOLATION="0",
        )
        done = person.shell_out(["bash", "-c", script])
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    assert "lagoon-operator.v0.2.0" in done.stdout
    assert f"{registry.host}/lagoon-operator:0.1.0" in done.stdout
    directory = newcomer.home / "first-catalog"
    assert "lagoon-operator.v0.2.0" in (directory / "graph.html").read_text()
    assert f"image: {registry.host}/catalog:2" in (directory / "install.yaml").read_text()
    assert (newcomer.home / "opmkit" / "bin" / "opm").exists()
    shutil.rmtree(newcomer.home / "opmkit")
