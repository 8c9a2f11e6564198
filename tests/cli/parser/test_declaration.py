"""Declaration of flags and arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import typer
from typer.main import get_command

from opmkit.cli.parser.declaration import argument, flag
from opmkit.cli.parser.registration import add_command


@dataclass(frozen=True, slots=True)
class TankFlags:
    """Flags of a tank."""

    panel: ClassVar[str] = "Tank"

    salt_water: bool = flag(True, "Fill in salt water", "--salt-water/--fresh-water")
    depth: int = flag(2, "Depth", "-d", metavar="METERS")
    owner: str = flag("me", "Owner", panel="People")
    debug: bool = flag(False, "")


def fill(tank_flags: TankFlags, name: str = argument("tank", "Name of the tank", metavar="[NAME]")) -> None:
    """Fill a tank"""
    print(tank_flags, name)


def parameters() -> dict[str, Any]:
    app = typer.Typer(add_completion=False)
    add_command(app, "fill", fill)
    return {parameter.name: parameter for parameter in get_command(app).params}


def test_flags_are_named_for_their_fields() -> None:
    found = parameters()
    assert found["depth"].opts == ["--depth", "-d"]
    assert (found["salt_water"].opts, found["salt_water"].secondary_opts) == (["--salt-water"], ["--fresh-water"])
    assert (found["debug"].opts, found["debug"].secondary_opts) == (["--debug"], [])


def test_flags_are_in_the_panel_of_their_group_unless_they_name_another() -> None:
    found = parameters()
    assert [found[name].rich_help_panel for name in ("depth", "owner")] == ["Tank", "People"]


def test_flags_without_help_are_hidden() -> None:
    found = parameters()
    assert [name for name, parameter in found.items() if parameter.hidden] == ["debug"]
    assert (found["name"].help, found["name"].metavar, found["name"].default) == ("Name of the tank", "[NAME]", "tank")


def test_a_group_without_a_command_line_has_the_defaults() -> None:
    assert TankFlags(depth=3) == TankFlags(salt_water=True, depth=3, owner="me", debug=False)
