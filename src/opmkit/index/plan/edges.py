"""Updates on update paths: which ones OLM refuses because of a CRD, and what operators may do after them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from opmkit.bundle.crd_upgrade import olm_v0_changes, olm_v1_changes, stored_versions
from opmkit.bundle.finding import Severity
from opmkit.bundle.validation.compat import OlmVersion
from opmkit.index.fbc.definitions import RefusedUpdate, bundle_definitions, has_objects, read_missing_objects

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opmkit.index.fbc.blobs import BundleBlob
    from opmkit.index.fbc.definitions import ReadBundles
    from opmkit.index.fbc.model import Catalog
    from opmkit.index.fbc.permissions import PermissionChange, ReadPermissions
    from opmkit.index.plan.paths import UpdatePath


def refused_updates(
    paths: Sequence[UpdatePath], catalog: Catalog, published: Catalog, read: ReadBundles | None = None
) -> tuple[RefusedUpdate, ...]:
    """Return the updates of paths that OLM refuses, as far as the definitions are known.

    Each version that was marked for storage earlier on a path counts as stored.

    Args:
        paths: The update paths.
        catalog: The new catalog.
        published: The published catalog.
        read: Reads the bundles that the catalogs contain without their objects; without it, these are ignored.
    """
    complete = read_missing_objects(_bundles_of(paths, catalog, published), read)
    before, after = _Definitions(published, complete), _Definitions(catalog, complete)
    found: dict[RefusedUpdate, None] = {}
    for path in paths:
        current = before.of_bundle(path.package, path.installed) if path.hops else {}
        stored: dict[str, dict[str, None]] = {}
        for installed, following in zip((path.installed, *path.hops), path.hops, strict=False):
            definitions = after.of_bundle(path.package, following)
            for name, old in current.items():
                names = stored.setdefault(name, {})
                names |= dict.fromkeys(stored_versions(old))
                for reason in _refusals(old, definitions.get(name), tuple(names), path.olm):
                    found[RefusedUpdate(path.package, installed, following, name, reason, path.olm)] = None
            current = {**current, **definitions}
    return tuple(found)


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
    for path in paths:
        current = _find(published, path.package, path.installed)
        for name in path.hops:
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
    for path in paths:
        if path.hops:
            for source, names in ((published, [path.installed]), (catalog, path.hops)):
                package = source.packages.get(path.package)
                yield from (package.bundles[name] for name in names if package and name in package.bundles)


def _refusals(
    old: Mapping[str, Any], new: Mapping[str, Any] | None, stored: tuple[str, ...], olm: OlmVersion
) -> Iterator[str]:
    if new is not None and new != old:
        changes = (olm_v0_changes if olm is OlmVersion.V0 else olm_v1_changes)(old, new, stored)
        yield from (change.message for change in changes if change.severity is Severity.ERROR)


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
