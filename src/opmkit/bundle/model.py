"""Data model of a bundle: one version of an operator."""

from __future__ import annotations

from msgspec import Struct


class ApiKey(Struct, frozen=True, order=True):
    """An API that a bundle provides or requires; for an API service, ``plural`` is the name of the service."""

    group: str
    version: str
    kind: str
    plural: str


class TypedValue(Struct, frozen=True, order=True):
    """A property or dependency; ``value`` is compact JSON as an index stores it, or "" if absent."""

    type: str
    value: str


class BundleAnnotations(Struct, frozen=True):
    """Package and channels of a bundle, from ``annotations.yaml``; "" if absent."""

    package: str
    channels: tuple[str, ...]
    default_channel: str


class ClusterServiceVersion(Struct, frozen=True):
    """Fields of a ClusterServiceVersion that an index stores; ``json`` is the whole object in compact JSON."""

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


class Bundle(Struct, frozen=True):
    """A parsed bundle.

    The tuples depend only on the content of the files. Except for ``dependencies``, they have no duplicates.

    Attributes:
        annotations: Package and channels.
        csv: The ClusterServiceVersion.
        objects: Compact JSON of each manifest, sorted by file name, without the trailing newline of an index.
        provided_apis: APIs of the CRDs and API services.
        required_apis: APIs that the ClusterServiceVersion requires.
        dependencies: Entries of the dependencies file, and the required APIs.
        properties: Entries of the properties file, and those derived from the manifests.
        image: Reference of the image, or "" for a directory.
        warnings: Ignored files and fields.
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
        """Name of the ClusterServiceVersion, which is the name of the bundle in catalogs."""
        return self.csv.name

    @property
    def version(self) -> str:
        """Version in the ClusterServiceVersion, or "" if absent."""
        return self.csv.version

    @property
    def package(self) -> str:
        """Package in the annotations."""
        return self.annotations.package

    @property
    def related_images(self) -> tuple[str, ...]:
        """All images that a cluster needs for the bundle, including its own, sorted."""
        bundle_image = (self.image,) if self.image else ()
        return tuple(sorted({*bundle_image, *self.csv.operator_images, *self.csv.related_images}))
