"""File-based catalogs as they are written down: blobs of known schemas, and others, which are kept as they are.

The schemas are those of Operator Lifecycle Manager's file-based catalogs: ``olm.package``, ``olm.channel``,
``olm.bundle`` and ``olm.deprecations``.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from opmkit.bundle.json_value import JsonValue

PACKAGE = "olm.package"
CHANNEL = "olm.channel"
BUNDLE = "olm.bundle"
DEPRECATIONS = "olm.deprecations"

BUNDLE_OBJECT = "olm.bundle.object"
CSV_METADATA = "olm.csv.metadata"
DEPRECATED = "olm.deprecated"
"""The property of a bundle that updates were made to end with."""


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """Where a blob was read: the file, by its path from the catalog's root, and the line, from 1, that it begins at."""

    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        """The location as compilers write it: ``file:line``."""
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class BlobProperty:
    """A typed fact; ``value`` is any JSON value."""

    type: str
    value: JsonValue


@dataclass(frozen=True, slots=True)
class Icon:
    """A package's icon: ``data`` is the base64 text, which nobody checks."""

    data: str = ""
    media_type: str = ""


@dataclass(frozen=True, slots=True)
class RelatedImage:
    """An image that a bundle uses; it may have no name."""

    name: str
    image: str


@dataclass(frozen=True, slots=True)
class PackageBlob:
    """``olm.package``."""

    name: str
    default_channel: str = ""
    icon: Icon | None = None
    description: str = ""
    properties: tuple[BlobProperty, ...] = ()
    location: SourceLocation = field(default=SourceLocation(), compare=False)

    schema = PACKAGE

    @property
    def package(self) -> str:
        """The package that it belongs to: itself."""
        return self.name


@dataclass(frozen=True, slots=True)
class EntryBlob:
    """An entry of a channel: the bundle's name, and what it updates from."""

    name: str
    replaces: str = ""
    skips: tuple[str, ...] = ()
    skip_range: str = ""


@dataclass(frozen=True, slots=True)
class ChannelBlob:
    """``olm.channel``."""

    name: str
    package: str
    entries: tuple[EntryBlob, ...] = ()
    properties: tuple[BlobProperty, ...] = ()
    location: SourceLocation = field(default=SourceLocation(), compare=False)

    schema = CHANNEL


@dataclass(frozen=True, slots=True)
class BundleBlob:
    """``olm.bundle``."""

    name: str
    package: str
    image: str = ""
    properties: tuple[BlobProperty, ...] = ()
    related_images: tuple[RelatedImage, ...] = ()
    location: SourceLocation = field(default=SourceLocation(), compare=False)

    schema = BUNDLE

    def property_values(self, type_: str) -> Iterator[JsonValue]:
        """The values of the properties of a type."""
        return (item.value for item in self.properties if item.type == type_)


@dataclass(frozen=True, slots=True)
class Deprecation:
    """What is said to be deprecated: a package (which has no ``name`` here), channel or bundle, and why."""

    schema: str
    name: str
    message: str


@dataclass(frozen=True, slots=True)
class DeprecationsBlob:
    """``olm.deprecations``."""

    package: str
    entries: tuple[Deprecation, ...] = ()
    location: SourceLocation = field(default=SourceLocation(), compare=False)

    schema = DEPRECATIONS
    name = ""


@dataclass(frozen=True, slots=True)
class OtherBlob:
    """A blob of another schema: all that it says."""

    schema: str
    name: str
    package: str
    content: Mapping[str, JsonValue]
    location: SourceLocation = field(default=SourceLocation(), compare=False)


Blob: TypeAlias = PackageBlob | ChannelBlob | BundleBlob | DeprecationsBlob | OtherBlob


@dataclass(frozen=True, slots=True)
class Blobs:
    """The blobs of a catalog, those of each schema in the order in which they were read."""

    packages: tuple[PackageBlob, ...] = ()
    channels: tuple[ChannelBlob, ...] = ()
    bundles: tuple[BundleBlob, ...] = ()
    deprecations: tuple[DeprecationsBlob, ...] = ()
    others: tuple[OtherBlob, ...] = ()

    @classmethod
    def from_blobs(cls, blobs: Iterable[Blob]) -> Blobs:
        """Sort blobs by their schemas."""
        found: defaultdict[type, list[Blob]] = defaultdict(list)
        for blob in blobs:
            found[type(blob)].append(blob)
        kinds = (PackageBlob, ChannelBlob, BundleBlob, DeprecationsBlob, OtherBlob)
        return cls(*(tuple(found[kind]) for kind in kinds))  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Blob]:
        """All of them, schema by schema."""
        yield from self.packages
        yield from self.channels
        yield from self.bundles
        yield from self.deprecations
        yield from self.others

    def __add__(self, other: Blobs) -> Blobs:
        """Both, one after the other."""
        return Blobs.from_blobs([*self, *other])
