"""CustomResourceDefinitions along update paths: the updates that OLM refuses because of one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from opmkit.bundle.crd_upgrade import olm_v0_changes, olm_v1_changes, stored_versions
from opmkit.bundle.finding import Severity
from opmkit.bundle.validation.compat import OlmVersion
from opmkit.index.fbc.csv_metadata import bundle_definitions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from opmkit.index.fbc.model import Catalog
    from opmkit.index.plan.paths import UpdatePath


@dataclass(frozen=True, slots=True)
class RefusedUpdate:
    """An update that OLM refuses because of a CustomResourceDefinition.

    Attributes:
        package: Name of the package.
        installed: Name of the installed bundle.
        next: Name of the bundle that would be installed.
        definition: Name of the CustomResourceDefinition.
        reason: Its unsafe change.
        olm: The OLM that refuses it.
    """

    package: str
    installed: str
    next: str
    definition: str
    reason: str
    olm: OlmVersion = OlmVersion.V0

    def to_dict(self) -> dict[str, str]:
        """Return the update in JSON types."""
        return {
            "package": self.package,
            "installed": self.installed,
            "next": self.next,
            "definition": self.definition,
            "reason": self.reason,
            "olm": self.olm.value,
        }


def refused_updates(paths: Iterable[UpdatePath], catalog: Catalog, published: Catalog) -> tuple[RefusedUpdate, ...]:
    """Return the updates of paths that OLM refuses, as far as the catalogs contain the definitions.

    Each version that was marked for storage earlier on a path counts as stored.
    """
    before, after = _Definitions(published), _Definitions(catalog)
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


def _refusals(
    old: Mapping[str, Any], new: Mapping[str, Any] | None, stored: tuple[str, ...], olm: OlmVersion
) -> Iterator[str]:
    if new is not None and new != old:
        changes = (olm_v0_changes if olm is OlmVersion.V0 else olm_v1_changes)(old, new, stored)
        yield from (change.message for change in changes if change.severity is Severity.ERROR)


@dataclass
class _Definitions:
    """The definitions of the bundles of a catalog, each decoded once."""

    catalog: Catalog
    _known: dict[tuple[str, str], dict[str, Mapping[str, Any]]] = field(default_factory=dict)

    def of_bundle(self, package: str, name: str) -> dict[str, Mapping[str, Any]]:
        """Return the definitions of a bundle by name, none if the catalog does not contain them."""
        if (package, name) not in self._known:
            bundles = self.catalog.packages[package].bundles if package in self.catalog.packages else {}
            self._known[package, name] = bundle_definitions(bundles[name]) if name in bundles else {}
        return self._known[package, name]
