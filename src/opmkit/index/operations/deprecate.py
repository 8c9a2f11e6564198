"""``deprecate``: add and remove entries of ``olm.deprecations`` for packages, channels and bundles."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from opmkit.index.change import CatalogChange, EditResult
from opmkit.index.errors import CatalogError, UnknownPackage, combine_errors
from opmkit.index.fbc.blobs import BUNDLE, CHANNEL, PACKAGE, Blobs, Deprecation, DeprecationsBlob
from opmkit.index.fbc.packages import replace_packages, select_packages, validate_packages
from opmkit.index.suggestions import suggest_names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

_KINDS = {PACKAGE: "package", CHANNEL: "channel", BUNDLE: "bundle"}


class DeprecationEdit(NamedTuple):
    """A deprecation to add to a package, or to remove from it if the message is empty."""

    package: str
    deprecation: Deprecation

    def __str__(self) -> str:
        """Describe the deprecated object."""
        schema = self.deprecation.schema
        kind = _KINDS.get(schema, schema)
        of_package = f"package {self.package}"
        return of_package if kind == "package" else f"{kind} {self.deprecation.name} of {of_package}"


@dataclass(frozen=True, slots=True)
class EditDeprecations(CatalogChange):
    """Add or remove deprecations."""

    edits: Sequence[DeprecationEdit]

    @classmethod
    def of_package(
        cls, package: str, message: str, *, channels: Sequence[str] = (), bundles: Sequence[str] = ()
    ) -> EditDeprecations:
        """Return the change that deprecates channels and bundles of a package, or the package if neither is named.

        An empty message removes the deprecations.
        """
        named = [*((CHANNEL, name) for name in channels), *((BUNDLE, name) for name in bundles)]
        entries = (Deprecation(schema, name, message) for schema, name in named or [(PACKAGE, "")])
        return cls([DeprecationEdit(package, entry) for entry in entries])

    def apply_to_catalog(self, blobs: Blobs) -> EditResult:
        """Edit the deprecations of a file-based catalog."""
        return edit_deprecations(blobs, self.edits)


def edit_deprecations(blobs: Blobs, edits: Sequence[DeprecationEdit]) -> EditResult:
    """Add, replace or remove deprecations of packages, channels and bundles.

    The removal of a deprecation that does not exist gives a warning.

    Raises:
        UnknownPackage, CatalogError: A package, channel or bundle does not exist; several such errors are combined.
        InvalidCatalog: A changed package is invalid.
    """
    packages = list(dict.fromkeys(edit.package for edit in edits))
    changed = select_packages(blobs, packages)
    errors: list[CatalogError] = []
    warnings: list[str] = []
    for edit in edits:
        package = changed[edit.package]
        exists = any(_key(edit.deprecation) in map(_key, blob.entries) for blob in package.deprecations)
        if not exists and (error := _unknown_object(blobs, package, edit)):
            errors.append(error)
        elif not exists and not edit.deprecation.message:
            warnings.append(f"{edit} is not deprecated")
        else:
            changed[edit.package] = replace(package, deprecations=_edited(package.deprecations, edit))
    if errors:
        raise combine_errors(errors)
    result = replace_packages(blobs, changed)
    validate_packages(result, packages)
    return EditResult(result, warnings=tuple(warnings))


def remove_references(
    blobs: Iterable[DeprecationsBlob], removed: Collection[tuple[str, str, str]]
) -> tuple[DeprecationsBlob, ...]:
    """Return the blobs without entries for ``removed`` (package, schema, name) objects, and without empty blobs."""
    result = []
    for blob in blobs:
        entries = tuple(entry for entry in blob.entries if (blob.package, *_key(entry)) not in removed)
        if len(entries) == len(blob.entries):
            result.append(blob)
        elif entries:
            result.append(replace(blob, entries=entries))
    return tuple(result)


def _key(entry: Deprecation) -> tuple[str, str]:
    return entry.schema, entry.name


def _edited(blobs: tuple[DeprecationsBlob, ...], edit: DeprecationEdit) -> tuple[DeprecationsBlob, ...]:
    """Apply an edit to the blobs of its package; a new entry is appended to the first blob."""
    new = edit.deprecation
    if not new.message:
        return remove_references(blobs, {(edit.package, *_key(new))})
    if not blobs:
        return (DeprecationsBlob(edit.package, (new,)),)
    result = [
        replace(blob, entries=tuple(new if _key(entry) == _key(new) else entry for entry in blob.entries))
        for blob in blobs
    ]
    if all(new not in blob.entries for blob in result):
        result[0] = replace(result[0], entries=(*result[0].entries, new))
    return tuple(result)


def _unknown_object(blobs: Blobs, package: Blobs, edit: DeprecationEdit) -> CatalogError | None:
    """Return the error if the package does not have the object to deprecate."""
    schema, name = _key(edit.deprecation)
    if not package.packages:
        known = sorted({blob.name for blob in blobs.packages})
        return UnknownPackage(
            f"package {edit.package}: cannot be deprecated: not found in the catalog",
            hint=suggest_names("packages", edit.package, known),
        )
    if schema not in _KINDS:
        return CatalogError(
            f'"{schema}": cannot be deprecated: unsupported schema',
            hint=f"use one of the schemas: {', '.join(_KINDS)}",
        )
    if schema == PACKAGE:
        return None
    names = sorted({blob.name for blob in (package.channels if schema == CHANNEL else package.bundles)})
    if name in names:
        return None
    kind = _KINDS[schema]
    return CatalogError(
        f"{kind} {name}: cannot be deprecated: not found in package {edit.package}",
        hint=suggest_names(f"{kind}s", name, names),
    )
