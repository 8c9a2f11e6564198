"""Updates on update paths: which ones OLM refuses because of a CRD, and what operators may do after them."""

from __future__ import annotations

from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from opmkit.bundle.crd_upgrade import olm_v0_changes, olm_v1_changes, stored_versions
from opmkit.bundle.finding import Severity
from opmkit.bundle.validation.compat import OlmVersion
from opmkit.core.errors import LimitExceeded
from opmkit.index.fbc.definitions import RefusedUpdate, bundle_definitions, has_objects, read_missing_objects
from opmkit.index.plan.ending import Outcome
from opmkit.index.plan.successors import Hops

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opmkit.index.fbc.blobs import BundleBlob
    from opmkit.index.fbc.definitions import ReadBundles
    from opmkit.index.fbc.model import Catalog
    from opmkit.index.fbc.permissions import PermissionChange, ReadPermissions
    from opmkit.index.plan.paths import UpdatePath


class ReviewedUpdates(Struct, frozen=True):
    """Update paths that end before the first update that OLM refuses, and all refused updates.

    Attributes:
        paths: The paths.
        refused: The updates that OLM refuses on the paths or after their ends, as far as the definitions are known.
    """

    paths: tuple[UpdatePath, ...]
    refused: tuple[RefusedUpdate, ...]


def review_updates(
    paths: Sequence[UpdatePath], catalog: Catalog, published: Catalog, read: ReadBundles | None = None
) -> ReviewedUpdates:
    """Find the updates of paths that OLM refuses because of a CustomResourceDefinition, and end the paths there.

    Each version that was marked for storage earlier on a path counts as stored.

    Args:
        paths: The update paths.
        catalog: The new catalog.
        published: The published catalog.
        read: Reads the bundles that the catalogs contain without their objects; without it, these are ignored.
    """
    complete = read_missing_objects(_bundles_of(paths, catalog, published), read)
    review = _Review(_Definitions(published, complete), _Definitions(catalog, complete))
    return ReviewedUpdates(tuple(map(review.end, paths)), tuple(review.refused))


class _Review:
    """Paths whose updates are checked for refusals, each update of the same state once."""

    def __init__(self, before: _Definitions, after: _Definitions) -> None:
        self.refused: dict[RefusedUpdate, None] = {}
        self._before, self._after = before, after
        self._visited = _Visited()
        self._ends: dict[int, _End] = {}

    def end(self, path: UpdatePath) -> UpdatePath:
        """Return a path up to its first refused update."""
        current = self._before.of_bundle(path.package, path.installed) if path.hops else {}
        stored: dict[str, dict[str, None]] = {}
        trail: list[tuple[int, RefusedUpdate | None]] = []
        end: _End | None = None
        for installed, following, token in self._visited.updates(path):
            state = tuple(
                (name, id(old), *stored.get(name, ())) for name, old in sorted(current.items(), key=itemgetter(0))
            )
            key = hash((token, state))
            if self._visited.add(path.package, token, *state):
                end = self._ends.get(key)
                break
            definitions = self._after.of_bundle(path.package, following)
            refused: list[RefusedUpdate] = []
            for name, old in current.items():
                names = stored.setdefault(name, {})
                names |= dict.fromkeys(stored_versions(old))
                refused += [
                    RefusedUpdate(path.package, installed, following, name, reason, path.olm)
                    for reason in _refusals(old, definitions.get(name), tuple(names), path.olm)
                ]
            self.refused |= dict.fromkeys(refused)
            trail.append((key, refused[0] if refused else None))
            current = {**current, **definitions}
        for key, first in reversed(trail):
            end = _End(first, 0) if first else end and _End(end.refused, end.hops + 1)
            if end:
                self._ends[key] = end
        return _ended(path, end) if end else path


class _End(NamedTuple):
    """The first refused update on the rest of a path, and the number of updates before it."""

    refused: RefusedUpdate
    hops: int


def _ended(path: UpdatePath, end: _End) -> UpdatePath:
    hops, refused = path.hops, end.refused
    shortened = hops.first(end.hops, refused.installed) if isinstance(hops, Hops) else hops[: end.hops]
    reason = f"OLM {refused.olm} refuses {refused.next} because of its CustomResourceDefinition {refused.definition}"
    return replace(path, hops=shortened, outcome=Outcome.REFUSED, reason=reason, remedy="")


