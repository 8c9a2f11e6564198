"""Substitutes templates: a catalog in which bundles take the places of others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from opmkit.bundle.fields import member
from opmkit.index.errors import InvalidCatalog
from opmkit.index.fbc.blobs import PACKAGE, Blobs, EntryBlob, OtherBlob
from opmkit.index.fbc.check.catalog import check_blobs
from opmkit.index.fbc.documents import sort_keys
from opmkit.index.fbc.findings import CatalogFinding, Subject, raise_findings
from opmkit.index.fbc.versions import version_key, version_text
from opmkit.index.graph.version import precedence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.index.fbc.blobs import BundleBlob, ChannelBlob, SourceLocation
    from opmkit.index.fbc.fields import FieldReader
    from opmkit.index.fbc.templates.document import TemplateFile
    from opmkit.index.fbc.templates.renderer import BundleRenderer
    from opmkit.index.fbc.versions import VersionKey
    from opmkit.index.graph.version import Identifiers

SCHEMA = "olm.template.substitutes"


class Substitution(NamedTuple):
    """The image of a bundle, the name of the bundle whose place it takes, and where that is written."""

    image: str
    base: str
    location: SourceLocation


def render_substitutes(template: TemplateFile, render: BundleRenderer) -> Blobs:
    """The catalog of a substitutes template.

    Raises:
        InvalidCatalog: with all that is wrong with the template or its catalog, or with the first substitution that
            can't be made or leaves the catalog invalid.
        CatalogError, ImageToolsError: a bundle can't be rendered.
    """
    fields = template.only(SCHEMA)
    template.known(fields, "schema", "entries", "substitutions")
    blobs = template.blobs("entries", fields.items("entries"))
    substitutions = list(_substitutions(template, fields))
    template.raise_findings()
    raise_findings(check_blobs(blobs))
    bundles = render([one.image for one in substitutions])
    for one in substitutions:
        blobs = _substituted(blobs, one, replace(bundles[one.image], location=one.location))
    return blobs


def to_substitutes(template: TemplateFile) -> OtherBlob:
    """The substitutes template of a catalog, without substitutions yet; raises InvalidCatalog."""
    template.load(template.documents)
    template.raise_findings()
    entries = [sort_keys(document.value) for document in template.documents]
    return OtherBlob(SCHEMA, "", "", {"schema": SCHEMA, "entries": entries, "substitutions": []})


def _substitutions(template: TemplateFile, fields: FieldReader) -> Iterator[Substitution]:
    """What the template says; all that is wrong with it is told."""
    images: dict[str, str] = {}
    for entry in fields.mappings("substitutions"):
        template.known(entry, "name", "base")
        image, base = entry.text("name"), entry.text("base")
        if not image or not base or image == base:
            told = "a substitution needs the image of a bundle as its name, and the name of another bundle as its base"
            template.tell(entry.path, told, advice="Write both.")
        elif base in images.values():
            template.tell(entry.path, f'"{base}" is substituted twice', advice="Substitute the substitute, if need be.")
        elif image in images:
            told = f'"{image}" substitutes both "{images[image]}" and "{base}"'
            template.tell(entry.path, told, advice="Build a bundle for each.")
        images[image] = base
        yield Substitution(image, base, template.location(entry.path))


def _substituted(blobs: Blobs, substitution: Substitution, bundle: BundleBlob) -> Blobs:
    """The catalog after one substitution."""
    base = next((one for one in blobs.bundles if one.name == substitution.base), None)
    _check_order(base, bundle, substitution)
    channels = (
        _with_substitute(channel, substitution.base, bundle.name) if channel.package == bundle.package else channel
        for channel in blobs.channels
    )
    result = replace(blobs, channels=tuple(channels), bundles=(*blobs.bundles, bundle))
    try:
        raise_findings(check_blobs(Blobs.from_blobs(blob for blob in result if blob.package == bundle.package)))
    except InvalidCatalog as error:
        first, *others = error.lines
        told = f"with {bundle.name!r} in the place of {substitution.base!r} the catalog is invalid: {first}"
        raise InvalidCatalog(told, details=others, advice=error.advice) from error
    return result


def _check_order(base: BundleBlob | None, bundle: BundleBlob, substitution: Substitution) -> None:
    """Raise InvalidCatalog unless a bundle may take the place of the base: one of its package, of a lower version."""
    problem = ""
    if base is None:
        problem = f'the catalog has no bundle "{substitution.base}" for it to take the place of'
    elif base.package != bundle.package:
        problem = f'"{base.name}" is of package "{base.package}"'
    else:
        try:
            if _order(base) >= _order(bundle):
                problem = f'its version is not above that of "{base.name}", whose place it would take'
        except ValueError as error:
            problem = f'its version can\'t be compared with that of "{base.name}": {error}'
    if problem:
        subject = Subject(bundle.package, bundle=bundle.name)
        advice = "Name as the base a bundle among the entries, of the same package and a lower version or release."
        raise_findings([CatalogFinding(substitution.location, problem, subject, advice)])


def _order(bundle: BundleBlob) -> tuple[VersionKey, Identifiers]:
    """What version and release compare by; one without release is below all that have one. Raises ValueError."""
    value = next(bundle.property_values(PACKAGE), None)
    release = member(value, "release") if isinstance(value, dict) else None
    identifiers = precedence(f"0.0.0-{release}")[3][1] if release and isinstance(release, str) else ()
    return version_key(version_text(bundle)), identifiers


def _with_substitute(channel: ChannelBlob, base: str, name: str) -> ChannelBlob:
    """The channel in which a bundle has the updates of the base and skips it, and others update from it instead."""
    entries = (_redirected(entry, base, name) for entry in channel.entries)
    taken = (
        EntryBlob(name, entry.replaces, (*entry.skips, base), entry.skip_range)
        for entry in channel.entries
        if entry.name == base
    )
    return replace(channel, entries=(*entries, *taken))


def _redirected(entry: EntryBlob, base: str, name: str) -> EntryBlob:
    if entry.name == base:
        return EntryBlob(base)
    if entry.replaces == base:
        return replace(entry, replaces=name, skips=(*entry.skips, base))
    if base in entry.skips:
        return replace(entry, skips=(*(skip for skip in entry.skips if skip != base), name))
    return entry
