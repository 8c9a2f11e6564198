"""A database from directories of manifests, as they were before bundle images (index semantics, section 11)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ParamSpec

from opmkit.bundle.manifest import ManifestCache
from opmkit.index.errors import BundleExists, CatalogError, GraphError, combined
from opmkit.index.graph import Member, PackageGraph, replaces_graph
from opmkit.index.packagemanifest import missing_apis, read_bundle, read_package, walk
from opmkit.index.sqlite.bundles import insert_apis, insert_bundle
from opmkit.index.sqlite.packages import deprecated_bundles, nodes, replace_package

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from opmkit.bundle.model import Bundle
    from opmkit.index.graph import ChannelGraph
    from opmkit.index.packagemanifest import PackageManifest
    from opmkit.index.sqlite import IndexDatabase

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Initialization:
    """The bundles and packages that were stored, by name. ``failures`` can be there in permissive mode only."""

    bundles: tuple[str, ...]
    packages: tuple[str, ...]
    failures: tuple[CatalogError, ...] = ()


def initialize(database: IndexDatabase, directory: Path, *, permissive: bool = False) -> Initialization:
    """Store every bundle below a directory, then every package that a file there describes.

    A bundle is a ClusterServiceVersion with the other objects in its own directory; it belongs to no package before
    the channel of one leads to it. Of two files for one package, the later by path counts.

    All or nothing, unless ``permissive``: then a bundle or package that can't be stored is told as one of the
    ``failures``; a bundle that lacks CRDs that it owns is told, and stored all the same.

    Raises:
        CatalogError: what went wrong, several errors in one where there are.
    """
    if not directory.is_dir():
        missing = CatalogError(f"{directory} is no directory", advice="Give the directory that holds the manifests.")
        if not permissive:
            raise missing
        return Initialization((), (), (missing,))
    loader = Loader(database)
    cache = ManifestCache()

    def load_bundle(path: Path) -> None:
        if bundle := read_bundle(path, cache):
            loader.store_bundle(bundle, str(path))

    def load_package(path: Path) -> None:
        if package := read_package(path):
            loader.store_package(package, str(path))

    def load_all() -> None:
        for load in (load_bundle, load_package):
            for path in walk(directory):
                loader.attempt(load, path)

    return loader.run(load_all, permissive=permissive)


@dataclass(frozen=True, slots=True)
class Loader:
    """Stores bundles that belong to no package yet, then packages, wherever they are read from.

    ``where`` is the place of each, for the messages of errors.
    """

    database: IndexDatabase
    bundles: list[str] = field(default_factory=list)
    packages: dict[str, None] = field(default_factory=dict)
    failures: list[CatalogError] = field(default_factory=list)

    def run(self, load_all: Callable[[], None], *, permissive: bool) -> Initialization:
        """Load, in one transaction; without ``permissive`` any failure undoes it, and is raised."""
        with self.database.transaction():
            self.attempt(load_all)
            if self.failures and not permissive:
                raise combined(self.failures)
        return Initialization(tuple(self.bundles), tuple(self.packages), tuple(self.failures))

    def attempt(self, load: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        """Load something, and keep the CatalogError that it may raise."""
        try:
            load(*args, **kwargs)
        except CatalogError as error:
            self.failures.append(error)

    def store_bundle(self, bundle: Bundle, where: str) -> None:
        """Store a bundle. One that lacks CRDs that it owns is an error, too, but stored."""
        if bundle.csv.substitutes_for:
            raise CatalogError(
                f"{where}: bundle {bundle.name} can't be added: it substitutes {bundle.csv.substitutes_for}",
                advice="Remove the annotation olm.substitutesFor: only bundle images can have that.",
            )
        if nodes(self.database, [bundle.name]):
            raise BundleExists(
                f"{where}: bundle {bundle.name} can't be added: there is another of that name",
                advice="Keep one of them.",
            )
        insert_bundle(self.database, bundle)
        insert_apis(self.database, bundle.name, bundle.provided_apis, bundle.required_apis)
        self.bundles.append(bundle.name)
        if missing := missing_apis(bundle):
            raise CatalogError(
                f"{where}: no CRD beside it for {', '.join(missing)}, which {bundle.name} owns",
                advice="Add the CRD, or correct group, version, kind and plural where they differ.",
            )

    def store_package(self, package: PackageManifest, where: str) -> None:
        """Store a package whose bundles are there."""
        try:
            replace_package(self.database, _graph(self.database, package))
        except GraphError as error:
            raise GraphError(f"{where}: {error.message}", advice=error.advice) from error
        self.packages[package.name] = None


def _graph(database: IndexDatabase, package: PackageManifest) -> PackageGraph:
    """The update graph of a package whose heads are given."""
    deprecated = deprecated_bundles(database)
    heads = {channel: head for channel, head in package.heads if head not in deprecated}
    default = next(iter(heads)) if len(package.heads) == 1 and heads else package.default_channel
    if default not in heads:
        raise GraphError(
            f"no default channel specified for {package.name}: its channels are: {', '.join(heads) or 'none'}",
            advice="Name one of them as defaultChannel.",
        )
    known = nodes(database, set(heads.values()))
    channels: list[ChannelGraph] = []
    for channel, head in heads.items():
        if head not in known:
            raise GraphError(
                f"channel {channel} of package {package.name} has the head {head}, which is not there",
                advice="Add the manifests of that version, or correct currentCSV.",
            )
        # Each channel for itself: as the only bundle considered, its head needs no version that can be compared.
        alone = Member(head, "", (channel,), channel)
        channels += replaces_graph(package.name, [alone], known, deprecated).channels
    return PackageGraph(package.name, default, tuple(channels))