def gained_permissions(
    paths: Sequence[UpdatePath], catalog: Catalog, published: Catalog, read: ReadPermissions | None = None
) -> tuple[PermissionChange, ...]:
    """Return the updates of paths by which operators gain dangerous permissions, or whose bundles cannot be read.

    Args:
        paths: The update paths.
        catalog: The new catalog.
        published: The published catalog.
        read: Reads the permissions of bundle images; without it, bundles without objects in the catalogs are ignored.
    """
    from opmkit.index.fbc.permissions import permission_changes, read_images  # not needed for other plans

    edges: dict[tuple[str, str, str], tuple[BundleBlob, BundleBlob]] = {}
    visited = _Visited()
    for path in paths:
        current = _find(published, path.package, path.installed)
        for _, name, token in visited.updates(path):
            if visited.add(path.package, token, id(current)):
                break
            following = _find(catalog, path.package, name)
            if current and following:
                edges.setdefault((path.package, current.name, name), (current, following))
            current = following
    images = read_images((blob for edge in edges.values() for blob in edge), read)
    known = (edge for edge in edges.values() if all(blob.image in images or has_objects(blob) for blob in edge))
    return tuple(permission_changes(known, images))


def _find(catalog: Catalog, package: str, name: str) -> BundleBlob | None:
    found = catalog.packages.get(package)
    return found.bundles.get(name) if found else None


def _bundles_of(paths: Iterable[UpdatePath], catalog: Catalog, published: Catalog) -> Iterator[BundleBlob]:
    """Yield the bundles of all paths with a hop."""
    visited = _Visited()
    for path in paths:
        if path.hops and (bundle := _find(published, path.package, path.installed)):
            yield bundle
        for _, name, token in visited.updates(path):
            if visited.add(path.package, token):
                break
            if bundle := _find(catalog, path.package, name):
                yield bundle


MAX_UPDATES = 1_000_000
"""Updates of a package that are checked, those with the same bundles installed before counted once."""


class _Visited:
    """The updates of a package that were checked on other paths, after which nothing on a path can be new."""

    def __init__(self) -> None:
        self._package = ""
        self._seen: set[int] = set()

    @staticmethod
    def updates(path: UpdatePath) -> Iterator[tuple[str, str, object]]:
        """Yield the installed and the next bundle of each update, and the token of the latter."""
        installed = path.installed
        for name, token in zip(path.hops, path.tokens(), strict=False):
            yield installed, name, token
            installed = name

    def add(self, package: str, token: object, *state: object) -> bool:
        """Add the state before an update, and return whether it was known; raise LimitExceeded for too many."""
        if package != self._package:
            self._package, self._seen = package, set()
        seen = hash((token, state))  # states can be large
        if token is None or seen not in self._seen:
            self._seen.add(seen)
            if len(self._seen) > MAX_UPDATES:
                raise LimitExceeded(
                    f"package {package}: more than {MAX_UPDATES} updates that differ in what was installed before",
                    hint="truncate its channels, or plan other packages",
                )
            return False
        return True


def _refusals(
    old: Mapping[str, Any], new: Mapping[str, Any] | None, stored: tuple[str, ...], olm: OlmVersion
) -> Iterator[str]:
    if new is not None and new != old:
        changes = (olm_v0_changes if olm is OlmVersion.V0 else olm_v1_changes)(old, new, stored)
        yield from (str(change) for change in changes if change.severity is Severity.ERROR)


class _Definitions(Struct):
    """The definitions of the bundles of a catalog, each decoded once."""

    catalog: Catalog
    complete: Mapping[str, BundleBlob]
    _known: dict[tuple[str, str], dict[str, Mapping[str, Any]]] = {}

    def of_bundle(self, package: str, name: str) -> dict[str, Mapping[str, Any]]:
        """Return the definitions of a bundle by name, none if they are unknown."""
        if (package, name) not in self._known:
            bundles = self.catalog.packages[package].bundles if package in self.catalog.packages else {}
            bundle = bundles.get(name)
            self._known[package, name] = bundle_definitions(self.complete.get(bundle.image, bundle)) if bundle else {}
        return self._known[package, name]
