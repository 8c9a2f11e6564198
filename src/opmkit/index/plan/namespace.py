"""Resolution of a namespace: what OLM v0 installs and updates for its Subscriptions.

This is the resolver of operator-lifecycle-manager 0.38 (``pkg/controller/registry/resolver/resolver.go``). A
Subscription without an installed operator takes the head of its channel, and one with an installed operator the
first entry of the channel, from the head down, that can replace it; other entries are alternatives if dependencies
exclude it. If one Subscription cannot be satisfied, nothing in the namespace changes.

OLM does less than its resolver returns (``step_resolver.go``): it installs nothing again that its Subscriptions have
already, and it resolves nothing while all Subscriptions wait for their InstallPlans.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from itertools import groupby, islice, permutations, product
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from opmkit.core.errors import LimitExceeded
from opmkit.index.errors import CatalogError
from opmkit.index.plan.candidate import BundleProperties, CatalogEntry
from opmkit.index.plan.missing import WantedEntry, explain_missing
from opmkit.index.plan.requirement import ApiRequirement, PackageRequirement
from opmkit.index.plan.search import (
    Alternatives,
    AtMostOne,
    ChoiceProblem,
    Contradiction,
    Prohibition,
    Solution,
    search,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opmkit.index.plan.candidate import CatalogKey
    from opmkit.index.plan.requirement import Api, BundleRequirement


MAX_NAMES = 5
"""Maximum number of Subscriptions that an error names."""
MAX_VARIANTS = 100
"""Maximum number of searches for other solutions of a namespace."""


class AmbiguousChannel(CatalogError):
    """The entries of a channel have no order, because it has no head, several heads or a cycle."""


class _Providers:
    """Bundles, found by what they provide."""

    def __init__(self, entries: Iterable[CatalogEntry]) -> None:
        self._entries = tuple(entries)
        self._by_package: defaultdict[str, list[CatalogEntry]] = defaultdict(list)
        self._by_api: defaultdict[Api, list[CatalogEntry]] = defaultdict(list)
        for entry in self._entries:
            for package in entry.packages:
                self._by_package[package].append(entry)
            for api in entry.bundle.apis:
                self._by_api[api].append(entry)

    def of_package(self, package: str) -> Sequence[CatalogEntry]:
        """Return the entries of a package, and of others whose properties name it."""
        return self._by_package.get(package, ())

    def meeting(self, requirement: BundleRequirement) -> list[CatalogEntry]:
        """Return the entries that meet a requirement, in their order."""
        if isinstance(requirement, ApiRequirement):
            return list(self._by_api.get(requirement.api, ()))
        entries = self.of_package(requirement.package) if isinstance(requirement, PackageRequirement) else self._entries
        return [entry for entry in entries if requirement.matches(entry.bundle)]


class ResolvableCatalog(Struct, frozen=True, dict=True):
    """A catalog in a cluster.

    Attributes:
        key: Its name and namespace.
        entries: Its candidates.
        priority: Dependencies come from the catalog with the highest priority.
    """

    key: CatalogKey
    entries: tuple[CatalogEntry, ...]
    priority: int = 0

    def of_package(self, package: str) -> Sequence[CatalogEntry]:
        """Return the entries of a package, and of others whose properties name it."""
        return self._index.of_package(package)

    def providers(self, requirement: BundleRequirement) -> Sequence[CatalogEntry]:
        """Return the entries that meet a requirement, the preferred one first: by channel, and from its head down.

        Raises:
            AmbiguousChannel: The channel of such an entry has no order.
        """
        found = self._providers.get(requirement)
        if found is None:
            found = self._providers[requirement] = tuple(self._find_providers(requirement))
        return found

    def _find_providers(self, requirement: BundleRequirement) -> Iterator[CatalogEntry]:
        met = set(self._index.meeting(requirement))
        channels = {
            (not other.in_default_channel, other.package, other.channel)
            for package, channel in {(entry.package, entry.channel) for entry in met}
            for other in self.of_package(package)
            if other.channel == channel
        }
        for _, package, channel in sorted(channels):
            yield from (entry for entry in self._ordered(package, channel) if entry in met)

    def _ordered(self, package: str, channel: str) -> Sequence[CatalogEntry]:
        if (package, channel) not in self._channels:
            entries = [each for each in self.of_package(package) if (each.package, each.channel) == (package, channel)]
            self._channels[package, channel] = order_channel(entries)
        return self._channels[package, channel]

    @cached_property
    def _index(self) -> _Providers:
        return _Providers(self.entries)

    @cached_property
    def _providers(self) -> dict[BundleRequirement, tuple[CatalogEntry, ...]]:
        return {}

    @cached_property
    def _channels(self) -> dict[tuple[str, str], Sequence[CatalogEntry]]:
        return {}


class Subscription(Struct, frozen=True):
    """A Subscription: follow a channel of a package.

    Attributes:
        name: Its name.
        package: The package.
        channel: The channel, or "" for any.
        catalog: The catalog of the package.
        starting_csv: Name of the bundle to begin with, or "" for the head of the channel.
        installed_csv: Name of the installed bundle, or "" if there is none.
        pending_csv: Name of the bundle that an InstallPlan installs which is not complete, or "".
        install_plan: Name of this InstallPlan, or "".
    """

    name: str
    package: str
    channel: str
    catalog: CatalogKey
    starting_csv: str = ""
    installed_csv: str = ""
    pending_csv: str = ""
    install_plan: str = ""

    def accepts(self, entry: CatalogEntry) -> bool:
        """Return whether the Subscription follows a bundle of a catalog."""
        return self.package == entry.package and self.channel in ("", entry.channel) and self.catalog == entry.catalog


class Namespace(Struct, frozen=True, dict=True):
    """The state of a namespace.

    Attributes:
        name: Name of the namespace.
        catalogs: The catalogs of the namespace and the global ones.
        subscriptions: The Subscriptions.
        installed: The installed operators, as `CatalogEntry.installed` returns them.
        missing: Why catalogs are not among the ``catalogs``, as far as that is known.
    """

    name: str
    catalogs: tuple[ResolvableCatalog, ...]
    subscriptions: tuple[Subscription, ...] = ()
    installed: tuple[CatalogEntry, ...] = ()
    missing: Mapping[CatalogKey, str] = {}

    def catalog(self, key: CatalogKey) -> ResolvableCatalog | None:
        """Return a catalog by its key, None if the namespace does not see it."""
        return next((catalog for catalog in self.catalogs if catalog.key == key), None)

    def followed_entries(self, subscription: Subscription) -> list[CatalogEntry]:
        """Return the entries of the channel that a Subscription follows, and if it has nothing, that it starts with."""
        catalog, starting = self.catalog(subscription.catalog), subscription.starting_csv
        found = catalog.of_package(subscription.package) if catalog else ()
        starts = starting and not self.find_installed(subscription.installed_csv)
        return [
            each
            for each in found
            if subscription.channel in ("", each.channel) and (not starts or each.name == starting)
        ]

    def find_installed(self, name: str) -> CatalogEntry | None:
        """Return an installed operator by its name."""
        return self._installed.get(name)

    def following(self, entry: CatalogEntry) -> list[Subscription]:
        """Return the Subscriptions that follow a bundle of a catalog."""
        return [each for each in self._subscriptions.get((entry.package, entry.catalog), ()) if each.accepts(entry)]

    @cached_property
    def _installed(self) -> dict[str, CatalogEntry]:
        return {item.name: item for item in reversed(self.installed)}

    @cached_property
    def _subscriptions(self) -> dict[tuple[str, CatalogKey], list[Subscription]]:
        found = defaultdict(list)
        for each in self.subscriptions:
            found[each.package, each.catalog].append(each)
        return found


Variable: TypeAlias = CatalogEntry | Subscription
"""What a resolution selects."""
Found: TypeAlias = Solution[Variable] | Contradiction[Variable]
"""The result of a search."""


class ResolvedStep(Struct, frozen=True):
    """A bundle to install.

    Attributes:
        candidate: The bundle with its catalog and channel.
        replaces: Name of the installed bundle that it replaces, otherwise that of the entry's ``replaces``.
        required_by: Names of the bundles that require it, empty if a Subscription does.
        install_plan: Name of the InstallPlan that installs it and exists already, or "".
    """

    candidate: CatalogEntry
    replaces: str
    required_by: tuple[str, ...] = ()
    install_plan: str = ""

    @property
    def reason(self) -> str:
        """Why OLM installs the bundle, in a few words."""
        if self.install_plan:
            return f"waits for InstallPlan {self.install_plan}"
        return f"required by {', '.join(self.required_by)}" if self.required_by else "subscription"


class SubscriptionReason(Struct, frozen=True):
    """Why a Subscription can have only some bundles, or none.

    Attributes:
        subscription: The Subscription.
        problem: Why there is no bundle, or "".
        remedy: What to change then.
        accepted: The bundles that it accepts.
    """

    subscription: Subscription
    problem: str = ""
    remedy: str = ""
    accepted: tuple[CatalogEntry, ...] = ()


class RequirementReason(Struct, frozen=True):
    """A requirement of a bundle, with the bundles that meet it."""

    bundle: CatalogEntry
    requirement: BundleRequirement
    providers: tuple[CatalogEntry, ...]


class InstalledReason(Struct, frozen=True):
    """An installed operator without a Subscription, which every solution contains."""

    bundle: CatalogEntry


class ApiReason(Struct, frozen=True):
    """An API that several bundles provide, of which a namespace can have one."""

    api: Api


class PackageReason(Struct, frozen=True):
    """A package with several bundles, of which a namespace can have one."""

    package: str


class ReplacementReason(Struct, frozen=True):
    """A bundle that replaces an installed one, so that a namespace cannot have both."""

    bundle: CatalogEntry
    installed: CatalogEntry


class DeprecationReason(Struct, frozen=True):
    """A deprecated bundle, which OLM never installs."""

    bundle: CatalogEntry


Reason: TypeAlias = (
    SubscriptionReason
    | RequirementReason
    | InstalledReason
    | ApiReason
    | PackageReason
    | ReplacementReason
    | DeprecationReason
)


class Resolution(Struct, frozen=True):
    """What OLM does in a namespace at one resolution.

    Attributes:
        steps: The bundles to install, by name.
        others: Steps that OLM may take instead: its choice depends on the order in which it meets Subscriptions.
        is_determined: Whether OLM always takes these steps. Otherwise there may be more than the ``others``.
        considered: Number of bundles among which it chooses.
    """

    steps: tuple[ResolvedStep, ...]
    others: tuple[tuple[ResolvedStep, ...], ...] = ()
    is_determined: bool = True
    considered: int = 0


class Conflict(Struct, frozen=True):
    """Subscriptions and installed operators that cannot all be satisfied.

    Attributes:
        subscriptions: The Subscriptions; each has a part in it.
        installed: Installed operators without a Subscription; each has a part in it.
        reasons: All reasons that have a part in it, in the order in which the search met them.
    """

    subscriptions: tuple[Subscription, ...]
    installed: tuple[CatalogEntry, ...]
    reasons: tuple[Reason, ...]


class Blocked(Struct, frozen=True):
    """The reasons why nothing in a namespace changes: conflicts that have nothing in common.

    Attributes:
        conflicts: The conflicts.
        considered: Number of bundles among which OLM chooses.
    """

    conflicts: tuple[Conflict, ...]
    considered: int = 0


def resolve(namespace: Namespace) -> Resolution | Blocked:
    """Return what OLM does in a namespace at the next resolution, or why it does nothing.

    Raises:
        AmbiguousChannel: Entries of a channel have no order.
        InvalidRequirement: A bundle has a requirement that OLM cannot parse.
        LimitExceeded: The search takes too long.
    """
    if namespace.subscriptions and all(each.pending_csv for each in namespace.subscriptions):
        return Resolution(tuple(_pending_step(namespace, each) for each in namespace.subscriptions))
    try:
        return _Resolver(namespace).run()
    except LimitExceeded as error:
        names = [f"{each.name} to {each.package}" for each in namespace.subscriptions[:MAX_NAMES]]
        rest = len(namespace.subscriptions) - len(names)
        text = ", ".join(names) + (f" and {rest} more" if rest else "")
        raise LimitExceeded(
            f"namespace {namespace.name}: Subscriptions {text}: {error.message}",
            hint="plan fewer Subscriptions at once",
        ) from error


def _pending_step(namespace: Namespace, subscription: Subscription) -> ResolvedStep:
    """Return what an existing InstallPlan installs, even if the catalog does not have it any more."""
    name, package, catalog = subscription.pending_csv, subscription.package, namespace.catalog(subscription.catalog)
    found = [entry for entry in (catalog.of_package(package) if catalog else ()) if entry.name == name]
    candidate = min(
        found,
        key=lambda entry: not subscription.accepts(entry),
        default=CatalogEntry(BundleProperties(name, package, "", ()), subscription.catalog, subscription.channel),
    )
    return ResolvedStep(candidate, subscription.installed_csv, install_plan=subscription.install_plan)


class _Resolver:
    """The variables of one resolution: bundles, with their requirements and what excludes them."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace
        self._installed = _Providers(namespace.installed)
        self._requirements: dict[CatalogEntry, list[Alternatives[Variable]]] = {}
        self._replaced: dict[CatalogEntry, CatalogEntry] = {}

    def run(self) -> Resolution | Blocked:
        """Build the problem, and search its solution."""
        installed = self._namespace.installed
        self._visit(installed)
        subscriptions = self._namespace.subscriptions
        accepted: dict[Variable, list[Alternatives[Variable]]] = {
            each: [self._subscribe(each)] for each in subscriptions
        }
        anchors = [_anchor(bundle, InstalledReason(bundle)) for bundle in installed if bundle.is_mandatory]
        anchors += [_anchor(subscription, SubscriptionReason(subscription)) for subscription in subscriptions]
        requirements = accepted | dict(self._requirements.items())
        problem = ChoiceProblem(tuple(anchors), requirements, tuple(self._exclusions()), self._prohibitions())
        found = search(problem)
        if isinstance(found, Contradiction):
            return Blocked(tuple(_conflicts(problem, found)), len(self._requirements))
        steps = tuple(self._steps(found.selected))
        searched = list(islice(self._variants(problem, found), MAX_VARIANTS + 1))
        variants = [each for each in searched[:MAX_VARIANTS] if isinstance(each, Solution)]
        selections = [steps, *(tuple(self._steps(variant.selected)) for variant in variants)]
        others = dict.fromkeys(each for selected in selections for each in self._in_other_channels(selected))
        others.pop(steps)
        is_partial = len(searched) > MAX_VARIANTS and any(variant.abandoned for variant in (found, *variants))
        is_determined = not (others or is_partial)
        return Resolution(steps, tuple(others)[:MAX_VARIANTS], is_determined, considered=len(self._requirements))

    def _in_other_channels(self, steps: tuple[ResolvedStep, ...]) -> Iterator[tuple[ResolvedStep, ...]]:
        """Yield steps with each channel that has their bundle, of which OLM takes any without one in a Subscription."""
        choices = [[step, *self._same_bundle(step)] for step in steps]
        yield from islice(product(*choices), MAX_VARIANTS)

    def _same_bundle(self, step: ResolvedStep) -> Iterator[ResolvedStep]:
        candidate = step.candidate
        following = self._namespace.following(candidate)
        if not following or any(each.channel for each in following):
            return
        for entry in self._namespace.followed_entries(following[0]):
            if entry.name == candidate.name and entry is not candidate:
                current = self._replaced.get(entry)
                yield replace(step, candidate=entry, replaces=current.name if current else entry.replaces)

    def _variants(self, problem: ChoiceProblem[Variable], found: Solution[Variable]) -> Iterator[Found]:
        """Yield the results with other orders of the Subscriptions, and of the options of abandoned choices."""
        if not found.abandoned and (len(problem.anchors) < 2 or _is_order_irrelevant(problem, found)):
            return
        for ordered in permutations(problem.anchors):
            variant = search(replace(problem, anchors=ordered))
            if isinstance(variant, Solution):
                yield variant
                for options in product(*(abandoned.options for abandoned in variant.abandoned)):
                    preferred = dict(zip(variant.abandoned, options, strict=True))
                    yield search(_with_options_first(problem, ordered, preferred))

    def _subscribe(self, subscription: Subscription) -> Alternatives[Variable]:
        """Return the bundles that a Subscription accepts, the preferred one first."""
        current = self._namespace.find_installed(subscription.installed_csv)
        entries = self._namespace.followed_entries(subscription)
        if not entries:
            return Alternatives((), _explain_missing(subscription, self._namespace))
        entries.sort(key=lambda entry: (not entry.in_default_channel, entry.channel))
        accepted = [
            entry
            for _, channel in groupby(entries, lambda entry: entry.channel)
            for entry in order_channel([*channel])
            if current is None or entry.updates_from(current.name, current.bundle.version)
        ]
        by_name = defaultdict(list)
        for entry in entries:
            by_name[entry.name].append(entry)
        options = list(dict.fromkeys(each for entry in accepted for each in by_name[entry.name]))
        self._visit(options)
        if current:
            self._replaced |= dict.fromkeys(options, current)
            options.append(current)
        return Alternatives(tuple(options), SubscriptionReason(subscription, accepted=tuple(options)))

    def _visit(self, bundles: Iterable[CatalogEntry]) -> None:
        """Add bundles with their requirements, and all bundles that can meet these."""
        stack = list(bundles)
        while stack:
            bundle = stack.pop()
            if bundle not in self._requirements:
                self._requirements[bundle] = []
                for requirement in bundle.requirements:
                    options = self._providers(bundle, requirement)
                    self._requirements[bundle].append(
                        Alternatives(options, RequirementReason(bundle, requirement, options))
                    )
                    stack += options

    def _providers(self, bundle: CatalogEntry, requirement: BundleRequirement) -> tuple[CatalogEntry, ...]:
        """Return the bundles that meet a requirement: installed ones, those of the same catalog, then by priority."""
        installed = self._installed.meeting(requirement)
        catalogs = sorted(
            self._namespace.catalogs,
            key=lambda catalog: (
                catalog.key != bundle.catalog,
                -catalog.priority,
                catalog.key.namespace != self._namespace.name,
                catalog.key.name,
            ),
        )
        return (*installed, *(entry for catalog in catalogs for entry in catalog.providers(requirement)))

    def _exclusions(self) -> Iterator[AtMostOne[Variable]]:
        """Yield the groups of bundles of which a namespace can have one."""
        groups: defaultdict[Reason, list[CatalogEntry]] = defaultdict(list)
        for bundle in self._requirements:
            for api in bundle.bundle.apis:
                groups[ApiReason(api)].append(bundle)
            for package in bundle.bundle.declared_packages:
                groups[PackageReason(package)].append(bundle)
        for bundle, current in self._replaced.items():
            groups[ReplacementReason(bundle, current)] += [bundle, current]
        for reason, members in groups.items():
            if len(members) > 1:
                yield AtMostOne(frozenset(members), reason)

    def _prohibitions(self) -> tuple[Prohibition[Variable], ...]:
        deprecated = (bundle for bundle in self._requirements if bundle.bundle.is_deprecated)
        return tuple(Prohibition(bundle, DeprecationReason(bundle)) for bundle in deprecated)

    def _steps(self, selected: Sequence[Variable]) -> Iterator[ResolvedStep]:
        bundles = _bundles(selected)
        chosen = frozenset(bundles)
        required_by: defaultdict[Variable, list[str]] = defaultdict(list)
        for bundle in bundles:
            for required in self._requirements[bundle]:
                provider = next(option for option in required.options if option in chosen)
                required_by[provider].append(bundle.name)
        for bundle in sorted(bundles, key=lambda item: item.name):
            if not bundle.is_installed and not self._is_followed_already(bundle):
                current = self._replaced.get(bundle)
                replaces = current.name if current else bundle.replaces
                yield ResolvedStep(bundle, replaces, tuple(dict.fromkeys(required_by[bundle])))

    def _is_followed_already(self, bundle: CatalogEntry) -> bool:
        """Return whether all Subscriptions to a bundle have it, which a skip range can contain itself."""
        following = self._namespace.following(bundle)
        return bool(following) and all(each.installed_csv == bundle.name for each in following)


