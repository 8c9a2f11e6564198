"""The blobs of file-based catalogs: the schemas that OLM defines, and any others.

See https://olm.operatorframework.io/docs/reference/file-based-catalogs/.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from opmkit.documents.json_value import JsonValue

PACKAGE = "olm.package"
CHANNEL = "olm.channel"
BUNDLE = "olm.bundle"
DEPRECATIONS = "olm.deprecations"

BUNDLE_OBJECT = "olm.bundle.object"
CSV_METADATA = "olm.csv.metadata"
DEPRECATED = "olm.deprecated"
"""The property of a bundle at which truncated channels end."""


class SourceLocation(Struct, frozen=True):
    """The file of a blob, relative to the catalog's root, and its first line, counted from 1; 0 if unknown."""

    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        """Return ``FILE:LINE``, or the file alone if the line is unknown."""
        return f"{self.file}:{self.line}" if self.line else self.file


class BlobProperty(Struct, frozen=True):
    """A property of a package, channel or bundle; ``value`` is any JSON value."""

    type: str
    value: JsonValue


class Icon(Struct, frozen=True):
    """The icon of a package; ``data`` is base64 text, not validated."""

    data: str = ""
    media_type: str = ""


class RelatedImage(Struct, frozen=True):
    """An image that a bundle uses; the name may be empty."""

    name: str
    image: str


@dataclass(frozen=True, slots=True)
class PackageBlob:
    """An ``olm.package`` blob."""

    name: str
    default_channel: str = ""
    icon: Icon | None = None
    description: str = ""
    properties: tuple[BlobProperty, ...] = ()
    location: SourceLocation = field(default=SourceLocation(), compare=False)

    schema = PACKAGE

    @property
    def package(self) -> str:
        """Return the name of the package itself."""
        return self.name


class EntryBlob(Struct, frozen=True):
    """An entry of a channel: the name of a bundle and its update edges."""

    name: str
    replaces: str = ""
    skips: tuple[str, ...] = ()
    skip_range: str = ""


@dataclass(frozen=True, slots=True)
class ChannelBlob:
    """An ``olm.channel`` blob; ``has_list`` is false if its entries are null, or missing, instead of a list."""

    name: str
    package: str
    entries: tuple[EntryBlob, ...] = ()
    properties: tuple[BlobProperty, ...] = ()
    location: SourceLocation = field(default=SourceLocation(), compare=False)
    has_list: bool = field(default=True, compare=False)

    schema = CHANNEL


@dataclass(frozen=True, slots=True)
class BundleBlob:
    """An ``olm.bundle`` blob."""

    name: str
    package: str
    image: str = ""
    properties: tuple[BlobProperty, ...] = ()
    related_images: tuple[RelatedImage, ...] = ()
    location: SourceLocation = field(default=SourceLocation(), compare=False)

    schema = BUNDLE

    def property_values(self, type_: str) -> Iterator[JsonValue]:
        """Yield the values of the properties of a type."""
        return (item.value for item in self.properties if item.type == type_)


class Deprecation(Struct, frozen=True):
    """An entry of ``olm.deprecations``: a package (with an empty ``name``), channel or bundle, and the message."""

    schema: str
    name: str
    message: str


@dataclass(frozen=True, slots=True)
class DeprecationsBlob:
    """An ``olm.deprecations`` blob; ``has_list`` is false if its entries are null, or missing, instead of a list."""

    package: str
    entries: tuple[Deprecation, ...] = ()
    location: SourceLocation = field(default=SourceLocation(), compare=False)
    has_list: bool = field(default=True, compare=False)

    schema = DEPRECATIONS
    name = ""


@dataclass(frozen=True, slots=True)
class OtherBlob:
    """A blob of any other schema; ``content`` is the whole document."""

    schema: str
    name: str
    package: str
    content: Mapping[str, JsonValue]
    location: SourceLocation = field(default=SourceLocation(), compare=False)


Blob: TypeAlias = PackageBlob | ChannelBlob | BundleBlob | DeprecationsBlob | OtherBlob


@dataclass(frozen=True, slots=True)
class Blobs:
    """The blobs of a catalog by schema, those of each schema in the order in which they were read."""

    packages: tuple[PackageBlob, ...] = ()
    channels: tuple[ChannelBlob, ...] = ()
    bundles: tuple[BundleBlob, ...] = ()
    deprecations: tuple[DeprecationsBlob, ...] = ()
    others: tuple[OtherBlob, ...] = ()

    @classmethod
    def from_blobs(cls, blobs: Iterable[Blob]) -> Blobs:
        """Group blobs by schema."""
        by_type: defaultdict[type, list[Blob]] = defaultdict(list)
        for blob in blobs:
            by_type[type(blob)].append(blob)
        types = (PackageBlob, ChannelBlob, BundleBlob, DeprecationsBlob, OtherBlob)
        return cls(*(tuple(by_type[type_]) for type_ in types))  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Blob]:
        """Yield all blobs, schema by schema."""
        yield from self.packages
        yield from self.channels
        yield from self.bundles
        yield from self.deprecations
        yield from self.others

    def __add__(self, other: Blobs) -> Blobs:
        """Return the blobs of both; of each schema, those of ``other`` come last."""
        return Blobs.from_blobs([*self, *other])
