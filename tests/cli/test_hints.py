"""Hints in terms of the command line."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.core import TyperGroup, TyperOption

from opmkit.cli.hint_names import command_names, flag_names
from opmkit.cli.hints import format_hint, set_command_flags
from opmkit.core.hints import Hint, Operation, Setting
from opmkit.imagetools.hint_terms import ImageOperation, ImageSetting
from tests.kit.opm import all_commands

if TYPE_CHECKING:
    from collections.abc import Iterator
    from enum import StrEnum

PACKAGES = ["core", "documents", "imagetools", "kube", "bundle", "index", "author", "supply", "server", "client"]
SOURCE = Path(__file__).parents[2] / "src" / "opmkit"
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*")

EXTERNAL_FLAGS = {
    "imagetools/credentials.py": {"--authfile"},  # podman
    "imagetools/engines/buildah.py": {"--authfile", "--cert-dir", "--format", "--label", "--quiet", "--tag", "--type"},
    "imagetools/engines/docker_program.py": {"--force", "--label", "--tag", "--volumes"},
    "imagetools/image_format.py": {"--format"},  # skopeo
    "imagetools/signatures/pgp.py": {"--output", "--yes"},  # gpg
    "imagetools/transports/storage.py": {"--quiet"},  # podman
    "imagetools/spec/manifest.py": {"--format"},  # skopeo
    "author/pin/object_images.py": {"--image"},  # operators
    "index/fbc/compat.py": {"--migrate", "--migrate-level"},  # Go opm
    "index/image/base.py": {"--cache-dir"},  # opm in an index image
    "index/image/dockerfile.py": {"--cache-dir", "--cache-only", "--database", "--from"},  # opm in an index image, COPY
    "author/run/registry_pod.py": {"--port"},  # opm in the image of the pod
}
"""Flags of other programs, and of the commands in images, with the same names as flags of opm."""


def commands(group: TyperGroup, path: str = "opm") -> Iterator[tuple[str, Any]]:
    """Iterate over all commands with their paths."""
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


@cache
def flags_by_command() -> dict[str, frozenset[str]]:
    """Return the visible flags of each command."""
    group = all_commands()
    assert isinstance(group, TyperGroup)
    return {
        path: frozenset(
            name
            for option in command.params
            if isinstance(option, TyperOption)
            for name in (*option.opts, *option.secondary_opts)
            if not option.hidden
        )
        for path, command in commands(group)
    }


def members(base: type[StrEnum]) -> set[StrEnum]:
    return {member for terms in base.__subclasses__() for member in terms}


def test_each_setting_has_a_flag_on_a_command() -> None:
    known = frozenset().union(*flags_by_command().values())
    assert set(flag_names()) == members(Setting)
    assert [setting for setting, flags in flag_names().items() if not known >= set(flags)] == []


def test_each_operation_is_a_command_with_flags_that_it_has() -> None:
    assert set(command_names()) == members(Operation)
    for line in command_names().values():
        command, *flags = line.split(" --")
        found = [path for path in flags_by_command() if f"{path} ".startswith(f"{command} ")]
        assert found, line
        assert {f"--{flag}" for flag in flags} <= flags_by_command()[found[0]], line


@pytest.mark.parametrize("command", flags_by_command())
def test_hints_name_only_flags_of_the_command(command: str) -> None:
    flags = flags_by_command()[command]
    set_command_flags(flags)
    for setting in flag_names():
        for term in (setting, setting.with_value("x")):
            text = format_hint(Hint.any_of("do this", Hint("use {}", term)))
            named = FLAG.findall(text)
            assert len(named) == bool(flags.intersection(flag_names()[setting]))
            assert flags.issuperset(named)
            assert text == (f"do this, or use {named[0]}{' x' * (term is not setting)}" if named else "do this")


def test_a_hint_is_empty_if_all_of_it_refers_to_other_commands() -> None:
    set_command_flags(["--ca-file"])
    assert format_hint(Hint("omit {}", ImageSetting.PLAIN_HTTP)) == ""
    assert format_hint(Hint("pass {} or {}", ImageSetting.CA_FILE, ImageSetting.CERT_DIR)) == ""
    assert format_hint(Hint("pass {}", ImageSetting.CA_FILE)) == "pass --ca-file"


def test_texts_from_outside_are_not_templates() -> None:
    set_command_flags(["--ca-file"])
    assert format_hint(Hint("use {{.Version}} or {}", ImageSetting.CA_FILE)) == "use {.Version} or --ca-file"
    assert format_hint("Use {{.Version}}.") == "use {{.Version}}"
    assert format_hint(Hint("pass {} for {}", ImageSetting.CA_FILE, "{}")) == "pass --ca-file for {}"


@pytest.mark.parametrize(
    ("text", "clause"),
    [("Use x.", "use x"), ("JSON is invalid", "JSON is invalid"), ("choose a tag, such as v1, v2, ...",) * 2, ("", "")],
)
def test_hints_are_clauses(text: str, clause: str) -> None:
    assert format_hint(text) == clause


def test_settings_and_operations_have_different_names() -> None:
    assert not set(map(str, flag_names())).intersection(map(str, command_names()))


def test_commands_are_quoted() -> None:
    assert format_hint(Hint("list them with {}", ImageOperation.LIST_STORED_IMAGES)) == "list them with 'opm image ls'"


def strings(path: Path) -> Iterator[str]:
    """Iterate over the string literals with flags in a module, including docstrings."""
    source = path.read_text()
    for node in ast.walk(ast.parse(source)) if "--" in source else ():
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_the_library_names_no_flag(package: str) -> None:
    known = frozenset().union(*flags_by_command().values())
    paths = sorted((SOURCE / package).rglob("*.py"))
    assert paths
    found = [
        (name, flag)
        for path in paths
        for name in [path.relative_to(SOURCE).as_posix()]
        for text in strings(path)
        for flag in FLAG.findall(text)
        if flag in known and flag not in EXTERNAL_FLAGS.get(name, ())
    ]
    assert found == []


@pytest.mark.parametrize("package", PACKAGES)
def test_hints_of_the_library_name_no_command(package: str) -> None:
    """A docstring may name the command of Go opm that it is equivalent to."""
    quoted = re.compile(rf"['`]({'|'.join(flags_by_command())})\b[^'`]*['`]")
    for path in (SOURCE / package).rglob("*.py"):
        lines = path.read_text().splitlines()
        found = [line for line in lines if quoted.search(line) and "``" not in line]
        assert found == [], path
