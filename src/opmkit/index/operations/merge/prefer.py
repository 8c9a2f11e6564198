"""Preferences for the source of packages that have different content in several indexes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.index.errors import CatalogError, combine_errors
from opmkit.index.suggestions import did_you_mean, suggest_names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

FIRST, LAST = "first", "last"
"""Preferences for the first or last source that has a package."""


@dataclass(frozen=True, slots=True)
class Preference:
    """A preferred source: its name, ``first`` or ``last``; for one package, or for all if ``package`` is empty."""

    source: str
    package: str = ""

    def choose(self, names: Sequence[str]) -> str | None:
        """Return the preferred one of the sources that have a package, None if it does not have the package."""
        if self.source in (FIRST, LAST):
            return names[0 if self.source == FIRST else -1]
        return self.source if self.source in names else None


def parse_preferences(
    texts: Iterable[str], sources: Sequence[str], packages: Sequence[Collection[str]]
) -> tuple[Preference, ...]:
    """Parse ``SOURCE`` or ``PACKAGE=SOURCE``; return those for single packages first.

    Args:
        texts: The preferences. A text that is the name of a source is one, even if it contains ``=``.
        sources: The names of the sources.
        packages: The packages of each source.

    Raises:
        CatalogError: A source or package does not exist, or the source does not have the package; several such errors
            are combined.
    """
    preferences: list[Preference] = []
    errors: list[CatalogError] = []
    known = {name: set[str]() for name in sources}
    for name, names in zip(sources, packages, strict=True):
        known[name].update(names)
    for text in texts:
        package, equals, source = text.partition("=")
        preference = Preference(source, package) if equals and text not in known else Preference(text)
        preferences.append(preference)
        errors += _check(preference, known)
    if errors:
        raise combine_errors(errors)
    return tuple(sorted(preferences, key=lambda preference: not preference.package))


def _check(preference: Preference, known: Mapping[str, Collection[str]]) -> Iterator[CatalogError]:
    """Yield an error for an unknown source, or for a package that it does not have; ``known`` has those of each."""
    source, package = preference.source, preference.package
    if source not in (FIRST, LAST, *known):
        hint = suggest_names("sources", source, [*known, FIRST, LAST])
        yield CatalogError(f"preferred source {source}: not among the indexes to merge", hint=hint)
        return
    packages = known.get(source) or set().union(*known.values())
    if package and package not in packages:
        where = f" in {source}" if source in known else ""
        hint = did_you_mean(package, sorted(packages))
        yield CatalogError(f'preferred source of package "{package}": package not found{where}', hint=hint)


def choose_source(package: str, names: Sequence[str], preferences: Iterable[Preference]) -> str | None:
    """Return the source of a package among those that have it, in order; None if no preference applies."""
    for preference in preferences:
        if preference.package in ("", package) and (name := preference.choose(names)) is not None:
            return name
    return None
