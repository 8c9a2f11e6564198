"""What to tell who named something that is not there."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from opmkit.index.errors import UnknownPackage

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

_TOLD = 20
"""How many names are told where none is close."""


def instead(kinds: str, name: str, known: Sequence[str]) -> str:
    """The advice to name what comes close, or else one of what there is; ``kinds`` is what they are, in plural."""
    if close := get_close_matches(name, known):
        return f"Did you mean {' or '.join(close)}?"
    return f"The {kinds} are: {listed(known)}."


def listed(names: Sequence[str]) -> str:
    """Names in a sentence, of many the first alone."""
    more = f" and {len(names) - _TOLD} more" if len(names) > _TOLD else ""
    return f"{', '.join(names[:_TOLD]) or 'none'}{more}"


def packages_not_found(names: Iterable[str], known: Collection[str]) -> tuple[UnknownPackage, ...]:
    """Return an error for each of ``names`` that is not among the ``known`` packages; empty names are ignored."""
    unknown = sorted({name for name in names if name}.difference(known))
    return tuple(
        UnknownPackage(f'package "{name}" not found', advice=instead("packages", name, sorted(known)))
        for name in unknown
    )
