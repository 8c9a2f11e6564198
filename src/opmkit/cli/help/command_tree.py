"""Tree of the commands of ``opm`` and ``operator-sdk``, from the table ``commands.txt``.

The table names modules and repeats the first line of each help text, so that commands are listed without importing any
of them, and one runs without importing the others. Its columns are separated by two or more spaces: the path; module
and function below ``opmkit.cli.commands``, ``group``, or ``=`` with the path of the same command; and the first line of
the help. Commands are in the order of the help: what most users look for comes first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from opmkit.cli.annexes import ANNEXES, is_installed

_GROUP, _ALIAS = "group", "= "


class TreeEntry(NamedTuple):
    """A command or a group in a group; its ``path`` is the canonical one, and groups have no ``target``."""

    name: str
    path: str
    target: str
    summary: str


@cache
def _rows() -> Mapping[str, tuple[str, str]]:
    """Return the second and the third column of the table by path."""
    lines = Path(__file__).with_name("commands.txt").read_text("utf-8").splitlines()
    rows = (re.split(" {2,}", line) for line in lines)
    return {path: (target, " ".join(summary)) for path, target, *summary in rows}


@cache
def aliases() -> Mapping[str, str]:
    """Return the paths of commands and groups of ``opm`` by the other paths that they have."""
    rows = {path: target for path, (target, _) in _rows().items() if path.startswith("opm ")}
    return {path: target.removeprefix(_ALIAS) for path, target in rows.items() if target.startswith(_ALIAS)}


def list_entries(path: str) -> Iterator[TreeEntry]:
    """Yield the commands and groups of a group, without commands of annexes that are not installed and empty groups.

    Args:
        path: name of the program, or canonical path of the group.
    """
    for child, (target, summary) in _rows().items():
        parent, _, name = child.rpartition(" ")
        if parent in _rows() and _rows()[parent][0] != _GROUP:  # below a command, which is in a group with it
            parent, _, first = parent.rpartition(" ")
            name = f"{first} {name}"
        if parent != path:
            continue
        if target.startswith(_ALIAS):
            child = target.removeprefix(_ALIAS)
            target, summary = _rows()[child]
        if target == _GROUP and any(list_entries(child)):
            yield TreeEntry(name, child, "", summary)
        elif target != _GROUP and _is_available(target):
            yield TreeEntry(name, child, target, summary)


def _is_available(target: str) -> bool:
    return all(is_installed(annex) for annex in ANNEXES if target.startswith(f"{annex}."))
