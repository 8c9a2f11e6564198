"""Adding bundles to an index (index semantics, sections 2 and 3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from opmkit.index.database.bundles import delete_bundle, has_bundle, insert_apis, insert_bundle
from opmkit.index.database.packages import (
    deprecated_bundles,
    indexed_package,
    nodes,
    owners,
    package_members,
    replace_package,
)
from opmkit.index.errors import (
    AdditionRefused,
    BundleExists,
    BundleImageExists,
    BundleVersionExists,
    CatalogError,
    GraphError,
    combined,
)
from opmkit.index.graph import (
    Member,
    Node,
    check_foreign_names,
    claimed_names,
    precedence,
    pruned_members,
    replaces_graph,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from opmkit.bundle.model import ApiKey, Bundle
    from opmkit.index.database import IndexDatabase
    from opmkit.index.database.packages import IndexedPackage
    from opmkit.index.graph import PackageGraph


class UpdateMode(StrEnum):
    """How the update graph of a package comes about when a bundle is added."""

    REPLACES = "replaces"
    SEMVER = "semver"
    SEMVER_SKIPPATCH = "semver-skippatch"

    @classmethod
    def parse(cls, text: str) -> UpdateMode:
        """The mode of this name, whatever the case of its letters.

        Raises:
            CatalogError: there is no such mode.
        """
        try:
            return cls(text.lower())
        except ValueError:
            raise CatalogError(
                f"there is no update mode {text!r}", advice=f"The modes are: {', '.join(cls)}."
            ) from None


@dataclass(frozen=True, slots=True)
class AddedBundle:
    """What is kept of a bundle once its manifests are stored: all that decides about the graph."""

    package: str
    image: str
    member: Member
    node: Node
    provided: tuple[ApiKey, ...]
    required: tuple[ApiKey, ...]

    @property
    def name(self) -> str:
        """The name in the ClusterServiceVersion."""
        return self.node.name

    @property
    def order(self) -> tuple[object, ...]:
        """The fixed order in which added bundles count: by version, name and image; versions out of order come last."""
        try:
            return (0, precedence(self.node.version), self.name, self.image)
        except GraphError:
            return (1, self.node.version, self.name, self.image)


@dataclass(frozen=True, slots=True)
class AddResult:
    """What an add did: the bundles stored, in their fixed order. ``failures`` can be there in permissive mode only."""

    added: tuple[AddedBundle, ...]
    failures: tuple[CatalogError, ...] = ()


def add_bundles(
    database: IndexDatabase, bundles: Iterable[Bundle], mode: str = UpdateMode.REPLACES, *, permissive: bool = False
) -> AddResult:
    """Add bundles, consuming them one by one, and compute the update graphs of their packages anew.

    All or nothing, unless ``permissive``: then a bundle that is in the index already, or that claims a name of another
    package, still keeps all of them out; but one that can't be stored, a graph that does not come out (the package
    keeps the one it had) and a bundle that the new graph prunes are left behind, and told as ``failures``.

    Raises:
        CatalogError: what went wrong, several errors in one where there are; see its ``exit_code``.
    """
    if UpdateMode.parse(mode) is not UpdateMode.REPLACES:
        raise CatalogError(f"the update mode {mode} is not supported", advice="Use the mode replaces.")
    try:
        with database.transaction():
            result = _add(database, bundles)
            if result.failures and not permissive:
                raise combined(result.failures)
    except AdditionRefused as refusal:
        if not permissive:
            raise
        return AddResult((), refusal.errors)
    return result


def _add(database: IndexDatabase, bundles: Iterable[Bundle]) -> AddResult:
    store = _Store(database)
    for incoming in bundles:
        store.put(incoming)
    if refusals := _refusals(database, store):
        raise AdditionRefused(refusals)
    added = sorted(store.kept.values(), key=lambda bundle: bundle.order)
    members: dict[str, list[Member]] = {}
    for bundle in added:
        insert_apis(database, bundle.name, bundle.provided, bundle.required)
        members.setdefault(bundle.package, []).append(bundle.member)
    failures: list[CatalogError] = list(store.failures)
    graphs: list[PackageGraph] = []
    for package in sorted(members):
        try:
            graphs.append(_graph(database, package, members[package]))
        except CatalogError as error:
            failures.append(error)
    for graph in graphs:
        replace_package(database, graph)
    if not failures:
        failures += (error for graph in graphs for error in pruned_members(graph, members[graph.name]))
    return AddResult(tuple(added), tuple(failures))


def _graph(database: IndexDatabase, package: str, added: Sequence[Member]) -> PackageGraph:
    members = [*package_members(database, package), *added]
    known = nodes(database, {member.name for member in members})
    return replaces_graph(package, members, known, deprecated_bundles(database))


@dataclass(frozen=True, slots=True)
class _Store:
    """Stores bundles as they come, and remembers what the checks and the graphs need to know of them.

    ``before`` is what the index had of their packages; ``arrived`` all that came, each image once; ``kept`` those
    stored, by name.
    """

    database: IndexDatabase
    before: dict[str, IndexedPackage] = field(default_factory=dict)
    arrived: dict[str, AddedBundle] = field(default_factory=dict)
    kept: dict[str, AddedBundle] = field(default_factory=dict)
    failures: list[CatalogError] = field(default_factory=list)

    def put(self, bundle: Bundle) -> None:
        """Store a bundle, unless its name is taken: of two with one name, the first by the fixed order stays."""
        if bundle.package not in self.before:
            self.before[bundle.package] = indexed_package(self.database, bundle.package)
        addition = _added(bundle)
        if self.arrived.setdefault(addition.image or addition.name, addition) is not addition:
            return
        if bundle.csv.substitutes_for:
            self.failures.append(_substitutes(addition, bundle.csv.substitutes_for))
            return
        rival = self.kept.get(bundle.name)
        if rival is not None and addition.order < rival.order:
            self.failures.append(_taken(rival, addition.image))
            delete_bundle(self.database, rival.name)
        elif has_bundle(self.database, bundle.name):
            self.failures.append(_taken(addition, rival.image if rival else "a bundle that the index has"))
            return
        insert_bundle(self.database, bundle)
        self.kept[bundle.name] = addition


def _added(bundle: Bundle) -> AddedBundle:
    csv, annotations = bundle.csv, bundle.annotations
    return AddedBundle(
        bundle.package,
        bundle.image,
        Member(csv.name, csv.version, annotations.channels, annotations.default_channel),
        Node(csv.name, csv.version, csv.replaces, csv.skips),
        bundle.provided_apis,
        bundle.required_apis,
    )


def _substitutes(bundle: AddedBundle, substituted: str) -> CatalogError:
    return CatalogError(
        f"bundle {bundle.name} of {bundle.image} can't be added: it substitutes {substituted}",
        advice="That is an alpha feature: remove the annotation olm.substitutesFor from its ClusterServiceVersion.",
    )


def _taken(bundle: AddedBundle, holder: str) -> BundleExists:
    return BundleExists(
        f"bundle {bundle.name} of {bundle.image} can't be added: its name is taken by {holder}",
        advice="Give its ClusterServiceVersion a name of its own; if the other bundle is in no channel any more, "
        "remove it with 'opm registry prune-stranded'.",
    )


def _refusals(database: IndexDatabase, store: _Store) -> list[CatalogError]:
    """The errors that keep all the bundles out.

    As in the reference, a package with a bundle that came from no image ends all these checks; and a bundle is told to
    exist if the index has, in its package, any of the images that are added.
    """
    if any("" in before.images for before in store.before.values()):
        return []
    errors: list[CatalogError] = []
    arrived = sorted(store.arrived.values(), key=lambda bundle: bundle.order)
    images = {bundle.image for bundle in arrived}
    for bundle in arrived:
        before = store.before[bundle.package]
        if images & before.images:
            errors.append(_image_exists(bundle, sorted(images & before.images)))
        if bundle.name in before.names:
            errors.append(
                BundleVersionExists(
                    f"package {bundle.package} has a bundle {bundle.name} already",
                    advice="Give the new bundle's ClusterServiceVersion a name and version of its own.",
                )
            )
    try:
        claims = claimed_names((bundle.package, bundle.node) for bundle in arrived)
        check_foreign_names(claims, owners(database, claims))
    except GraphError as error:
        errors.append(error)
    return errors


def _image_exists(bundle: AddedBundle, present: Sequence[str]) -> BundleImageExists:
    if bundle.image in present:
        return BundleImageExists(f"bundle {bundle.image} already exists in the index", advice="Leave it out.")
    return BundleImageExists(
        f"bundle {bundle.image} is not added: {', '.join(present)} of the same command already exists in package "
        f"{bundle.package}",
        advice="Leave out the bundles that the index has.",
    )