def _anchor(variable: Variable, reason: Reason) -> Alternatives[Variable]:
    return Alternatives((variable,), reason)


def _is_order_irrelevant(problem: ChoiceProblem[Variable], found: Solution[Variable]) -> bool:
    """Return whether each choice of a solution has selected its first option, and no other one.

    Then any order selects the same: a choice is only skipped for its first option, and whatever is selected in between
    is of this solution, in which nothing excludes anything.
    """
    selected = frozenset(found.selected)
    return all(
        [option for option in choice.options if option in selected] == [choice.options[0]]
        for variable in found.selected
        for choice in problem.requirements.get(variable, ())
    )


def _bundles(selected: Sequence[Variable]) -> list[CatalogEntry]:
    return [item for item in selected if not isinstance(item, Subscription)]


def order_channel(entries: Sequence[CatalogEntry]) -> list[CatalogEntry]:
    """Return the entries of a channel from its head down, along what they replace, without those that are skipped.

    Raises:
        AmbiguousChannel: There is no head, there are several heads, or the entries replace each other in a circle.
    """
    if not entries:
        return []
    by_name = {entry.name: entry for entry in entries}
    skipped = {skip for entry in entries for skip in entry.skips if skip in by_name}
    superseded = skipped | {entry.replaces for entry in entries if entry.replaces in by_name}
    heads = [entry for entry in entries if entry.name not in superseded]
    chains = [_chain(head, by_name) for head in heads]
    if len(chains) != 1:
        found = f"{len(chains)} heads: {', '.join(entry.name for entry in heads)}" if heads else "no head"
        raise AmbiguousChannel(
            f'package "{entries[0].package}", channel "{entries[0].channel}": {found}',
            hint="let each entry but one be replaced or skipped by another entry",
        )
    return [entry for entry in chains[0] if entry.name not in skipped]


