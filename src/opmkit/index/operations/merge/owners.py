"""Owners of packages, which decide whose changes a merge takes, and preferences for a source."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from opmkit.core.files import disk_errors
from opmkit.documents import MAX_BYTES
from opmkit.documents.content import Content
from opmkit.index.errors import CatalogError, combine_errors
from opmkit.index.operations.merge.differences import fingerprint
from opmkit.index.suggestions import did_you_mean, suggest_names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from opmkit.documents.fields import FieldPath
    from opmkit.index.fbc.blobs import Blobs
    from opmkit.index.operations.merge.result import NamedCatalog


_HINT = "write a list of package names for each index, such as team: [lagoon]"


class Violation(Struct, frozen=True):
    """A package that a source has although others own it, or nobody does."""

    package: str
    source: str
    owners: tuple[str, ...]

    def __str__(self) -> str:
        """Format the package, the source and the owners."""
        owned = f"it belongs to {', '.join(self.owners)}" if self.owners else "the owners file gives it to nobody"
        return f'package "{self.package}": {self.source} does not own it: {owned}'

    def as_dict(self) -> dict[str, Any]:
        """Return the violation in JSON types."""
        return {"package": self.package, "source": self.source, "owners": list(self.owners)}


class OwnershipViolation(CatalogError):
    """Sources have packages that they do not own; the message lists them.

    Attributes:
        violations: Ordered by package.
    """

    def __init__(self, violations: Sequence[Violation]) -> None:
        """List the violations."""
        first, *others = map(str, violations)
        hint = f"remove the package from {violations[0].source}, or list it there in the owners file"
        super().__init__(first, details=others, hint=hint)
        self.violations = tuple(violations)

    def as_dict(self) -> dict[str, Any]:
        """Return the violations in JSON types."""
        return {"violations": [violation.as_dict() for violation in self.violations]}


class Owners(Struct, frozen=True):
    """Patterns of the names of the packages that each source owns.

    A source is listed by its name, or by the last component of its path. A source that is not listed, such as the
    published catalog, can have any packages.
    """

    patterns: Mapping[str, tuple[str, ...]]

    def is_listed(self, source: str) -> bool:
        """Return whether a source has entries."""
        return self._key(source) is not None

    def owns(self, source: str, package: str) -> bool:
        """Return whether a listed source owns a package."""
        key = self._key(source)
        return key is not None and self._matches(key, package)

    def warnings(self, sources: Sequence[str]) -> tuple[str, ...]:
        """Return warnings for entries that are not for any of the sources."""
        used = {self._key(source) for source in sources}
        return tuple(f"owners file: {key}: not among the indexes to merge" for key in self.patterns if key not in used)

    def preferences(
        self, catalogs: Sequence[NamedCatalog], packages: Sequence[Mapping[str, Blobs]]
    ) -> list[Preference]:
        """Return the preference for the owner of each package that exactly one source owns."""
        owned: dict[str, set[str]] = {}
        for catalog, names in zip(catalogs, packages, strict=True):
            for name in names:
                if self.owns(catalog.name, name):
                    owned.setdefault(name, set()).add(catalog.name)
        return [Preference(sources.pop(), name) for name, sources in owned.items() if len(sources) == 1]

    def check(
        self, catalogs: Sequence[NamedCatalog], packages: Sequence[Mapping[str, Blobs]]
    ) -> list[dict[str, Blobs]]:
        """Return the packages of each source without those of others that it has unchanged.

        Raises:
            OwnershipViolation: A listed source has a package that it does not own, and no other source has it with
                equal content.
        """
        checked: list[dict[str, Blobs]] = []
        violations: list[Violation] = []
        for catalog, by_name in zip(catalogs, packages, strict=True):
            foreign = {name for name in by_name if self._is_foreign(catalog.name, name)}
            changed = {name for name in foreign if not self._is_copy(name, by_name[name], catalogs, packages)}
            violations += [Violation(name, catalog.name, tuple(self._owners(name))) for name in changed]
            checked.append({name: blobs for name, blobs in by_name.items() if name not in foreign})
        if violations:
            raise OwnershipViolation(sorted(violations, key=lambda each: (each.package, each.source)))
        return checked

    def _is_foreign(self, source: str, package: str) -> bool:
        return self.is_listed(source) and not self.owns(source, package)

    def _is_copy(
        self, name: str, package: Blobs, catalogs: Sequence[NamedCatalog], packages: Sequence[Mapping[str, Blobs]]
    ) -> bool:
        """Return whether a source that may have a package has it with equal content."""
        return any(
            name in by_name
            and not self._is_foreign(catalog.name, name)
            and fingerprint(by_name[name]) == fingerprint(package)
            for catalog, by_name in zip(catalogs, packages, strict=True)
        )

    def _owners(self, package: str) -> Iterator[str]:
        return (key for key in self.patterns if self._matches(key, package))

    def _matches(self, key: str, package: str) -> bool:
        return any(fnmatchcase(package, pattern) for pattern in self.patterns[key])

    def _key(self, source: str) -> str | None:
        name = source.rstrip("/").removeprefix("./")
        return next((key for key in (source, name, PurePosixPath(name).name) if key in self.patterns), None)


def read_owners(path: Path) -> Owners:
    """Parse an owners file: a mapping from names of sources to lists of package names or shell patterns.

    Raises:
        CatalogError: The file is invalid; the message has the line and column.
        DiskError: The file cannot be read.
    """
    with disk_errors(path), path.open("rb") as file:
        content = Content.read_settings(file.read(MAX_BYTES + 1))
    if content.error is not None:
        raise CatalogError(content.error.located(str(path)), hint="correct the YAML")
    value = content.value
    if not isinstance(value, dict):
        raise _invalid(path, content, (), "the file is not a mapping")
    patterns: dict[str, tuple[str, ...]] = {}
    for source, names in value.items():
        if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
            raise _invalid(path, content, (source,), f"{source}: not a list of package names")
        patterns[source.rstrip("/").removeprefix("./")] = tuple(str(name) for name in names)
    return Owners(patterns)


def _invalid(path: Path, content: Content, where: FieldPath, problem: str) -> CatalogError:
    line, column = content.locate(where)
    return CatalogError(f"{path}:{line}:{column}: {problem}", hint=_HINT)


FIRST, LAST = "first", "last"
"""Preferences for the first or last source that has a package."""


class Preference(Struct, frozen=True):
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
