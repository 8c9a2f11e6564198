"""Substitutes templates: catalogs in which bundles replace others in the update graph."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from opmkit.bundle.versions import strict_version, version_key
from opmkit.documents.document_stream import sort_keys
from opmkit.documents.fields import member
from opmkit.index.errors import InvalidCatalog
from opmkit.index.fbc.blobs import PACKAGE, Blobs, EntryBlob, OtherBlob
from opmkit.index.fbc.check.catalog import check_blobs
from opmkit.index.fbc.findings import CatalogFinding, raise_findings
from opmkit.index.fbc.model import version_text
from opmkit.index.graph.values import precedence
from opmkit.index.templates.renderer import ListedImage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.bundle.versions import Identifiers, VersionKey
    from opmkit.index.fbc.blobs import BundleBlob, ChannelBlob, SourceLocation
    from opmkit.index.fbc.fields import FieldReader
    from opmkit.index.templates.document import TemplateFile
    from opmkit.index.templates.renderer import BundleRenderer

SCHEMA = "olm.template.substitutes"


class TemplateSubstitution(NamedTuple):
    """The image of a bundle, the name of the bundle that it replaces, and the location in the template."""

    image: str
    base: str
    location: SourceLocation


def render_substitutes(template: TemplateFile, render: BundleRenderer) -> Blobs:
    """Return the catalog of a substitutes template.

    Raises:
        InvalidCatalog: The template or its catalog is invalid, with all findings; or a substitution is impossible or
            makes the catalog invalid.
        CatalogError: A bundle can't be rendered.
        ImageToolsError: A bundle image can't be read.
    """
    blobs, substitutions = read_template(template)
    raise_findings(check_blobs(blobs))
    bundles = render([substitution.image for substitution in substitutions])
    for substitution in substitutions:
        bundle = replace(bundles[substitution.image], location=substitution.location)
        blobs = _substitute(blobs, substitution, bundle)
    return blobs


def list_images(template: TemplateFile) -> list[ListedImage]:
    """Return the images of a substitutes template; raise InvalidCatalog if it is invalid."""
    return [ListedImage(substitution.image, substitution.location) for substitution in read_template(template)[1]]


def read_template(template: TemplateFile) -> tuple[Blobs, list[TemplateSubstitution]]:
    """Return the entries and the substitutions of a template.

    Raises:
        InvalidCatalog: The template is invalid; the error lists all findings.
    """
    reader = template.reader(SCHEMA)
    template.check_fields(reader, "schema", "entries", "substitutions")
    blobs = template.load_list("entries", reader.items("entries"))
    substitutions = list(_read_substitutions(template, reader))
    template.raise_findings()
    return blobs, substitutions


def to_substitutes(template: TemplateFile) -> OtherBlob:
    """Return a substitutes template for a catalog, without substitutions.

    Raises:
        InvalidCatalog: The catalog is invalid; the error lists all findings.
    """
    template.load(template.documents)
    template.raise_findings()
    entries = [sort_keys(document.value) for document in template.documents]
    return OtherBlob(SCHEMA, "", "", {"schema": SCHEMA, "entries": entries, "substitutions": []})


def _read_substitutions(template: TemplateFile, reader: FieldReader) -> Iterator[TemplateSubstitution]:
    images: dict[str, str] = {}
    for entry in reader.mappings("substitutions"):
        template.check_fields(entry, "name", "base")
        image, base = entry.string("name"), entry.string("base")
        if not image or not base or image == base:
            message = "a substitution needs a bundle image as name, and the name of another bundle as base"
            template.report(entry.path, message, hint="Set both.")
        elif base in images.values():
            hint = "Remove one substitution, or substitute the substitute."
            template.report(entry.path, f'"{base}" is substituted twice', hint=hint)
        elif image in images:
            message = f'"{image}" substitutes both "{images[image]}" and "{base}"'
            template.report(entry.path, message, hint="Build a bundle for each.")
        images[image] = base
        yield TemplateSubstitution(image, base, template.location(entry.path))


def _substitute(blobs: Blobs, substitution: TemplateSubstitution, bundle: BundleBlob) -> Blobs:
    """Return the catalog after one substitution."""
    base = next((other for other in blobs.bundles if other.name == substitution.base), None)
    _check_base(base, bundle, substitution)
    channels = (
        _add_substitute(channel, substitution.base, bundle.name) if channel.package == bundle.package else channel
        for channel in blobs.channels
    )
    result = replace(blobs, channels=tuple(channels), bundles=(*blobs.bundles, bundle))
    try:
        raise_findings(check_blobs(Blobs.from_blobs(blob for blob in result if blob.package == bundle.package)))
    except InvalidCatalog as error:
        first, *others = error.lines
        message = f"substituting {bundle.name!r} for {substitution.base!r} makes the catalog invalid: {first}"
        raise InvalidCatalog(message, details=others, hint=error.hint) from error
    return result


def _check_base(base: BundleBlob | None, bundle: BundleBlob, substitution: TemplateSubstitution) -> None:
    """Raise InvalidCatalog unless the base belongs to the same package and has a lower version."""
    problem = ""
    if base is None:
        problem = f'base bundle "{substitution.base}" not found in the catalog'
    elif base.package != bundle.package:
        problem = f'base bundle "{base.name}" belongs to package "{base.package}"'
    else:
        try:
            if _sort_key(base) >= _sort_key(bundle):
                problem = f'the version is not higher than that of the base bundle "{base.name}"'
        except ValueError as error:
            problem = f'cannot compare the version with that of the base bundle "{base.name}": {error}'
    if problem:
        hint = "Set the base to a bundle among the entries with the same package and a lower version or release."
        finding = CatalogFinding(problem, hint=hint, package=bundle.package, bundle=bundle.name)
        raise_findings([finding.at(substitution.location)])


def _sort_key(bundle: BundleBlob) -> tuple[VersionKey, Identifiers]:
    """Return a key of version and release, where no release is lowest; raise ValueError for an invalid version."""
    value = next(bundle.property_values(PACKAGE), None)
    release = member(value, "release") if isinstance(value, dict) else None
    identifiers = precedence(f"0.0.0-{release}")[3][1] if release and isinstance(release, str) else ()
    return version_key(strict_version(version_text(bundle))), identifiers


def _add_substitute(channel: ChannelBlob, base: str, name: str) -> ChannelBlob:
    """Give a bundle the edges of the base, let it skip the base, and redirect the edges from the base to it."""
    entries = (_redirect(entry, base, name) for entry in channel.entries)
    added = (
        EntryBlob(name, entry.replaces, (*entry.skips, base), entry.skip_range)
        for entry in channel.entries
        if entry.name == base
    )
    return replace(channel, entries=(*entries, *added))


def _redirect(entry: EntryBlob, base: str, name: str) -> EntryBlob:
    if entry.name == base:
        return EntryBlob(base)
    if entry.replaces == base:
        return structs.replace(entry, replaces=name, skips=(*entry.skips, base))
    if base in entry.skips:
        return structs.replace(entry, skips=(*(skip for skip in entry.skips if skip != base), name))
    return entry
