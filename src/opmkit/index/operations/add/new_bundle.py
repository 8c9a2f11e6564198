"""A bundle to add to a file-based catalog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson

from opmkit.documents import fields
from opmkit.index.convert.database_blobs import decode_icon
from opmkit.index.errors import GraphError
from opmkit.index.fbc.blobs import BundleBlob, EntryBlob, Icon
from opmkit.index.fbc.check.bundle import version_and_release
from opmkit.index.fbc.from_bundle import bundle_to_blob
from opmkit.index.fbc.migrate import MigrationLevel, migrate_bundle
from opmkit.index.graph import precedence

if TYPE_CHECKING:
    from opmkit.bundle.model import Bundle


@dataclass(frozen=True, slots=True)
class NewBundle:
    """The blob of a bundle, its channels and edges, and the metadata that a new package takes from it.

    ``version`` is that of the ClusterServiceVersion. Absent texts are empty.
    """

    blob: BundleBlob
    channels: tuple[str, ...]
    default_channel: str = ""
    version: str = ""
    replaces: str = ""
    skips: tuple[str, ...] = ()
    skip_range: str = ""
    substitutes_for: str = ""
    icon: Icon | None = None
    description: str = ""

    @classmethod
    def from_bundle(cls, bundle: Bundle, level: MigrationLevel = MigrationLevel.NONE) -> NewBundle:
        """Convert a bundle, its blob to a migration level.

        Raises:
            InvalidBundle: See :func:`opmkit.index.fbc.from_bundle.bundle_to_blob`.
            InvalidCatalog: See :func:`opmkit.index.fbc.migrate.migrate_bundle`.
        """
        blob = bundle_to_blob(bundle)
        spec = fields.mapping(orjson.loads(bundle.csv.json)["spec"], "spec")
        csv, annotations = bundle.csv, bundle.annotations
        return cls(
            blob if level is MigrationLevel.NONE else migrate_bundle(blob),
            tuple(dict.fromkeys(annotations.channels)),
            annotations.default_channel,
            csv.version,
            csv.replaces,
            tuple(dict.fromkeys(filter(None, csv.skips))),
            csv.skip_range,
            csv.substitutes_for,
            decode_icon(spec.get("icon")),
            fields.text(spec.get("description"), "spec.description"),
        )

    @property
    def name(self) -> str:
        """The name of the ClusterServiceVersion."""
        return self.blob.name

    @property
    def package(self) -> str:
        """The name of its package."""
        return self.blob.package

    @property
    def image(self) -> str:
        """The image of the bundle, or "" if it has none."""
        return self.blob.image

    @property
    def label(self) -> str:
        """The bundle with its image, for error messages."""
        return f"bundle {self.name}{f' of {self.image}' if self.image else ''}"

    @property
    def entry(self) -> EntryBlob:
        """Its channel entry."""
        return EntryBlob(self.name, self.replaces, self.skips, self.skip_range)

    @property
    def order(self) -> tuple[object, ...]:
        """Sort key: version, release, name and image; bundles with an invalid version come last."""
        release = version_and_release(self.blob)[1]
        try:
            rank = precedence(f"0.0.0-{release}")[3][1] if release else ()
            return (0, precedence(self.version), rank, self.name, self.image)
        except GraphError:
            return (1, self.version, release, self.name, self.image)
