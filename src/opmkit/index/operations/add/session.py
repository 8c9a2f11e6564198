"""Stage the bundles of one ``add``: insert each and collect the data for validation and graph building."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opmkit.core.hints import Hint
from opmkit.index.errors import BundleExists, CatalogError, GraphError
from opmkit.index.graph import Member, Node, precedence
from opmkit.index.hint_terms import IndexOperation
from opmkit.index.modes import UpdateMode
from opmkit.index.operations.add.errors import missing_package_error, substitutes_error
from opmkit.index.sqlite.bundles import bundle_image, delete_bundle, insert_bundle
from opmkit.index.sqlite.packages import bundles_replacing, delete_head, indexed_package, name_owners

if TYPE_CHECKING:
    from opmkit.bundle.model import ApiKey, Bundle
    from opmkit.index.operations.add.options import AddOptions
    from opmkit.index.sqlite import IndexDatabase
    from opmkit.index.sqlite.packages import IndexedPackage


@dataclass(frozen=True, slots=True)
class StagedBundle:
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


@dataclass(frozen=True, slots=True)
class OverwrittenBundle:
    """A bundle of the index that an added bundle of the same name replaces.

    ``image`` is "" if it has none. ``updated_by`` lists the (channel, bundle) pairs that replace or skip it.
    """

    image: str
    updated_by: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class AddSession:
    """The bundles of one ``add``.

    - ``packages``: the state of their packages before the add, by name.
    - ``received``: all bundles, by image.
    - ``stored``: the inserted bundles, by name.
    - ``overwritten``: the bundles that they overwrite, by name.
    """

    database: IndexDatabase
    options: AddOptions
    packages: dict[str, IndexedPackage] = field(default_factory=dict)
    received: dict[str, StagedBundle] = field(default_factory=dict)
    stored: dict[str, StagedBundle] = field(default_factory=dict)
    overwritten: dict[str, OverwrittenBundle] = field(default_factory=dict)
    failures: list[CatalogError] = field(default_factory=list)

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
