"""Add bundles to an index database and rebuild the update graphs of their packages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.index.errors import AddRejected, CatalogError, GraphError, combine_errors
from opmkit.index.graph import pruned_member_errors, replaces_graph, semver_graph, substituted_edges
from opmkit.index.modes import UpdateMode
from opmkit.index.operations.add.options import AddOptions
from opmkit.index.operations.add.session import AddSession
from opmkit.index.operations.add.sqlite_checks import find_conflicts
from opmkit.index.sqlite.bundles import BundleKey, delete_superseded_manifests, insert_apis
from opmkit.index.sqlite.packages import (
    all_nodes,
    channel_nodes,
    default_channel,
    deprecated_bundles,
    nodes,
    package_members,
    replace_channels,
    replace_package,
    update_edges,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from opmkit.bundle.model import Bundle
    from opmkit.index.graph import Member, PackageGraph
    from opmkit.index.operations.add.session import StagedBundle
    from opmkit.index.sqlite import IndexDatabase


@dataclass(frozen=True, slots=True)
class AddResult:
    """The stored bundles, in sort order, and the failures in permissive mode."""

    added: tuple[StagedBundle, ...]
    failures: tuple[CatalogError, ...] = ()


def add_bundles(
    database: IndexDatabase,
    bundles: Iterable[Bundle],
    options: AddOptions | None = None,
) -> AddResult:
    """Add bundles, consuming them one by one, and rebuild the update graphs of their packages.

    In the semver modes, delete the manifests of every bundle of the index that has an image and heads no channel.

    Atomic unless permissive. A permissive add still adds nothing if a bundle exists already or claims a name of another
    package, or on any error while overwriting a bundle. It returns as failures the bundles that cannot be stored, the
    graphs that are invalid (the package retains its old graph), and the bundles that the new graph prunes.

    Raises:
        CatalogError: one or more errors; see ``exit_code``.
    """
    options = options or AddOptions()
    try:
        with database.transaction():
            return _add(database, bundles, options)
    except AddRejected as error:
        if not options.permissive:
            raise
        return AddResult((), error.errors)


def _add(database: IndexDatabase, bundles: Iterable[Bundle], options: AddOptions) -> AddResult:
    session = AddSession(database, options)
    for new in bundles:
        session.add(new)
    if errors := find_conflicts(session):
        raise AddRejected(errors)
    added = sorted(session.stored.values(), key=lambda bundle: bundle.order)
    members: dict[str, list[Member]] = {}
    for bundle in added:
        key = BundleKey.from_texts(bundle.name, bundle.node.version, bundle.image)
        insert_apis(database, key, bundle.provided, bundle.required)
        members.setdefault(bundle.package, []).append(bundle.member)
    graphs, errors = _graphs(database, added, members, options)
    failures = [*session.failures, *errors]
    for graph in graphs:
        (replace_package if options.mode is UpdateMode.REPLACES else replace_channels)(database, graph)
    if not failures:
        failures += (error for graph in graphs for error in pruned_member_errors(graph, members[graph.name]))
    if failures and session.overwritten:
        raise AddRejected(failures)
    if failures and not options.permissive:
        raise combine_errors(failures)
    if not failures and options.mode is not UpdateMode.REPLACES:
        delete_superseded_manifests(database)
    return AddResult(tuple(added), tuple(failures))


def _graphs(
    database: IndexDatabase, added: Sequence[StagedBundle], members: Mapping[str, Sequence[Member]], options: AddOptions
) -> tuple[list[PackageGraph], list[CatalogError]]:
    """Return the new graphs of the packages, and the errors of invalid ones."""
    graphs: list[PackageGraph] = []
    errors: list[CatalogError] = []
    try:
        if options.enable_alpha:
            _substitute(database, added)
    except GraphError as error:
        return [], [error]
    for package in sorted(members):
        try:
            graphs.append(_graph(database, package, members[package], options.mode))
        except CatalogError as error:
            errors.append(error)
    return graphs, errors


def _substitute(database: IndexDatabase, added: Sequence[StagedBundle]) -> None:
    new = {bundle.name for bundle in added}
    present = {name: node for name, node in all_nodes(database).items() if name not in new}
    update_edges(database, substituted_edges(present, [bundle.node for bundle in added]).values())


def _graph(database: IndexDatabase, package: str, added: Sequence[Member], mode: UpdateMode) -> PackageGraph:
    if mode is UpdateMode.REPLACES:
        members = [*package_members(database, package), *added]
        known = nodes(database, {member.name for member in members})
        return replaces_graph(package, members, known, deprecated_bundles(database))
    new = {member.name for member in added}
    channels = {
        channel: [bundle for bundle in bundles if bundle.name not in new]
        for channel, bundles in channel_nodes(database, package).items()
    }
    default = default_channel(database, package)
    return semver_graph(package, default, channels, added, skip_patch=mode is UpdateMode.SEMVER_SKIPPATCH)
