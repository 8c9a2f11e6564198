"""Apply the same changes to an index database and a file-based catalog with the same content."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from opmkit.bundle import ManifestCache, parse_bundle
from opmkit.index.convert.database_blobs import database_to_blobs
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.blobs import BUNDLE_OBJECT, Blobs
from opmkit.index.fbc.compat import CatalogCompat
from opmkit.index.fbc.load import parse_blobs
from opmkit.index.modes import UpdateMode
from opmkit.index.operations.add.fbc import add_bundles
from opmkit.index.operations.add.fbc_checks import NewBundle
from opmkit.index.operations.add.options import AddOptions
from opmkit.index.operations.add.sqlite import add_bundles as add_to_database
from opmkit.index.operations.prune import (
    prune_catalog,
    prune_database,
    prune_stranded_in_catalog,
    prune_stranded_in_database,
)
from opmkit.index.operations.remove import remove_from_catalog, remove_from_database
from opmkit.index.operations.truncate.change import truncate_bundles as truncate_in_database
from opmkit.index.operations.truncate.fbc import truncate_bundles
from opmkit.index.sqlite import IndexDatabase, replace_database

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from opmkit.bundle import Bundle
    from opmkit.index.change import EditResult
    from opmkit.index.fbc.blobs import BundleBlob, ChannelBlob, EntryBlob
    from tests.reference.samples import Sample

_CACHE = ManifestCache()
COMPAT = CatalogCompat.OPM_1_26


def sample_bundle(sample: Sample) -> Bundle:
    """Return a sample as a bundle with a unique image."""
    image = f"registry.example.com/{sample.package}:{sample.version.replace('+', '_') or 'none'}-r{sample.revision}"
    return parse_bundle(sample.files(), image=image, cache=_CACHE)


@dataclass
class IndexPair:
    """An index database at ``path`` and a catalog with the same content."""

    path: Path
    blobs: Blobs = field(default_factory=Blobs)

    def apply(
        self, command: str, flags: Sequence[str], bundles: Sequence[Bundle] = (), packages: Sequence[str] = ()
    ) -> tuple[CatalogError | None, CatalogError | None]:
        """Run a command of ``opm registry`` on both and return the errors of the database and of the catalog."""
        if command == "add":
            plan = AddOptions(_mode(flags), False, "--overwrite-latest" in flags, "--enable-alpha" in flags)
            return self.change(
                lambda db: _add_to_database(db, bundles, plan), lambda blobs: _add_to_catalog(blobs, bundles, plan)
            )
        images = [bundle.image for bundle in bundles]
        removal = "--allow-package-removal" in flags
        changes: dict[str, tuple[Callable[[IndexDatabase], object], Callable[[Blobs], EditResult]]] = {
            "rm": (lambda db: remove_from_database(db, packages), lambda blobs: remove_from_catalog(blobs, packages)),
            "prune": (
                lambda db: prune_database(db, packages, permissive="--permissive" in flags),
                lambda blobs: prune_catalog(blobs, packages, permissive="--permissive" in flags),
            ),
            "prune-stranded": (prune_stranded_in_database, prune_stranded_in_catalog),
            "deprecatetruncate": (
                lambda db: _deprecate(db, images, allow_package_removal=removal),
                lambda blobs: truncate_bundles(blobs, images, allow_package_removal=removal, compat=COMPAT),
            ),
        }
        return self.change(*changes[command])

    def change(
        self, database: Callable[[IndexDatabase], object], catalog: Callable[[Blobs], EditResult]
    ) -> tuple[CatalogError | None, CatalogError | None]:
        """Change both and return the errors of the database and of the catalog."""
        return self._change_database(database), self._change_catalog(catalog)

    def _change_database(self, change: Callable[[IndexDatabase], object]) -> CatalogError | None:
        try:
            with replace_database(self.path, durable=False) as database:
                change(database)
        except CatalogError as error:
            return error
        return None

    def _change_catalog(self, change: Callable[[Blobs], EditResult]) -> CatalogError | None:
        try:
            self.blobs = change(self.blobs).blobs
        except CatalogError as error:
            return error
        return None

    def converted(self) -> Blobs:
        """Return the database as a catalog; raise InvalidCatalog if it cannot be converted."""
        with replace_database(self.path, durable=False) as database:
            return database_to_blobs(database)


def _deprecate(database: IndexDatabase, images: Sequence[str], *, allow_package_removal: bool) -> None:
    """Deprecate and remove bundles without a channel, which the next add could otherwise bring back."""
    truncate_in_database(database, images, allow_package_removal=allow_package_removal)
    prune_stranded_in_database(database)


def _add_to_database(database: IndexDatabase, bundles: Sequence[Bundle], plan: AddOptions) -> None:
    add_to_database(database, bundles, plan)


def _add_to_catalog(blobs: Blobs, bundles: Sequence[Bundle], plan: AddOptions) -> EditResult:
    return add_bundles(blobs, [NewBundle.from_bundle(bundle) for bundle in bundles], plan, compat=COMPAT)


def _mode(flags: Sequence[str]) -> UpdateMode:
    return next((mode for mode in UpdateMode if mode.value in flags), UpdateMode.REPLACES)


def normalize(blobs: Blobs, *, objects: bool = True, absent: bool = True) -> dict[str, Any]:
    """Return the parts of a catalog that must equal those of a converted database.

    A conversion omits deprecated bundles, constraints, and descriptions of packages. In a database only the entries on
    the replaces chain of the head have edges. Without ``absent``, edges to bundles outside the channel are omitted.
    """
    deprecated = {
        bundle.name for bundle in blobs.bundles if any(True for _ in bundle.property_values("olm.deprecated"))
    }
    return {
        "packages": {package.name: (package.default_channel, package.icon) for package in blobs.packages},
        "channels": {
            (channel.package, channel.name): _entries(channel, deprecated, absent=absent) for channel in blobs.channels
        },
        "bundles": {
            (bundle.package, bundle.name): _content(bundle, objects=objects)
            for bundle in blobs.bundles
            if bundle.name not in deprecated
        },
    }


def _content(bundle: BundleBlob, *, objects: bool) -> tuple[str, set[str], set[str]]:
    properties = {
        f"{prop.type} {json.dumps(prop.value, sort_keys=True)}"
        for prop in bundle.properties
        if prop.type != "olm.constraint" and (objects or prop.type != BUNDLE_OBJECT)
    }
    return bundle.image, properties, {related.image for related in bundle.related_images}


def _entries(channel: ChannelBlob, deprecated: set[str], *, absent: bool) -> dict[str, tuple[str, set[str], str]]:
    by_name = {entry.name: entry for entry in channel.entries}
    updated = {below for entry in channel.entries for below in (entry.replaces, *entry.skips)}
    chain = [name for name in by_name if name not in updated][:1]
    while chain and chain[-1] in by_name and by_name[chain[-1]].replaces not in {"", *chain}:
        chain.append(by_name[chain[-1]].replaces)
    entries: dict[str, tuple[str, set[str], str]] = {}
    for name, entry in by_name.items():
        there = by_name.keys() - deprecated
        skips = {skip for skip in entry.skips if absent or skip in there} if name in chain else set[str]()
        if name not in deprecated:
            entries[name] = (entry.replaces if name in chain else "", skips, entry.skip_range)
    return entries


def catalog(packages: Mapping[str, Mapping[str, Sequence[str]]], *documents: Mapping[str, object]) -> Blobs:
    """Return a catalog of channels by package, whose entries are written ``NAME > REPLACES, SKIP, ... < SKIPRANGE``.

    All parts but the name are optional, and ``REPLACES`` may be empty. The first channel is the default one; entries of
    the channel ``""`` are bundles without a channel. Other documents are added unchanged.
    """
    blobs: list[Mapping[str, object]] = []
    for package, channels in packages.items():
        entries = {name: [_entry(text) for text in texts] for name, texts in channels.items()}
        if any(entries):
            blobs.append({"schema": "olm.package", "name": package, "defaultChannel": next(iter(channels))})
        blobs += [
            {"schema": "olm.channel", "name": name, "package": package, "entries": listed}
            for name, listed in entries.items()
            if name
        ]
        names = dict.fromkeys(str(entry["name"]) for listed in entries.values() for entry in listed)
        blobs += [_bundle(package, name) for name in names]
    text = "\n".join(json.dumps(document) for document in [*blobs, *documents])
    return parse_blobs(text.encode(), "catalog.json") if text else Blobs()


def _entry(text: str) -> dict[str, object]:
    edges, _, skip_range = text.partition(" < ")
    name, _, targets = edges.partition(" > ")
    replaces, *skips = targets.split(", ")
    entry = {"name": name, "replaces": replaces, "skips": skips, "skipRange": skip_range}
    return {key: value for key, value in entry.items() if value}


def _bundle(package: str, name: str) -> Mapping[str, object]:
    version = name.partition(".v")[2]
    return {
        "schema": "olm.bundle",
        "name": name,
        "package": package,
        "image": f"registry.example.com/{package}:{version}",
        "properties": [{"type": "olm.package", "value": {"packageName": package, "version": version}}],
    }


def shown(blobs: Blobs, package: str) -> dict[str, list[str]]:
    """Return the channels of a package in the notation of `catalog`."""
    return {
        channel.name: [_entry_text(entry) for entry in channel.entries]
        for channel in blobs.channels
        if channel.package == package
    }


def _entry_text(entry: EntryBlob) -> str:
    edges = ", ".join([entry.replaces, *entry.skips])
    return entry.name + (f" > {edges}" if edges else "") + (f" < {entry.skip_range}" if entry.skip_range else "")
