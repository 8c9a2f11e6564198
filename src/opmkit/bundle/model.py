"""The values that make up a bundle: one version of an operator."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class ApiKey:
    """An API as bundles provide and require it; ``plural`` of an API service is that service's name."""

    group: str
    version: str
    kind: str
    plural: str


@dataclass(frozen=True, slots=True, order=True)
class TypedValue:
    """A property or a dependency: ``value`` is compact JSON, exactly as an index stores it, "" for none at all."""

    type: str
    value: str


@dataclass(frozen=True, slots=True)
class BundleAnnotations:
    """What the annotations file says on the bundle's place in a catalog; "" where it says nothing."""

    package: str
    channels: tuple[str, ...]
    default_channel: str


@dataclass(frozen=True, slots=True)
class ClusterServiceVersion:
    """What an index needs to know of a CSV; ``json`` is all of it, in compact JSON."""

    json: bytes
    name: str
    version: str
    replaces: str
    skips: tuple[str, ...]
    skip_range: str
    substitutes_for: str
    properties: tuple[TypedValue, ...]
    operator_images: tuple[str, ...]
    related_images: tuple[str, ...]
    owned_crds: tuple[ApiKey, ...]
    required_crds: tuple[ApiKey, ...]
    owned_services: tuple[ApiKey, ...]
    required_services: tuple[ApiKey, ...]


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle, read and checked.

    ``objects`` is the compact JSON of each manifest in the order of the files' names, without line end; an index
    stores each with a line end. ``image`` is the reference it was read from, "" for a directory. The tuples are
    without duplicates (but for ``dependencies``) and in an order that depends on the content alone.
    """

    annotations: BundleAnnotations
    csv: ClusterServiceVersion
    objects: tuple[bytes, ...]
    provided_apis: tuple[ApiKey, ...]
    required_apis: tuple[ApiKey, ...]
    dependencies: tuple[TypedValue, ...]
    properties: tuple[TypedValue, ...]
    image: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The CSV's name, by which catalogs know the bundle."""
        return self.csv.name

    @property
    def version(self) -> str:
        """The CSV's version as written, "" if there is none."""
        return self.csv.version

    @property
    def package(self) -> str:
        """The package that the annotations name."""
        return self.annotations.package

    @property
    def related_images(self) -> tuple[str, ...]:
        """Every image a cluster needs for the bundle, the bundle's own among them, in order."""
        own = (self.image,) if self.image else ()
        return tuple(sorted({*own, *self.csv.operator_images, *self.csv.related_images}))