def _chain(head: CatalogEntry, by_name: dict[str, CatalogEntry]) -> list[CatalogEntry]:
    chain, names, current = [head], {head.name}, head
    while current.replaces in by_name:
        current = by_name[current.replaces]
        if current.name in names:
            raise AmbiguousChannel(
                f'package "{head.package}", channel "{head.channel}": entries replace each other in a circle: '
                f"{' -> '.join(entry.name for entry in chain)} -> {current.name}",
                hint="remove replaces from one of them",
            )
        chain.append(current)
        names.add(current.name)
    return chain


def unmatched_subscriptions(namespace: Namespace) -> Iterator[SubscriptionReason]:
    """Yield the Subscriptions that no entry of a catalog matches, with the reason and what to change."""
    for subscription in namespace.subscriptions:
        if not namespace.followed_entries(subscription):
            yield _explain_missing(subscription, namespace)


def _explain_missing(subscription: Subscription, namespace: Namespace) -> SubscriptionReason:
    catalog = namespace.catalog(subscription.catalog)
    missing = namespace.missing.get(subscription.catalog, "")
    wanted = WantedEntry(
        subscription.name,
        subscription.catalog.name,
        subscription.package,
        subscription.channel,
        subscription.starting_csv,
    )
    return SubscriptionReason(subscription, *explain_missing(wanted, catalog.entries if catalog else (), missing))


