"""What changes of catalogs are made from, and what they come to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import orjson

from opmkit.bundle import fields
from opmkit.index.errors import GraphError
from opmkit.index.fbc.blobs import Blobs, BundleBlob, EntryBlob, Icon
from opmkit.index.fbc.check.bundle import version_and_release
from opmkit.index.fbc.from_bundle import bundle_to_blob
from opmkit.index.fbc.migrate import MigrationLevel, migrate_bundle
from opmkit.index.graph import precedence
from opmkit.index.rendering.database_blobs import icon_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.bundle.model import Bundle
    from opmkit.imagetools.errors import AdvisedError


class Account(Protocol):
    """What there is to be said of a change beside the difference that it makes."""

    def lines(self) -> Iterator[str]:
        """The account in text."""
        ...

    def report(self) -> dict[str, Any]:
        """The account in plain JSON types."""
        ...


@dataclass(frozen=True, slots=True)
class Edit:
    """A catalog after a change, and what the change has to say.

    What was not touched is the same objects as before. ``skipped`` are bundle images that the catalog had already,
    ``failures`` what a permissive change passed over, ``account`` tells more of it than a difference does.
    """

    blobs: Blobs
    warnings: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    failures: tuple[AdvisedError, ...] = ()
    account: Account | None = None


@dataclass(frozen=True, slots=True)
class Placement:
    """Where bundles are put; None is for what each of them says of itself.

    An empty text or tuple is a statement, too: ``replaces=""`` lets a bundle replace nothing, whatever it says.
    """

    channels: tuple[str, ...] | None = None
    replaces: str | None = None
    skips: tuple[str, ...] | None = None
    skip_range: str | None = None
    default_channel: str | None = None


@dataclass(frozen=True, slots=True)
class Arrival:
    """A bundle that is to be added: its blob, where it says that it belongs, and what a new package would have of it.

    ``version`` is that of the ClusterServiceVersion, "" for none; so are the other texts.
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
    def of(cls, bundle: Bundle, level: MigrationLevel = MigrationLevel.NONE) -> Arrival:
        """What a catalog needs of a bundle, its blob at a level of migration.

        Raises:
            InvalidBundle: see :func:`opmkit.index.fbc.from_bundle.bundle_to_blob`.
            InvalidCatalog: see :func:`opmkit.index.fbc.migrate.migrate_bundle`.
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
            icon_of(spec.get("icon")),
            fields.text(spec.get("description"), "spec.description"),
        )

    @property
    def name(self) -> str:
        """The name of its ClusterServiceVersion."""
        return self.blob.name

    @property
    def package(self) -> str:
        """The package that it belongs to."""
        return self.blob.package

    @property
    def image(self) -> str:
        """The image that it came from, "" for none."""
        return self.blob.image

    @property
    def described(self) -> str:
        """The bundle with its image, where it has one, for errors."""
        return f"bundle {self.name}{f' of {self.image}' if self.image else ''}"

    @property
    def entry(self) -> EntryBlob:
        """Its entry in a channel, by what it says of itself."""
        return EntryBlob(self.name, self.replaces, self.skips, self.skip_range)

    @property
    def order(self) -> tuple[object, ...]:
        """The fixed order in which bundles are added: by version, release, name and image; those without order last."""
        release = version_and_release(self.blob)[1]
        try:
            rank = precedence(f"0.0.0-{release}")[3][1] if release else ()
            return (0, precedence(self.version), rank, self.name, self.image)
        except GraphError:
            return (1, self.version, release, self.name, self.image)
