"""Bundles on their way into an index: stored as they come, and remembered for the checks and the graphs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opmkit.bundle.labels import PACKAGE
from opmkit.imagetools.hints import Hint, Operation, Setting
from opmkit.index.errors import BundleExists, CatalogError, GraphError
from opmkit.index.graph import Member, Node, precedence
from opmkit.index.modes import UpdateMode
from opmkit.index.sqlite.bundles import bundle_image, delete_bundle, insert_bundle
from opmkit.index.sqlite.packages import indexed_package, owners, remove_head, replacing_bundles

if TYPE_CHECKING:
    from opmkit.bundle.model import ApiKey, Bundle
    from opmkit.index.sqlite import IndexDatabase
    from opmkit.index.sqlite.packages import IndexedPackage


@dataclass(frozen=True, slots=True)
class AddPlan:
    """What an add is asked for.

    ``overwrite_latest`` lets a bundle take the place of one of its name that nothing replaces, in replaces mode;
    ``enable_alpha`` lets bundles substitute others; ``permissive``: see `add_bundles`.
    """

    mode: UpdateMode = UpdateMode.REPLACES
    permissive: bool = False
    overwrite_latest: bool = False
    enable_alpha: bool = False


@dataclass(frozen=True, slots=True)
class AddedBundle:
    """What is kept of a bundle once its manifests are stored: all that decides about the graph."""

    package: str
    image: str
    member: Member
    node: Node
    provided: tuple[ApiKey, ...]
    required: tuple[ApiKey, ...]

    @classmethod
    def of(cls, bundle: Bundle) -> AddedBundle:
        """What is kept of ``bundle``."""
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
        """The name in the ClusterServiceVersion."""
        return self.node.name

    @property
    def described(self) -> str:
        """The bundle with its image, where it has one, for errors."""
        return f"bundle {self.name}{f' of {self.image}' if self.image else ''}"

    @property
    def order(self) -> tuple[object, ...]:
        """The fixed order in which added bundles count: by version, name and image; versions out of order come last."""
        try:
            return (0, precedence(self.node.version), self.name, self.image)
        except GraphError:
            return (1, self.node.version, self.name, self.image)


@dataclass(frozen=True, slots=True)
class Overwritten:
    """A bundle of the index that an added one of its name is to take the place of.

    ``image`` is the one it came from, "" for none; ``replacing`` the (channel, bundle) pairs that update from it.
    """

    image: str
    replacing: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Stores bundles as they come, and remembers what the checks and the graphs need to know of them.

    ``before`` is what the index had of their packages; ``arrived`` all that came, each image once; ``kept`` those
    stored, by name; ``overwritten`` what those names were before, where they may be overwritten.
    """

    database: IndexDatabase
    plan: AddPlan
    before: dict[str, IndexedPackage] = field(default_factory=dict)
    arrived: dict[str, AddedBundle] = field(default_factory=dict)
    kept: dict[str, AddedBundle] = field(default_factory=dict)
    overwritten: dict[str, Overwritten] = field(default_factory=dict)
    failures: list[CatalogError] = field(default_factory=list)

    def put(self, bundle: Bundle) -> None:
        """Store a bundle, unless its name is taken: of two with one name, the first by the fixed order stays.

        A bundle without a package is not stored: no command could read the index afterwards.
        """
        if not bundle.package:
            self.failures.append(missing_package_error(AddedBundle.of(bundle).described))
            return
        if bundle.package not in self.before:
            self.before[bundle.package] = indexed_package(self.database, bundle.package)
        addition = AddedBundle.of(bundle)
        if self.arrived.setdefault(addition.image or f"#{len(self.arrived)}", addition) is not addition:
            return
        if addition.node.substitutes_for and not self.plan.enable_alpha:
            self.failures.append(substitutes_error(addition.described, addition.node.substitutes_for))
            return
        rival = self.kept.get(bundle.name)
        if rival is not None:
            loser = max(rival, addition, key=lambda contender: contender.order)
            holder = min(rival, addition, key=lambda contender: contender.order)
            self.failures.append(_taken(loser, holder.image or "another bundle of the same command"))
            if loser is addition:
                return
            delete_bundle(self.database, rival.name)
        elif not self._make_room(addition):
            self.failures.append(_taken(addition, "a bundle that the index has"))
            return
        insert_bundle(self.database, bundle)
        self.kept[bundle.name] = addition

    def _make_room(self, addition: AddedBundle) -> bool:
        """Whether no bundle of the index has the name of this one, or none any more."""
        image = bundle_image(self.database, addition.name)
        if image is None:
            return True
        packages = {package for _, package in owners(self.database, [addition.name])}
        if not self.plan.overwrite_latest or packages - {addition.package}:
            return False
        replacing = tuple(replacing_bundles(self.database, addition.package, addition.name))
        self.overwritten[addition.name] = Overwritten(image, replacing)
        if self.plan.mode is not UpdateMode.REPLACES:
            return False
        remove_head(self.database, addition.package, addition.name)
        return True


def missing_package_error(described: str) -> CatalogError:
    """Return the error for a bundle whose annotations name no package."""
    return CatalogError(
        f"{described} can't be added: the annotation {PACKAGE} is missing or empty",
        advice="Set it to the package's name in metadata/annotations.yaml, and build and push the bundle again.",
    )


PRESENT_HINT = Hint.any_of("omit it", Hint("skip bundles that the index contains with {}", Setting.SKIP_PRESENT))
"""What to do with a bundle that the index contains."""


def substitutes_error(described: str, substituted: str) -> CatalogError:
    """Why a bundle that substitutes another can't be added, where that is not turned on."""
    return CatalogError(
        f"{described} can't be added: it substitutes {substituted}",
        hint=Hint.any_of(
            Hint("enable this alpha feature with {}", Setting.ENABLE_ALPHA),
            "remove the annotation olm.substitutesFor from its ClusterServiceVersion",
        ),
    )


def _taken(bundle: AddedBundle, holder: str) -> BundleExists:
    return BundleExists(
        f"{bundle.described} can't be added: its name is taken by {holder}",
        hint=Hint.any_of(
            "give its ClusterServiceVersion its own name",
            Hint("remove the other bundle with {} if it is in no channel", Operation.PRUNE_STRANDED),
        ),
    )
