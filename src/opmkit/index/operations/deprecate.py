"""What ``olm.deprecations`` says of packages, channels and bundles: saying it, and taking it back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from opmkit.index.errors import CatalogError, UnknownPackage, combined
from opmkit.index.fbc.blobs import BUNDLE, CHANNEL, PACKAGE, Blobs, Deprecation, DeprecationsBlob
from opmkit.index.fbc.packages import replace_packages, select_packages, validate_packages
from opmkit.index.operations.values import Edit
from opmkit.index.suggestions import instead

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

_KINDS = {PACKAGE: "package", CHANNEL: "channel", BUNDLE: "bundle"}


class Statement(NamedTuple):
    """A deprecation in a package; one with an empty message takes back what was said."""

    package: str
    about: Deprecation

    def __str__(self) -> str:
        """What it is about, in words."""
        kind = _KINDS.get(self.about.schema, self.about.schema)
        return f"package {self.package}" if kind == "package" else f"{kind} {self.about.name} of package {self.package}"


def deprecate(blobs: Blobs, statements: Sequence[Statement]) -> Edit:
    """Say that packages, channels and bundles are deprecated, and why, or take it back.

    What was said before of the same is replaced. Where nothing was said there is nothing to take back, which is told
    as a warning.

    Raises:
        UnknownPackage, CatalogError: what is referred to is not there; all such errors in one.
        InvalidCatalog: a package that is stated on would not be valid.
    """
    packages = list(dict.fromkeys(one.package for one in statements))
    changed = select_packages(blobs, packages)
    errors: list[CatalogError] = []
    warnings: list[str] = []
    for statement in statements:
        parts = changed[statement.package]
        said = any(_reference(statement.about) in map(_reference, blob.entries) for blob in parts.deprecations)
        if not said and (unknown := _unknown(blobs, parts, statement)):
            errors.append(unknown)
        elif not said and not statement.about.message:
            warnings.append(f"{statement} is not deprecated")
        else:
            changed[statement.package] = replace(parts, deprecations=_stated(parts.deprecations, statement))
    if errors:
        raise combined(errors)
    result = replace_packages(blobs, changed)
    validate_packages(result, packages)
    return Edit(result, tuple(warnings))


def without_references(
    blobs: Iterable[DeprecationsBlob], gone: Collection[tuple[str, str, str]]
) -> tuple[DeprecationsBlob, ...]:
    """The blobs without what they say of things that are ``gone``: (package, schema, name); emptied ones go, too."""
    return tuple(
        left
        for blob in blobs
        if (left := _only(blob, [one for one in blob.entries if (blob.package, *_reference(one)) not in gone]))
    )


def _reference(entry: Deprecation) -> tuple[str, str]:
    return entry.schema, entry.name


def _only(blob: DeprecationsBlob, entries: Sequence[Deprecation]) -> DeprecationsBlob | None:
    """The blob with these of its entries alone; itself where these are all, None where there is none of them."""
    if len(entries) == len(blob.entries):
        return blob
    return replace(blob, entries=tuple(entries)) if entries else None


def _stated(blobs: tuple[DeprecationsBlob, ...], statement: Statement) -> tuple[DeprecationsBlob, ...]:
    """The blobs of a package after a statement, which goes into the one that has its like, else into the first."""
    about = statement.about
    if not about.message:
        return without_references(blobs, {(statement.package, *_reference(about))})
    if not blobs:
        return (DeprecationsBlob(statement.package, (about,)),)
    result = [
        replace(blob, entries=tuple(about if _reference(one) == _reference(about) else one for one in blob.entries))
        for blob in blobs
    ]
    if all(about not in blob.entries for blob in result):
        result[0] = replace(result[0], entries=(*result[0].entries, about))
    return tuple(result)


def _unknown(blobs: Blobs, parts: Blobs, statement: Statement) -> CatalogError | None:
    """The error of a statement on something that is not there."""
    schema, name = _reference(statement.about)
    if not parts.packages:
        known = sorted({one.name for one in blobs.packages})
        told = f"package {statement.package} can't be deprecated: the catalog does not have it"
        return UnknownPackage(told, advice=instead("packages", statement.package, known))
    if schema not in _KINDS:
        told = f'"{schema}" can\'t be deprecated, only {PACKAGE}, {CHANNEL} and {BUNDLE} can'
        return CatalogError(told, advice="Name one of these schemas.")
    if schema == PACKAGE:
        return None
    names = sorted({one.name for one in (parts.channels if schema == CHANNEL else parts.bundles)})
    if name in names:
        return None
    kind = _KINDS[schema]
    told = f"{kind} {name} can't be deprecated: package {statement.package} does not have it"
    return CatalogError(told, advice=instead(f"{kind}s", name, names))