def _conflicts(problem: ChoiceProblem[Variable], found: Contradiction[Variable]) -> Iterator[Conflict]:
    """Yield the conflict, and those of the Subscriptions that have no part in it."""
    remaining = problem.anchors
    contradiction: Solution[Variable] | Contradiction[Variable] = found
    while isinstance(contradiction, Contradiction):
        anchors = contradiction.anchors
        reasons = [constraint.reason for constraint in (*anchors, *contradiction.constraints)]
        subscriptions = tuple(
            each.reason.subscription for each in anchors if isinstance(each.reason, SubscriptionReason)
        )
        installed = tuple(each.reason.bundle for each in anchors if isinstance(each.reason, InstalledReason))
        yield Conflict(subscriptions, installed, tuple(dict.fromkeys(reasons)))
        remaining = tuple(anchor for anchor in remaining if anchor not in anchors)
        contradiction = search(replace(problem, anchors=remaining))


def _with_options_first(
    problem: ChoiceProblem[Variable],
    anchors: tuple[Alternatives[Variable], ...],
    preferred: Mapping[Alternatives[Variable], Variable],
) -> ChoiceProblem[Variable]:
    """Return a problem in which choices prefer one of their options each."""

    def reordered(choice: Alternatives[Variable]) -> Alternatives[Variable]:
        if choice not in preferred:
            return choice
        first = preferred[choice]
        return replace(choice, options=(first, *(other for other in choice.options if other is not first)))

    requirements = {bundle: list(map(reordered, required)) for bundle, required in problem.requirements.items()}
    return replace(problem, anchors=tuple(map(reordered, anchors)), requirements=requirements)
