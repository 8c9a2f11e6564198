"""Add bundles to an index database: stage them, find conflicts, and rebuild the graphs of their packages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.core.hints import Hint
from opmkit.index.errors import (
    AddRejected,
    BundleExists,
    BundleImageExists,
    BundleVersionExists,
    CatalogError,
    GraphError,
    combine_errors,
)
from opmkit.index.graph import (
    Member,
    Node,
    check_name_owners,
    claim_names,
    precedence,
    pruned_member_errors,
    replaces_graph,
    semver_graph,
    substituted_edges,
)
from opmkit.index.hint_terms import IndexOperation
from opmkit.index.modes import UpdateMode
from opmkit.index.operations.add.errors import PRESENT_HINT, missing_package_error, substitutes_error
from opmkit.index.operations.add.options import AddOptions
from opmkit.index.sqlite.bundles import (
    BundleKey,
    bundle_image,
    delete_bundle,
    delete_superseded_manifests,
    insert_apis,
    insert_bundle,
)
from opmkit.index.sqlite.packages import (
    all_nodes,
    bundles_replacing,
    channel_nodes,
    default_channel,
    delete_head,
    deprecated_bundles,
    indexed_package,
    name_owners,
    nodes,
    package_members,
    replace_channels,
    replace_package,
    update_edges,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opmkit.bundle.model import ApiKey, Bundle
    from opmkit.index.graph import PackageGraph
    from opmkit.index.sqlite import IndexDatabase
    from opmkit.index.sqlite.packages import IndexedPackage


class AddResult(Struct, frozen=True):
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
        CatalogError: One or more errors; see ``exit_code``.
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


def find_conflicts(session: AddSession) -> list[CatalogError]:
    """Return the errors that prevent the whole add.

    As in operator-registry, a package with a bundle that has no image ends all these checks, and a bundle is reported
    as existing if its package has any of the added images.
    """
    errors = _without_image(session)
    if errors or any("" in package.images for package in session.packages.values()):
        return errors
    received = sorted(session.received.values(), key=lambda bundle: bundle.order)
    images = {bundle.image for bundle in received}
    for bundle in received:
        present = images & session.packages[bundle.package].images
        if present:
            errors.append(_image_exists(bundle, sorted(present)))
        if bundle.name in session.packages[bundle.package].names:
            errors += _name_exists(session, bundle)
    errors += _overwritten_together(session, received)
    try:
        claims = claim_names((bundle.package, bundle.node) for bundle in received)
        check_name_owners(claims, name_owners(session.database, claims))
    except GraphError as error:
        errors.append(error)
    return errors


def _without_image(session: AddSession) -> list[CatalogError]:
    return [
        CatalogError(
            f"bundle {name}: cannot be overwritten: the existing bundle has no image",
            hint="remove its package and add all of its bundles from images",
        )
        for name, overwritten in sorted(session.overwritten.items())
        if not overwritten.image
    ]


def _name_exists(session: AddSession, bundle: StagedBundle) -> Iterator[CatalogError]:
    if not session.overwritten:
        yield BundleVersionExists(
            f"bundle {bundle.name} already exists in package {bundle.package}",
            hint="give the new bundle's ClusterServiceVersion its own name and version",
        )
    elif bundle.name in session.overwritten and session.overwritten[bundle.name].updated_by:
        updated_by = session.overwritten[bundle.name].updated_by
        edges = ", ".join(f"{above} in channel {channel}" for channel, above in updated_by)
        yield GraphError(
            f"bundle {bundle.name} of package {bundle.package}: cannot be overwritten: replaced or skipped by {edges}",
            hint="add the change as a new version: only a bundle that nothing replaces or skips can be overwritten",
        )


def _overwritten_together(session: AddSession, received: Sequence[StagedBundle]) -> Iterator[CatalogError]:
    names: dict[str, set[str]] = {}
    for bundle in received:
        overwritten = session.overwritten.get(bundle.name)
        if overwritten and not overwritten.updated_by and bundle.name in session.packages[bundle.package].names:
            names.setdefault(bundle.package, set()).add(bundle.name)
    for package, together in sorted(names.items()):
        if len(together) > 1:
            yield GraphError(
                f"package {package}: several bundles would be overwritten: {', '.join(sorted(together))}",
                hint="overwrite one bundle of a package at a time",
            )


def _image_exists(bundle: StagedBundle, present: Sequence[str]) -> BundleImageExists:
    if bundle.image in present:
        return BundleImageExists(f"bundle {bundle.image} already exists in the index", hint=PRESENT_HINT)
    return BundleImageExists(
        f"bundle {bundle.image}: not added: {', '.join(present)} of the same command already exists in package "
        f"{bundle.package}",
        hint=PRESENT_HINT,
    )


class StagedBundle(Struct, frozen=True):
    """The data of a stored bundle that decides the graph, without its manifests."""

    package: str
    image: str
    member: Member
    node: Node
    provided: tuple[ApiKey, ...]
    required: tuple[ApiKey, ...]

    @classmethod
    def from_bundle(cls, bundle: Bundle) -> StagedBundle:
        """Extract the data from ``bundle``."""
        csv, annotations = bundle.csv, bundle.annotations
        return cls(
            bundle.package,
            bundle.image,
            Member(csv.name, csv.version, annotations.channels, annotations.default_channel),
            Node(csv.name, csv.version, csv.replaces, csv.skips, csv.substitutes_for),
            bundle.provided_apis,
            bundle.required_apis,
        )

    @property
    def name(self) -> str:
        """The name of the ClusterServiceVersion."""
        return self.node.name

    @property
    def label(self) -> str:
        """The bundle with its image, for error messages."""
        return f"bundle {self.name}{f' of {self.image}' if self.image else ''}"

    @property
    def order(self) -> tuple[object, ...]:
        """Sort key: version, name and image; bundles with an invalid version come last."""
        try:
            return (0, precedence(self.node.version), self.name, self.image)
        except GraphError:
            return (1, self.node.version, self.name, self.image)


class OverwrittenBundle(Struct, frozen=True):
    """A bundle of the index that an added bundle of the same name replaces.

    ``image`` is "" if it has none. ``updated_by`` lists the (channel, bundle) pairs that replace or skip it.
    """

    image: str
    updated_by: tuple[tuple[str, str], ...]


class AddSession(Struct, frozen=True):
    """The bundles of one ``add``.

    - ``packages``: the state of their packages before the add, by name.
    - ``received``: all bundles, by image.
    - ``stored``: the inserted bundles, by name.
    - ``overwritten``: the bundles that they overwrite, by name.
    """

    database: IndexDatabase
    options: AddOptions
    packages: dict[str, IndexedPackage] = {}
    received: dict[str, StagedBundle] = {}
    stored: dict[str, StagedBundle] = {}
    overwritten: dict[str, OverwrittenBundle] = {}
    failures: list[CatalogError] = []

    def add(self, bundle: Bundle) -> None:
        """Insert a bundle, or append an error to ``failures``.

        Of two bundles with the same name the first in sort order is stored. A bundle without a package is rejected,
        since it would make the index unreadable.
        """
        new = StagedBundle.from_bundle(bundle)
        if not bundle.package:
            self.failures.append(missing_package_error(new.label))
            return
        if bundle.package not in self.packages:
            self.packages[bundle.package] = indexed_package(self.database, bundle.package)
        if self.received.setdefault(new.image or f"#{len(self.received)}", new) is not new:
            return
        if new.node.substitutes_for and not self.options.enable_alpha:
            self.failures.append(substitutes_error(new.label, new.node.substitutes_for))
            return
        if (same_name := self.stored.get(bundle.name)) is not None:
            first = min(same_name, new, key=lambda staged: staged.order)
            second = max(same_name, new, key=lambda staged: staged.order)
            self.failures.append(_name_taken(second, first.image or "another bundle of the same command"))
            if second is new:
                return
            delete_bundle(self.database, same_name.name)
        elif not self._free_name(new):
            self.failures.append(_name_taken(new, "a bundle of the index"))
            return
        insert_bundle(self.database, bundle)
        self.stored[bundle.name] = new

    def _free_name(self, new: StagedBundle) -> bool:
        """Remove an existing bundle of the same name if it may be overwritten; return whether the name is free."""
        image = bundle_image(self.database, new.name)
        if image is None:
            return True
        packages = {package for _, package in name_owners(self.database, [new.name])}
        if not self.options.overwrite_latest or packages - {new.package}:
            return False
        updated_by = tuple(bundles_replacing(self.database, new.package, new.name))
        self.overwritten[new.name] = OverwrittenBundle(image, updated_by)
        if self.options.mode is not UpdateMode.REPLACES:
            return False
        delete_head(self.database, new.package, new.name)
        return True


def _name_taken(bundle: StagedBundle, owner: str) -> BundleExists:
    return BundleExists(
        f"{bundle.label}: cannot be added: its name is used by {owner}",
        hint=Hint.any_of(
            "give its ClusterServiceVersion its own name",
            Hint("remove the other bundle with {} if it is in no channel", IndexOperation.PRUNE_STRANDED),
        ),
    )
