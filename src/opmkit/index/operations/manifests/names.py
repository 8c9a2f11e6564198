"""Names of objects in a cluster."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from opmkit.index.errors import CatalogError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def as_label(text: str) -> str:
    """A name for an object, made of what ``text`` has of the letters, digits and dashes that are allowed in one."""
    return re.sub("[^a-z0-9]+", "-", text.lower())[:63].strip("-")


def check_name(what: str, name: str, problems_of: Callable[[str], Iterable[str]]) -> None:
    """Raise CatalogError for a name that ``problems_of`` finds something wrong with; ``what`` is the name of it."""
    problems = "; ".join(problems_of(name))
    if problems:
        raise CatalogError(f"{what} {name!r}: {problems}", advice="choose another name")
