"""The guides that need a registry: their commands run, and errors have the messages that the docs quote."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.kit.command_lines import ROOT, console_commands, console_script
from tests.kit.opm import FIXTURES, PROGRAM
from tests.kit.registry import Registry
from tests.kit.typed_commands import assert_fits, type_commands

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kit.opm import Opm

BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
EXAMPLE = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)+)", re.MULTILINE)
DIGEST = re.compile(r"@(sha256:[0-9a-f]{64})")


def closed_port() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def host() -> Iterator[str]:
    """Start a registry and return its address as ``localhost:PORT``."""
    with Registry() as registry:
        yield registry.host.replace("127.0.0.1", "localhost")


@pytest.fixture
def user(opm: Opm, host: str) -> Opm:
    """Return the command with a sample, and its bundles and a database in the registry."""
    sample = FIXTURES / "lagoon-operator"
    shutil.copytree(sample, opm.directory / "lagoon-operator")
    settings = opm.directory / "registries.conf"
    settings.write_text(f'[[registry]]\nlocation = "{host}"\ninsecure = true\n')
    user = replace(opm, env={"CONTAINERS_REGISTRIES_CONF": str(settings), "REGISTRY": host})
    for version in ("0.1.0", "0.2.0", "0.3.0"):
        package = ("-p", "lagoon-operator", "-c", "stable", "-e", "stable")
        place = ("-d", str(sample / version / "manifests"), "-u", f"bundles/{version}")
        user("bundle", "build", *place, *package, "-t", f"{host}/lagoon-operator:{version}", "--push")
    user("index", "add", "-b", f"{host}/lagoon-operator:0.1.0", "-i", "scratch", "-t", f"{host}/database:1", "--push")
    return user


GUIDES = {
    "several-writers": ["lagoon-operator.v0.2.0", "lagoon-operator.v0.3.0", "reef.v1.0.0"],
    "from-sqlite": ["kind: CatalogSource"],
    "from-oc-mirror": ["lagoon-operator.v0.2.0", "0 failed", "/mirror/mirrored/catalog:1@sha256:"],
    "from-go-opm": ["opmkit "],
}
"""The guides that need a registry, and what their commands print."""


@pytest.mark.parametrize(("name", "results"), GUIDES.items())
def test_commands_of_the_guide_run(user: Opm, host: str, name: str, results: list[str]) -> None:
    (user.directory / "fixtures").symlink_to(FIXTURES)
    script = console_script(ROOT / "docs" / f"{name}.md")
    assert script.count("opm ") >= 4
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=user.directory,
        env={**os.environ, **user.env, "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    for result in results:
        assert result in done.stdout


@pytest.mark.parametrize("progress", ["auto", "none"])
@pytest.mark.parametrize("name", GUIDES)
def test_the_guide_fits_a_terminal(user: Opm, name: str, progress: str) -> None:
    (user.directory / "fixtures").symlink_to(FIXTURES)
    env = {**os.environ, **user.env, "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}"}
    commands = console_commands(ROOT / "docs" / f"{name}.md")
    assert_fits(type_commands(commands, user.directory, env, progress=progress))


def quoted_examples() -> list[tuple[str, str]]:
    """Return the commands of the troubleshooting page with the messages below them."""
    text = (ROOT / "docs" / "troubleshooting.md").read_text()
    return [example for block in BLOCK.findall(text) for example in EXAMPLE.findall(block)]


def test_troubleshooting_quotes_the_messages_that_commands_print(user: Opm, host: str) -> None:
    package = ("-p", "lagoon-operator", "-c", "alpha", "-e", "alpha")
    rebuilt = ("-d", "lagoon-operator/0.1.0/manifests", "-u", "rebuilt", "-t", f"{host}/lagoon-operator:rebuilt")
    user("bundle", "build", *rebuilt, *package, "--push")
    new = ("index", "add", "-b", f"{host}/lagoon-operator:0.1.0", "-i", "scratch", "--to-fbc", "--push")
    outdated = DIGEST.search(user(*new, "-t", f"{host}/catalog:1"))
    assert outdated
    user(
        "index",
        "deprecate",
        "--package",
        "lagoon-operator",
        "-m",
        "x",
        "-f",
        f"{host}/catalog:1",
        "-t",
        f"{host}/catalog:1",
        "--push",
    )
    user("migrate", f"{host}/catalog:1", "with-readme")
    (user.directory / "with-readme" / "README.md").write_text("# A catalog\n")
    examples = quoted_examples()
    assert [command for command, _ in examples] == console_commands(ROOT / "docs" / "troubleshooting.md")
    with Registry(users={"me": "secret"}) as private, Registry(tls=True) as tls:
        credentials = {"auths": {"private.example.com": {"username": "me", "password": "old"}}}
        (user.directory / "auth.json").write_text(json.dumps(credentials).replace("private.example.com", private.host))
        settings = user.directory / "registries.conf"
        settings.write_text(f'{settings.read_text()}[[registry]]\nlocation = "{private.host}"\ninsecure = true\n')
        hosts = {
            "localhost:5000": host,
            "private.example.com": private.host,
            "tls.example.com": tls.host,
            "plain.example.com": host.replace("localhost", "127.0.0.1"),
            "down.example.com": closed_port(),
        }
        for command, quoted in examples:
            line, expected = (replace_all(text, hosts) for text in (command, quoted))
            done = user.attempt(*shlex.split(line.replace("sha256:…", outdated[1]))[1:])
            assert done.returncode != 0, command
            assert matches(expected, done.stderr), f"{command}\n{done.stderr}"


def replace_all(text: str, replacements: dict[str, str]) -> str:
    for old, new in replacements.items():
        text = text.replace(old, new)
    return text


def matches(quoted: str, printed: str) -> bool:
    """Return whether the text is the quoted one, where ``…`` stands for any words of a line.

    The record of Go opm's log, which `opm validate` prints unless on a terminal, is not quoted.
    """
    lines = [line for line in printed.strip().split("\n") if 'level=fatal msg="invalid index:' not in line]
    return re.fullmatch(re.escape(quoted.strip()).replace("…", "[^\n]*"), "\n".join(lines)) is not None


def test_quotes_differ_from_other_messages() -> None:
    assert matches("Error: x: … not found\n", "Error: x: y not found")
    assert not matches("Error: x: not found\n", "Error: x: not found\n  hint: y")
