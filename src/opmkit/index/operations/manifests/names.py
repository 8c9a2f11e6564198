"""Names of Kubernetes objects."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from opmkit.index.errors import CatalogError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def as_label(text: str) -> str:
    """Convert text to a DNS label: lower case, with other characters replaced by dashes, at most 63 characters."""
    return re.sub("[^a-z0-9]+", "-", text.lower())[:63].strip("-")


def check_name(kind: str, name: str, find_problems: Callable[[str], Iterable[str]]) -> None:
    """Raise CatalogError for an invalid name; ``find_problems`` is a function of `opmkit.bundle.kubernetes_names`."""
    problems = "; ".join(find_problems(name))
    if problems:
        raise CatalogError(f"{kind} {name!r}: {problems}", hint="choose another name")
