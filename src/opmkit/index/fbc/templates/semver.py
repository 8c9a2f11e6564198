"""Semver templates: channels and their updates made from the versions of bundles.

Each bundle is listed as a candidate, fast or stable; it joins a channel for its major version, such as ``stable-v1``,
one for its minor version, such as ``stable-v1.2``, or both.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from opmkit.bundle.cluster_service_version import CSV_KIND
from opmkit.bundle.errors import InvalidDocument
from opmkit.bundle.fields import member
from opmkit.index.fbc.base64text import decode_base64
from opmkit.index.fbc.blobs import Blobs, Icon, PackageBlob, SourceLocation
from opmkit.index.fbc.compat import Compat
from opmkit.index.fbc.findings import CatalogFinding, Subject, raise_findings
from opmkit.index.fbc.migrate import bundle_objects
from opmkit.index.fbc.templates.semver_channels import (
    ARCHETYPES,
    MAJOR,
    MINOR,
    VersionedBundle,
    channels,
    select_default_channel,
    select_default_channel_1_26,
    streams,
)
from opmkit.index.fbc.versions import version_key, version_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opmkit.bundle.json_value import JsonValue
    from opmkit.index.fbc.blobs import BundleBlob
    from opmkit.index.fbc.fields import FieldReader
    from opmkit.index.fbc.templates.document import TemplateFile
    from opmkit.index.fbc.templates.renderer import BundleRenderer

SCHEMA = "olm.semver"
_PREFERENCE = "defaultChannelTypePreference"


class _Listed(NamedTuple):
    """An image as the template lists it, and where."""

    image: str
    location: SourceLocation


@dataclass(frozen=True, slots=True)
class SemverTemplate:
    """What a template says: the images of each archetype, which kinds of channels there are, and which is preferred."""

    images: Mapping[str, Sequence[_Listed]]
    kinds: tuple[str, ...]
    preference: str

    @classmethod
    def parse(cls, template: TemplateFile, compat: Compat) -> SemverTemplate:
        """Read it, with the defaults of a compat; raises InvalidCatalog with all that is wrong."""
        fields = template.only(SCHEMA)
        newest = compat is Compat.NEWEST
        flags = ("generateMajorChannels", "generateMinorChannels", *(_PREFERENCE,) * newest)
        template.known(fields, "schema", *flags, *ARCHETYPES)
        kinds = _kinds(fields, newest=newest)
        preference = _preference(template, fields, kinds) if newest else MINOR
        if not kinds:
            told = "neither channels for major nor for minor versions are to be made"
            template.tell(("generateMinorChannels",), told, advice="Set one of them to true.")
        images = {name: list(_images(template, fields, name)) for name in ARCHETYPES}
        if not any(images.values()):
            template.tell((), "it lists no bundles", advice=f"List bundles under {', '.join(ARCHETYPES)}.")
        template.raise_findings()
        return cls(images, kinds, preference)


def _kinds(fields: FieldReader, *, newest: bool) -> tuple[str, ...]:
    major, minor = fields.flag("generateMajorChannels"), fields.flag("generateMinorChannels")
    if newest:
        minor = minor or not major
    return (*(MAJOR,) * (major is True), *(MINOR,) * (minor is not False))


def _preference(template: TemplateFile, fields: FieldReader, kinds: tuple[str, ...]) -> str:
    """The kind of the default channel, where there is one of both."""
    preference = fields.text(_PREFERENCE)
    if preference not in ("", MAJOR, MINOR):
        told = f"{_PREFERENCE} is {preference!r}, neither {MAJOR} nor {MINOR}"
        template.tell((_PREFERENCE,), told, advice=f"Write {MAJOR} or {MINOR}.")
    elif preference and preference not in kinds:
        told = f"{_PREFERENCE} is {preference!r}, but no channels of that kind are to be made"
        template.tell((_PREFERENCE,), told, advice="Have such channels made, or prefer the others.")
    return preference or MINOR


def _images(template: TemplateFile, fields: FieldReader, archetype: str) -> Iterator[_Listed]:
    listed = fields.mapping(archetype)
    if listed is None:
        return
    template.known(listed, "bundles")
    for entry in listed.mappings("bundles"):
        template.known(entry, "image")
        image = entry.text("image")
        if not image:
            template.tell(entry.path, "the bundle has no image", advice="Name the image to render it from.")
        yield _Listed(image, template.location(entry.path))


def render_semver(template: TemplateFile, render: BundleRenderer, compat: Compat = Compat.NEWEST) -> Blobs:
    """The catalog of a semver template: one package, its channels, and the bundles.

    Raises:
        InvalidCatalog: with all that is wrong with the template, or with the bundles that it lists.
        CatalogError, ImageToolsError: a bundle can't be rendered.
    """
    parsed = SemverTemplate.parse(template, compat)
    bundles = render(list(dict.fromkeys(one.image for listed in parsed.images.values() for one in listed)))
    archetypes = _versioned(parsed, bundles)
    found = streams(archetypes, parsed.kinds)
    newest = compat is Compat.NEWEST
    default = select_default_channel(found, parsed.preference) if newest else select_default_channel_1_26(found)
    head = next(bundle for bundle in bundles.values() if bundle.name == default.bundles[-1].name)
    package = PackageBlob(head.package, default.name, *(_description(head) if newest else ()))
    return Blobs((package,), channels(found, archetypes, head.package), tuple(bundles.values()))


def _versioned(parsed: SemverTemplate, bundles: Mapping[str, BundleBlob]) -> dict[str, list[VersionedBundle]]:
    """The bundles of each archetype, by version.

    Raises:
        InvalidCatalog: for bundles of another package than the first, those listed twice, and such whose versions are
            none, or differ in their build metadata alone.
    """
    package = next(iter(bundles.values())).package
    faults: list[CatalogFinding] = []
    found = {}
    for archetype in ARCHETYPES:
        named = [(bundles[one.image], one.location) for one in parsed.images[archetype]]
        faults += _foreign(named, package)
        found[archetype] = sorted(_ordered(named, archetype, faults))
    raise_findings(faults)
    return found


def _foreign(named: Iterable[tuple[BundleBlob, SourceLocation]], package: str) -> Iterator[CatalogFinding]:
    for bundle, location in named:
        if bundle.package != package:
            told = f'it is of package "{bundle.package}", and the first bundle is of package "{package}"'
            yield CatalogFinding(location, told, Subject(bundle=bundle.name), "Write a template for each package.")


def _ordered(
    named: Iterable[tuple[BundleBlob, SourceLocation]], archetype: str, faults: list[CatalogFinding]
) -> Iterator[VersionedBundle]:
    """The bundles with their versions, each once; what can't be ordered is added to the faults."""
    names: set[str] = set()
    versions: defaultdict[object, list[str]] = defaultdict(list)
    for bundle, location in named:
        subject = Subject(bundle.package, bundle=bundle.name)
        try:
            text = version_text(bundle)
            versioned = VersionedBundle(version_key(text), bundle.name)
        except ValueError as error:
            faults.append(
                CatalogFinding(location, str(error), subject, "Correct the version of its ClusterServiceVersion.")
            )
            continue
        same = versions[versioned.key]
        if bundle.name in names:
            told = f"it is listed twice under {archetype}"
            faults.append(CatalogFinding(location, told, subject, "List it once."))
        elif same:
            told = f"its version {text} can't be ordered beside {same[0]}, but for build metadata the same"
            faults.append(CatalogFinding(location, told, subject, "List one of them, or give it a version of its own."))
        else:
            yield versioned
        names.add(bundle.name)
        same.append(text)


def _description(bundle: BundleBlob) -> tuple[Icon | None, str]:
    """The icon and the description of the operator, as far as the manifests of a bundle have them."""
    with contextlib.suppress(InvalidDocument):
        csv = next((one for one in bundle_objects(bundle) if isinstance(one, dict) and one.get("kind") == CSV_KIND), {})
        spec = member(csv, "spec")
        return _icon(member(spec, "icon") if isinstance(spec, dict) else None), _text(spec, "description")
    return None, ""


def _icon(icons: JsonValue) -> Icon | None:
    """Return the first icon, None if there is none or, as in Go, the data of any can't be decoded."""
    entries = icons if isinstance(icons, list) else []
    found = [Icon(_text(icon, "base64data"), _text(icon, "mediatype")) for icon in entries if isinstance(icon, dict)]
    return found[0] if found and all(decode_base64(icon.data) is not None for icon in found) else None


def _text(value: JsonValue, name: str) -> str:
    text = member(value, name) if isinstance(value, dict) else None
    return text if isinstance(text, str) else ""
