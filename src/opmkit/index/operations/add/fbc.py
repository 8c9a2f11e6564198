"""Adding bundles to a catalog: their blobs, their entries in channels, and new packages for them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from opmkit.index.errors import CatalogError, combined
from opmkit.index.fbc.compat import Compat
from opmkit.index.fbc.packages import other_package_warnings, replace_packages, select_packages
from opmkit.index.modes import UpdateMode
from opmkit.index.operations.add.fbc_checks import admit
from opmkit.index.operations.add.fbc_errors import refuse_additions
from opmkit.index.operations.add.fbc_packages import default_channel, with_default_channel
from opmkit.index.operations.add.fbc_replaces import with_bundle
from opmkit.index.operations.add.fbc_semver import with_bundles_by_version
from opmkit.index.operations.add.fbc_substitutes import Substitution
from opmkit.index.operations.add.session import AddPlan
from opmkit.index.operations.values import Edit, Placement
from opmkit.index.suggestions import instead

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opmkit.index.fbc.blobs import Blobs
    from opmkit.index.operations.values import Arrival


def add_bundles(
    blobs: Blobs,
    arrivals: Sequence[Arrival],
    placement: Placement | None = None,
    plan: AddPlan | None = None,
    compat: Compat = Compat.NEWEST,
) -> Edit:
    """Add bundles, in order of their versions, with their entries in channels as they say, or as ``placement`` says.

    In mode replaces a bundle has the edges that it names; in the semver modes versions make the edges of the channels
    that bundles arrive in. Entries that need not change stay as they are, and packages that bundles are added to must
    be valid in the end, by the rules of the ``compat``.

    All or nothing, unless ``permissive``: then bundles that can't be added are told as ``failures``.

    Raises:
        BundleImageExists, BundleVersionExists, BundleExists: the catalog has a bundle's image or name already, or two
            have one.
        GraphError: edges or default channels that don't come out.
        InvalidCatalog: a package that would not be valid; its message has the channel at fault with its graph.
        CatalogError: what else is wrong; several errors in one.
    """
    addition = _Addition(placement or Placement(), plan or AddPlan(), compat)
    addition.check(arrivals)
    admission = admit(blobs, addition.placed(arrivals), addition.plan)
    errors = list(admission.errors)
    changed = select_packages(blobs, admission.admitted)
    for package, admitted in admission.admitted.items():
        try:
            changed[package] = addition.all_at_once(changed[package], admitted)
        except CatalogError as error:
            if addition.plan.permissive:
                changed[package], failed = addition.one_by_one(changed[package], admitted)
                errors += failed
            else:
                errors.append(error)
    if errors and not addition.plan.permissive:
        raise combined(errors)
    result = replace_packages(blobs, changed)
    added = [one for admitted in admission.admitted.values() for one in admitted]
    warnings = (
        *_absent(result, added, addition.plan.mode),
        *_new_channels(blobs, added, addition.placement),
        *other_package_warnings(result, changed, compat),
    )
    return Edit(result, warnings, failures=tuple(errors))


@dataclass(frozen=True, slots=True)
class _Addition:
    """How bundles are added."""

    placement: Placement
    plan: AddPlan
    compat: Compat

    def check(self, arrivals: Sequence[Arrival]) -> None:
        """Raise CatalogError for edges that are given for several bundles, or where versions make them."""
        edges = [self.placement.replaces, self.placement.skips]
        if len(arrivals) > 1 and any(given is not None for given in (*edges, self.placement.skip_range)):
            raise CatalogError(
                "replaces, skips and skip range can be given for one bundle only, and there are several",
                advice="Add the bundles one by one.",
            )
        if self.plan.mode is not UpdateMode.REPLACES and any(given is not None for given in edges):
            raise CatalogError(
                f"replaces and skips can't be given in the mode {self.plan.mode}, where versions make the updates",
                advice="Leave them out, or add the bundle in the mode replaces.",
            )

    def placed(self, arrivals: Sequence[Arrival]) -> Iterator[Arrival]:
        """The bundles as if they said of themselves what the placement says."""
        given = {field: value for field, value in asdict(self.placement).items() if value is not None}
        return (replace(arrival, **given) for arrival in arrivals)

    def all_at_once(self, parts: Blobs, arrivals: Sequence[Arrival]) -> Blobs:
        """A package with all the bundles; raises CatalogError, InvalidCatalog if it would not be valid."""
        arrivals = [self._without_foreign_default(parts, arrival) for arrival in arrivals]
        if self.plan.mode is UpdateMode.REPLACES:
            result = self._by_their_edges(parts, arrivals)
            default = self.placement.default_channel or default_channel(parts, result, arrivals)
        else:
            skip_patch = self.plan.mode is UpdateMode.SEMVER_SKIPPATCH
            result, default = with_bundles_by_version(parts, arrivals, skip_patch=skip_patch)
        result = with_default_channel(result, default, arrivals)
        base = parts if len(arrivals) == 1 else result
        refuse_additions(result, arrivals, self.compat, lambda other: self._by_their_edges(base, [other]))
        return result

    def _without_foreign_default(self, parts: Blobs, arrival: Arrival) -> Arrival:
        """The bundle, without its wish for a default channel where that is not among the channels given."""
        there = {*(channel.name for channel in parts.channels), *arrival.channels}
        given = self.placement.channels is not None and self.placement.default_channel is None
        return replace(arrival, default_channel="") if given and arrival.default_channel not in there else arrival

    def _by_their_edges(self, parts: Blobs, arrivals: Sequence[Arrival]) -> Blobs:
        for arrival in arrivals:
            change = Substitution.of(parts, arrival).change if self.plan.enable_alpha else None
            parts = with_bundle(parts, arrival, change, alone=self.placement.channels is not None)
        return parts

    def one_by_one(self, parts: Blobs, arrivals: Sequence[Arrival]) -> tuple[Blobs, list[CatalogError]]:
        """A package with those of the bundles that can be added one by one, whatever the order; the others' errors."""
        waiting, errors = list(arrivals), list[CatalogError]()
        while waiting:
            failed: list[Arrival] = []
            errors = []
            for arrival in waiting:
                try:
                    parts = self.all_at_once(parts, [arrival])
                except CatalogError as error:
                    failed.append(arrival)
                    errors.append(error)
            if len(failed) == len(waiting):
                break
            waiting = failed
        return parts, errors


def _new_channels(before: Blobs, added: Sequence[Arrival], placement: Placement) -> Iterator[str]:
    """Yield a warning for each channel of the placement that a package with channels did not have: a typo, perhaps."""
    for package in dict.fromkeys(one.package for one in added):
        known = sorted(channel.name for channel in before.channels if channel.package == package)
        for name in placement.channels or () if known else ():
            if name not in known:
                yield f'channel "{name}" of package "{package}" is new. {instead("other channels", name, known)}'


def _absent(blobs: Blobs, added: Sequence[Arrival], mode: UpdateMode) -> Iterator[str]:
    """Warnings of bundles that replace what is not there."""
    there = {(bundle.package, bundle.name) for bundle in blobs.bundles}
    for one in added if mode is UpdateMode.REPLACES else ():
        if one.replaces and (one.package, one.name) in there and (one.package, one.replaces) not in there:
            yield f"bundle {one.name} replaces {one.replaces}, which package {one.package} does not have"
