"""Semver templates: channels and update edges generated from the versions of bundles.

The template lists each bundle under the archetypes candidate, fast or stable. The bundle joins a channel for its major
version, such as ``stable-v1``, a channel for its minor version, such as ``stable-v1.2``, or both.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from msgspec import Struct

from opmkit.bundle.kinds import CSV_KIND
from opmkit.bundle.versions import strict_version, version_key
from opmkit.documents.errors import InvalidDocument
from opmkit.documents.fields import member
from opmkit.index.fbc.blobs import Blobs, ChannelBlob, EntryBlob, Icon, PackageBlob
from opmkit.index.fbc.compat import CatalogCompat, ReleaseChange
from opmkit.index.fbc.csv_metadata import bundle_objects
from opmkit.index.fbc.fields import decode_base64
from opmkit.index.fbc.findings import CatalogFinding, raise_findings
from opmkit.index.fbc.model import version_text
from opmkit.index.templates.renderer import ListedImage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from opmkit.bundle.versions import VersionKey
    from opmkit.documents.json_value import JsonValue
    from opmkit.index.fbc.blobs import BundleBlob
    from opmkit.index.fbc.fields import FieldReader
    from opmkit.index.templates.document import TemplateFile
    from opmkit.index.templates.renderer import BundleRenderer


SCHEMA = "olm.semver"
_PREFERENCE = "defaultChannelTypePreference"


class SemverTemplate(Struct, frozen=True):
    """The content of a semver template: images by archetype, types of channels to generate, and the preferred type."""

    images: Mapping[str, Sequence[ListedImage]]
    channel_types: tuple[str, ...]
    preference: str

    @classmethod
    def parse(cls, template: TemplateFile, compat: CatalogCompat, *, allow_empty: bool = False) -> SemverTemplate:
        """Parse a template, with the defaults of a release of Go opm.

        Args:
            template: The file.
            compat: The release.
            allow_empty: Whether to accept a template without bundles.

        Raises:
            InvalidCatalog: The template is invalid; the error lists all findings.
        """
        reader = template.reader(SCHEMA)
        has_preference = compat.has(ReleaseChange.DEFAULT_CHANNEL_PREFERENCE)
        options = ("generateMajorChannels", "generateMinorChannels", *(_PREFERENCE,) * has_preference)
        template.check_fields(reader, "schema", *options, *ARCHETYPES)
        channel_types = _read_channel_types(reader, always_one=has_preference)
        preference = _read_preference(template, reader, channel_types) if has_preference else MINOR
        if not channel_types:
            message = "no channels to generate: generateMajorChannels and generateMinorChannels are false"
            template.report(("generateMinorChannels",), message, hint="Set one of them to true.")
        images = {archetype: list(_read_images(template, reader, archetype)) for archetype in ARCHETYPES}
        if not allow_empty and not any(images.values()):
            template.report((), "the template has no bundles", hint=f"Add bundles to {', '.join(ARCHETYPES)}.")
        template.raise_findings()
        return cls(images, channel_types, preference)


def list_images(template: TemplateFile, compat: CatalogCompat = CatalogCompat.NEWEST) -> list[ListedImage]:
    """Return the images of a semver template; raise InvalidCatalog if it is invalid."""
    return [listed for images in SemverTemplate.parse(template, compat).images.values() for listed in images]


def _read_channel_types(reader: FieldReader, *, always_one: bool) -> tuple[str, ...]:
    """Return the types of channels to generate; with ``always_one``, minor channels if none is selected."""
    major, minor = reader.boolean("generateMajorChannels"), reader.boolean("generateMinorChannels")
    if always_one:
        minor = minor or not major
    return (*(MAJOR,) * (major is True), *(MINOR,) * (minor is not False))


def _read_preference(template: TemplateFile, reader: FieldReader, channel_types: tuple[str, ...]) -> str:
    """Return the preferred type of the default channel if there are channels of both types."""
    preference = reader.string(_PREFERENCE)
    if preference not in ("", MAJOR, MINOR):
        message = f"invalid {_PREFERENCE} {preference!r}"
        template.report((_PREFERENCE,), message, hint=f"Set it to {MAJOR} or {MINOR}.")
    elif preference and preference not in channel_types:
        message = f"{_PREFERENCE} is {preference!r}, but no {preference} channels are generated"
        template.report((_PREFERENCE,), message, hint="Generate these channels, or prefer the others.")
    return preference or MINOR


def _read_images(template: TemplateFile, reader: FieldReader, archetype: str) -> Iterator[ListedImage]:
    section = reader.mapping(archetype)
    if section is None:
        return
    template.check_fields(section, "bundles")
    for entry in section.mappings("bundles"):
        template.check_fields(entry, "image")
        image = entry.string("image")
        if not image:
            template.report(entry.path, "the bundle has no image", hint="Set the image from which to render it.")
        yield ListedImage(image, template.location(entry.path))


def render_semver(
    template: TemplateFile, render: BundleRenderer, compat: CatalogCompat = CatalogCompat.NEWEST
) -> Blobs:
    """Return the catalog of a semver template: one package, its channels, and the bundles.

    Raises:
        InvalidCatalog: The template or the bundles in it are invalid; the error lists all findings.
        CatalogError: A bundle can't be rendered.
        ImageToolsError: A bundle image can't be read.
    """
    parsed = SemverTemplate.parse(template, compat)
    bundles = render(list(dict.fromkeys(listed.image for images in parsed.images.values() for listed in images)))
    archetypes = _sort_bundles(parsed, bundles)
    channels = group_channels(archetypes, parsed.channel_types)
    default = (
        select_default_channel(channels, parsed.preference)
        if compat.has(ReleaseChange.DEFAULT_CHANNEL_PREFERENCE)
        else select_default_channel_1_26(channels)
    )
    head = next(bundle for bundle in bundles.values() if bundle.name == default.bundles[-1].name)
    details = _icon_and_description(head) if compat.has(ReleaseChange.CHANNEL_HEAD_DETAILS) else ()
    package = PackageBlob(head.package, default.name, *details)
    link = linker(archetypes, compat)
    return Blobs((package,), channel_blobs(channels, link, head.package), tuple(bundles.values()))


def _sort_bundles(parsed: SemverTemplate, bundles: Mapping[str, BundleBlob]) -> dict[str, list[VersionedBundle]]:
    """Return the bundles of each archetype, sorted by version.

    Raises:
        InvalidCatalog: Bundles belong to another package than the first, are listed twice, have an invalid version, or
            have versions of equal precedence.
    """
    package = next(iter(bundles.values())).package
    findings: list[CatalogFinding] = []
    archetypes = {}
    for archetype in ARCHETYPES:
        located = [(bundles[listed.image], listed) for listed in parsed.images[archetype]]
        findings += _check_packages(located, package)
        archetypes[archetype] = sorted(_add_versions(located, archetype, findings))
    raise_findings(findings)
    return archetypes


def _check_packages(located: Iterable[tuple[BundleBlob, ListedImage]], package: str) -> Iterator[CatalogFinding]:
    for bundle, listed in located:
        if bundle.package != package:
            message = f'belongs to package "{bundle.package}", but the first bundle belongs to package "{package}"'
            finding = CatalogFinding(message, hint="Write a template for each package.", bundle=bundle.name)
            yield finding.at(listed.location)


def _add_versions(
    located: Iterable[tuple[BundleBlob, ListedImage]], archetype: str, findings: list[CatalogFinding]
) -> Iterator[VersionedBundle]:
    """Yield each valid bundle of an archetype once; add findings about the others."""
    names: dict[str, ListedImage] = {}
    versions: defaultdict[object, list[str]] = defaultdict(list)
    for bundle, listed in located:
        finding = CatalogFinding("", package=bundle.package, bundle=bundle.name).at(listed.location)
        try:
            version = version_text(bundle)
            versioned = VersionedBundle(version_key(strict_version(version)), bundle.name)
        except ValueError as error:
            hint = "Correct the version of its ClusterServiceVersion."
            findings.append(replace(finding, message=str(error), hint=hint))
            continue
        equal = versions[versioned.key]
        if first := names.get(bundle.name):
            message, hint = f"listed twice under {archetype}", "List it once."
            if first.image != listed.image:
                images = f"{first.image} in line {first.location.line} and {listed.image}"
                message = f"two images contain a ClusterServiceVersion of this name (metadata.name): {images}"
                hint = "List one of them, or give one another name and version."
            findings.append(replace(finding, message=message, hint=hint))
        elif equal:
            message = f"version {version} has the same precedence as {equal[0]}, because build metadata is ignored"
            findings.append(replace(finding, message=message, hint="List one of them, or change the version of one."))
        else:
            yield versioned
        names.setdefault(bundle.name, listed)
        equal.append(version)


def _icon_and_description(bundle: BundleBlob) -> tuple[Icon | None, str]:
    """Return the icon and the description of the operator, if the manifests of a bundle have them."""
    with contextlib.suppress(InvalidDocument):
        objects = bundle_objects(bundle)
        csv = next((value for value in objects if isinstance(value, dict) and value.get("kind") == CSV_KIND), {})
        spec = member(csv, "spec")
        icons = member(spec, "icon") if isinstance(spec, dict) else None
        return _first_icon(icons), _string(spec, "description")
    return None, ""


def _first_icon(icons: JsonValue) -> Icon | None:
    """Return the first icon; None without icons or, as in Go, if the data of any icon is not valid base64."""
    entries = icons if isinstance(icons, list) else []
    found = [
        Icon(_string(icon, "base64data"), _string(icon, "mediatype")) for icon in entries if isinstance(icon, dict)
    ]
    return found[0] if found and all(decode_base64(icon.data) is not None for icon in found) else None


def _string(value: JsonValue, name: str) -> str:
    string = member(value, name) if isinstance(value, dict) else None
    return string if isinstance(string, str) else ""


ARCHETYPES = ("candidate", "fast", "stable")
"""Channel archetypes, from least to most stable."""
MAJOR, MINOR = "major", "minor"


class VersionedBundle(NamedTuple):
    """The name of a bundle with its version key."""

    key: VersionKey
    name: str


Archetypes: TypeAlias = "Mapping[str, Sequence[VersionedBundle]]"
"""The bundles of each archetype, sorted by version."""


class SemverChannel(NamedTuple):
    """A channel to generate: archetype, type (`MAJOR` or `MINOR`), and bundles sorted by version."""

    archetype: str
    channel_type: str
    bundles: tuple[VersionedBundle, ...]

    @property
    def name(self) -> str:
        """Return a name such as ``stable-v1`` or ``stable-v1.2``."""
        major, minor, *_ = self.bundles[0].key
        return f"{self.archetype}-v{major}" + f".{minor}" * (self.channel_type == MINOR)


Linker: TypeAlias = "Callable[[SemverChannel], Iterable[EntryBlob]]"
"""Returns the entries of a channel."""

_VERSION_PREFIX: dict[str, Callable[[VersionedBundle], tuple[int, ...]]] = {
    MAJOR: lambda bundle: bundle.key[:1],
    MINOR: lambda bundle: bundle.key[:2],
}
"""The part of the version that the bundles of a channel share, by channel type."""


def group_channels(archetypes: Archetypes, channel_types: Iterable[str]) -> list[SemverChannel]:
    """Return the channels to generate, by archetype, type and version."""
    return [
        SemverChannel(archetype, channel_type, tuple(members))
        for archetype in ARCHETYPES
        for channel_type in channel_types
        for _, members in groupby(archetypes[archetype], _VERSION_PREFIX[channel_type])
    ]


def channel_blobs(channels: Iterable[SemverChannel], link: Linker, package: str) -> tuple[ChannelBlob, ...]:
    """Return the channels with their entries, sorted by name."""
    blobs = (ChannelBlob(channel.name, package, tuple(link(channel))) for channel in channels)
    return tuple(sorted(blobs, key=lambda blob: blob.name))


def linker(archetypes: Archetypes, compat: CatalogCompat) -> Linker:
    """Return the function that creates the entries of a channel with the update edges of a release of Go opm."""
    if compat.has(ReleaseChange.SKIPS_BY_CHANNEL) and not compat.has(ReleaseChange.SKIPS_BY_MAJOR_VERSION):
        skip_replaced = not compat.has(ReleaseChange.NO_SKIPPED_REPLACES)
        return lambda channel: _entries_of_channel(channel.bundles, skip_replaced=skip_replaced)
    entries = {archetype: {entry.name: entry for entry in _entries(archetypes[archetype])} for archetype in ARCHETYPES}
    return lambda channel: (entries[channel.archetype][bundle.name] for bundle in channel.bundles)


def _entries_of_channel(bundles: Iterable[VersionedBundle], *, skip_replaced: bool) -> Iterator[EntryBlob]:
    """Yield the entries of a channel by the rules of Go opm 1.37 to 1.60.

    The highest patch version of each minor version replaces that of the previous minor version, and skips the other
    patch versions of that minor version, and with ``skip_replaced`` the replaced one as well.
    """
    previous = ""
    for _, minor in groupby(bundles, lambda bundle: bundle.key[:2]):
        *patches, last = (bundle.name for bundle in minor)
        yield from map(EntryBlob, patches)
        replaced = (previous,) if previous and skip_replaced else ()
        yield EntryBlob(last, previous, (*replaced, *patches))
        previous = last


def _entries(bundles: Sequence[VersionedBundle]) -> Iterator[EntryBlob]:
    """Yield the entries of an archetype, which are the same in all its channels.

    The highest patch version of each minor version replaces that of the previous minor version with the same major
    version, and skips all other lower versions. Other bundles have no edges.
    """
    for _, major in groupby(bundles, lambda bundle: bundle.key[0]):
        lower: list[str] = []
        previous = ""
        for _, minor in groupby(major, lambda bundle: bundle.key[1]):
            *patches, last = (bundle.name for bundle in minor)
            yield from map(EntryBlob, patches)
            skips = {*lower, *patches} - {previous}
            yield EntryBlob(last, previous, tuple(sorted(skips)))
            lower += [*patches, last]
            previous = last


def select_default_channel(channels: Iterable[SemverChannel], preference: str) -> SemverChannel:
    """Return the most stable channel, then the one with the highest first version, then that of the preferred type."""
    return max(
        channels,
        key=lambda channel: (*_rank(channel), channel.channel_type == preference, channel.channel_type == MINOR),
    )


def select_default_channel_1_26(channels: Iterable[SemverChannel]) -> SemverChannel:
    """Return the default channel by the rule of Go opm v1.26.5.

    There, a channel with a higher first version also wins over a more stable one before it. Whether major or minor
    channels come first is random in that release; here it is minor channels.
    """
    best: SemverChannel | None = None
    for channel in sorted(channels, key=lambda channel: (*_rank(channel), channel.channel_type == MAJOR)):
        if best is None or _rank(channel)[0] > _rank(best)[0] or _rank(channel)[1] > _rank(best)[1]:
            best = channel
    if best is None:
        raise ValueError("no channels")
    return best


def _rank(channel: SemverChannel) -> tuple[int, VersionKey]:
    return ARCHETYPES.index(channel.archetype), channel.bundles[0].key
