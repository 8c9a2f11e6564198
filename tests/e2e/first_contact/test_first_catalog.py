"""The tutorial: from the source code to a published catalog, in a new HOME, command by command."""

from __future__ import annotations

import shutil
import socket
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.kit.command_lines import console_commands
from tests.kit.installed import ROOT
from tests.kit.registry import Registry
from tests.kit.typed_commands import assert_fits, type_commands

if TYPE_CHECKING:
    from tests.kit.installed import InstalledOpm


DEBIAN_REGISTRY = Path("/etc/docker/registry/config.yml")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        return int(listener.getsockname()[1])


def test_first_catalog_is_published_by_typing_the_commands_of_the_page(newcomer: InstalledOpm) -> None:
    """The page on oc-mirror follows in the same terminal: it uses what this page has published."""
    commands = console_commands(ROOT / "docs" / "first-catalog.md")
    assert "python3 -m venv ~/opmkit" in commands
    following = ["mkdir ~/mirror", "cd ~/mirror", *console_commands(ROOT / "docs" / "from-oc-mirror.md")]
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
        output = assert_fits(type_commands([*commands, *following], ROOT, person.environment))
    assert "Warning" not in output
    assert "lagoon-operator.v0.2.0" in output
    assert f"{registry.host}/lagoon-operator:0.1.0" in output
    directory = newcomer.home / "first-catalog"
    assert "lagoon-operator.v0.2.0" in (directory / "graph.html").read_text()
    assert f"image: {registry.host}/catalog:2" in (directory / "install.yaml").read_text()
    assert (newcomer.home / "opmkit" / "bin" / "opm").exists()
    assert (newcomer.home / "mirror" / "cluster").is_dir()
    shutil.rmtree(newcomer.home / "opmkit")


def test_the_registry_of_debian_refuses_everybody_because_of_four_lines() -> None:
    if not DEBIAN_REGISTRY.exists():
        pytest.skip("requires the package docker-registry")
    lines = DEBIAN_REGISTRY.read_text().splitlines()
    start = lines.index("auth:")
    assert all(line.startswith(" ") for line in lines[start + 1 : start + 4])
    remaining = yaml.safe_load("\n".join([*lines[:start], *lines[start + 4 :]]))
    assert "auth" not in remaining
    assert {"storage", "http"} <= remaining.keys()
    assert str(DEBIAN_REGISTRY) in (ROOT / "docs" / "first-catalog.md").read_text()
