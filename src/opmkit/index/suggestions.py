"""``Did you mean ...?`` hints for unknown names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.index.errors import CatalogError, UnknownPackage

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

MAX_NAMES = 20
"""Names that a hint lists."""
MAX_SHORTENED = 8
"""Names that a sequence shows."""
_MISSPELLING = 0.75
"""Similarity, as difflib defines it, of a name to its misspellings."""


def suggest_names(kinds: str, name: str, known: Sequence[str]) -> str:
    """Return the hint for an unknown name: similar names, or else the known ones; ``kinds`` is their noun in plural."""
    if not known:
        return f"there are no {kinds}; check that this is the right index"
    return did_you_mean(name, known) or f"use one of the {kinds}: {join_names(known)}"


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """Return the question for similar names, or "" if no name is similar."""
    from difflib import get_close_matches

    similar = get_close_matches(name, dict.fromkeys(known))
    return f"did you mean {' or '.join(similar)}?" if similar else ""


def closest_name(name: str, known: Iterable[str]) -> str:
    """Return the known name that ``name`` is probably a misspelling of, or "" if none is similar enough."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, list(known), 1, _MISSPELLING)), "")


def shorten(names: Sequence[str], separator: str = ", ") -> str:
    """Join names; if there are more than 8, only the first ones and the last."""
    if len(names) <= MAX_SHORTENED:
        return separator.join(names)
    return separator.join([*names[: MAX_SHORTENED - 2], "...", names[-1]])


def join_names(names: Sequence[str]) -> str:
    """Join names with commas, limited to the first 20."""
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return f"{', '.join(names[:MAX_NAMES]) or 'none'}{more}"


def check_catalog_names(names: Iterable[str], known: Collection[str]) -> None:
    """Raise CatalogError for the first name that is not that of a known catalog."""
    if unknown := next((name for name in names if name not in known), None):
        raise CatalogError(f"catalog {unknown!r} not found", hint=suggest_names("catalogs", unknown, list(known)))


def unknown_packages(names: Iterable[str], known: Collection[str]) -> tuple[UnknownPackage, ...]:
    """Return an error for each of ``names`` that is not among the ``known`` packages; ignore empty names."""
    unknown = sorted({name for name in names if name}.difference(known))
    return tuple(
        UnknownPackage(f'package "{name}" not found', hint=suggest_names("packages", name, sorted(known)))
        for name in unknown
    )
