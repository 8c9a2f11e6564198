"""Store package manifests and their bundles in an index database."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ParamSpec

from opmkit.index.errors import BundleExists, CatalogError, GraphError, combine_errors
from opmkit.index.graph import Member, PackageGraph, replaces_graph
from opmkit.index.operations.package_manifest import missing_apis
from opmkit.index.sqlite.bundles import BundleKey, insert_apis, insert_bundle
from opmkit.index.sqlite.packages import deprecated_bundles, nodes, replace_package

if TYPE_CHECKING:
    from collections.abc import Callable

    from opmkit.bundle.model import Bundle
    from opmkit.index.graph import ChannelGraph
    from opmkit.index.operations.package_manifest import PackageManifest
    from opmkit.index.sqlite import IndexDatabase

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class InitializeResult:
    """The names of the stored bundles and packages, and the failures in permissive mode."""

    bundles: tuple[str, ...]
    packages: tuple[str, ...]
    failures: tuple[CatalogError, ...] = ()


@dataclass(frozen=True, slots=True)
class Loader:
    """Stores bundles without a package, then the packages whose channels refer to them.

    Parameters called ``where`` are source locations for error messages.
    """

    database: IndexDatabase
    bundles: list[str] = field(default_factory=list)
    packages: dict[str, None] = field(default_factory=dict)
    failures: list[CatalogError] = field(default_factory=list)

    def run(self, load_all: Callable[[], None], *, permissive: bool) -> InitializeResult:
        """Call ``load_all`` in a transaction; unless permissive, roll back and raise if there are failures."""
        with self.database.transaction():
            self.attempt(load_all)
            if self.failures and not permissive:
                raise combine_errors(self.failures)
        return InitializeResult(tuple(self.bundles), tuple(self.packages), tuple(self.failures))

    def attempt(self, load: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        """Call ``load`` and record a CatalogError that it raises as a failure."""
        try:
            load(*args, **kwargs)
        except CatalogError as error:
            self.failures.append(error)

    def store_bundle(self, bundle: Bundle, where: str) -> None:
        """Store a bundle.

        Raises:
            CatalogError: The bundle cannot be stored; or it is stored, but lacks CRDs that it owns.
        """
        if bundle.csv.substitutes_for:
            raise CatalogError(
                f"{where}: bundle {bundle.name} cannot be added: it substitutes {bundle.csv.substitutes_for}",
                hint="remove the annotation olm.substitutesFor, which is supported only in bundle images",
            )
        if nodes(self.database, [bundle.name]):
            raise BundleExists(
                f"{where}: bundle {bundle.name} already exists",
                hint="remove one of them",
            )
        insert_bundle(self.database, bundle)
        key = BundleKey.from_texts(bundle.name, bundle.csv.version, bundle.image)
        insert_apis(self.database, key, bundle.provided_apis, bundle.required_apis)
        self.bundles.append(bundle.name)
        if missing := missing_apis(bundle):
            raise CatalogError(
                f"{where}: missing CRDs owned by {bundle.name}: {', '.join(missing)}",
                hint="add the CRDs, or correct their group, version, kind and plural",
            )

    def store_package(self, package: PackageManifest, where: str) -> None:
        """Store a package; its bundles must be stored already.

        Raises:
            GraphError: The package has no default channel, or a channel has an invalid graph.
        """
        try:
            replace_package(self.database, _graph(self.database, package))
        except GraphError as error:
            raise GraphError(f"{where}: {error.message}", hint=error.hint) from error
        self.packages[package.name] = None


def _graph(database: IndexDatabase, package: PackageManifest) -> PackageGraph:
    """Build the update graph of a package from the heads of its channels."""
    deprecated = deprecated_bundles(database)
    heads = {channel: head for channel, head in package.heads if head not in deprecated}
    default = next(iter(heads)) if len(package.heads) == 1 and heads else package.default_channel
    if default not in heads:
        raise GraphError(
            f"no default channel specified for {package.name}: its channels are: {', '.join(heads) or 'none'}",
            hint="set defaultChannel to one of them",
        )
    known = nodes(database, set(heads.values()))
    channels: list[ChannelGraph] = []
    for channel, head in heads.items():
        if head not in known:
            raise GraphError(
                f"channel {channel} of package {package.name}: head {head} not found",
                hint="add the manifests of that version, or correct currentCSV",
            )
        # One channel at a time with the head as the only member: its version need not be valid then.
        member = Member(head, "", (channel,), channel)
        channels += replaces_graph(package.name, [member], known, deprecated).channels
    return PackageGraph(package.name, default, tuple(channels))
