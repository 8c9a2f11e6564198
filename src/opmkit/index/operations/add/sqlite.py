"""Adding bundles to an index (index semantics, sections 2 to 4, 7 and 8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.index.errors import AdditionRefused, CatalogError, GraphError, combined
from opmkit.index.graph import pruned_members, replaces_graph, semver_graph, substituted_edges
from opmkit.index.modes import UpdateMode
from opmkit.index.operations.add.session import AddedBundle, AddPlan, Arrivals
from opmkit.index.operations.add.sqlite_checks import refusals
from opmkit.index.sqlite.bundles import drop_old_manifests, insert_apis
from opmkit.index.sqlite.packages import (
    all_nodes,
    default_channel,
    deprecated_bundles,
    nodes,
    package_members,
    placed_bundles,
    replace_channels,
    replace_package,
    set_edges,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from opmkit.bundle.model import Bundle
    from opmkit.index.graph import Member, PackageGraph
    from opmkit.index.sqlite import IndexDatabase

__all__ = ["AddResult", "AddedBundle", "UpdateMode", "add_bundles"]


@dataclass(frozen=True, slots=True)
class AddResult:
    """What an add did: the bundles stored, in their fixed order. ``failures`` can be there in permissive mode only."""

    added: tuple[AddedBundle, ...]
    failures: tuple[CatalogError, ...] = ()


def add_bundles(
    database: IndexDatabase,
    bundles: Iterable[Bundle],
    mode: str = UpdateMode.REPLACES,
    *,
    permissive: bool = False,
    overwrite_latest: bool = False,
    enable_alpha: bool = False,
) -> AddResult:
    """Add bundles, consuming them one by one, and compute the update graphs of their packages anew.

    In the semver modes the bundles of the whole index that came from images keep their manifests only where they head
    a channel. ``overwrite_latest`` lets a bundle take the place of one of its name that nothing replaces (in replaces
    mode); ``enable_alpha`` lets bundles substitute others.

    All or nothing, unless ``permissive``: then a bundle that is in the index already, or that claims a name of another
    package, still keeps all of them out, and so does any error where a bundle is overwritten; but one that can't be
    stored, a graph that does not come out (the package keeps the one it had) and a bundle that the new graph prunes
    are left behind, and told as ``failures``.

    Raises:
        CatalogError: what went wrong, several errors in one where there are; see its ``exit_code``.
    """
    plan = AddPlan(UpdateMode.parse(mode), permissive, overwrite_latest, enable_alpha)
    try:
        with database.transaction():
            return _add(database, bundles, plan)
    except AdditionRefused as refusal:
        if not permissive:
            raise
        return AddResult((), refusal.errors)


def _add(database: IndexDatabase, bundles: Iterable[Bundle], plan: AddPlan) -> AddResult:
    arrivals = Arrivals(database, plan)
    for incoming in bundles:
        arrivals.put(incoming)
    if errors := refusals(arrivals):
        raise AdditionRefused(errors)
    added = sorted(arrivals.kept.values(), key=lambda bundle: bundle.order)
    members: dict[str, list[Member]] = {}
    for bundle in added:
        insert_apis(database, bundle.name, bundle.provided, bundle.required)
        members.setdefault(bundle.package, []).append(bundle.member)
    graphs, errors = _graphs(database, added, members, plan)
    failures = [*arrivals.failures, *errors]
    for graph in graphs:
        (replace_package if plan.mode is UpdateMode.REPLACES else replace_channels)(database, graph)
    if not failures:
        failures += (error for graph in graphs for error in pruned_members(graph, members[graph.name]))
    if failures and arrivals.overwritten:
        raise AdditionRefused(failures)
    if failures and not plan.permissive:
        raise combined(failures)
    if not failures and plan.mode is not UpdateMode.REPLACES:
        drop_old_manifests(database)
    return AddResult(tuple(added), tuple(failures))


def _graphs(
    database: IndexDatabase, added: Sequence[AddedBundle], members: Mapping[str, Sequence[Member]], plan: AddPlan
) -> tuple[list[PackageGraph], list[CatalogError]]:
    """The new graphs of the packages, and the errors of those that do not come out."""
    graphs: list[PackageGraph] = []
    errors: list[CatalogError] = []
    try:
        if plan.enable_alpha:
            _substitute(database, added)
    except GraphError as error:
        return [], [error]
    for package in sorted(members):
        try:
            graphs.append(_graph(database, package, members[package], plan.mode))
        except CatalogError as error:
            errors.append(error)
    return graphs, errors


def _substitute(database: IndexDatabase, added: Sequence[AddedBundle]) -> None:
    new = {bundle.name for bundle in added}
    present = {name: node for name, node in all_nodes(database).items() if name not in new}
    set_edges(database, substituted_edges(present, [bundle.node for bundle in added]).values())


def _graph(database: IndexDatabase, package: str, added: Sequence[Member], mode: UpdateMode) -> PackageGraph:
    if mode is UpdateMode.REPLACES:
        members = [*package_members(database, package), *added]
        known = nodes(database, {member.name for member in members})
        return replaces_graph(package, members, known, deprecated_bundles(database))
    new = {member.name for member in added}
    channels = {
        channel: [bundle for bundle in bundles if bundle.name not in new]
        for channel, bundles in placed_bundles(database, package).items()
    }
    default = default_channel(database, package)
    return semver_graph(package, default, channels, added, skip_patch=mode is UpdateMode.SEMVER_SKIPPATCH)
