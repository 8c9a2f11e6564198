"""Namespaces to plan, as users describe them: catalogs, Subscriptions and installed operators by their names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opmkit.index.errors import CatalogError
from opmkit.index.plan.candidate import CatalogKey, list_candidates
from opmkit.index.plan.namespace import Namespace, ResolvableCatalog, Subscription
from opmkit.index.suggestions import check_catalog_names, suggest_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opmkit.index.fbc.model import Catalog
    from opmkit.index.plan.candidate import CatalogEntry

NAMESPACE = "operators"
"""Name of a namespace that the user does not name."""


@dataclass(frozen=True, slots=True)
class ChannelRequest:
    """A Subscription to plan.

    Attributes:
        package: Name of the package.
        channel: Name of the channel, or "" for any.
        catalog: Name of the catalog, or "" for the only one that has the package.
    """

    package: str
    channel: str = ""
    catalog: str = ""

    @classmethod
    def parse(cls, text: str) -> ChannelRequest:
        """Parse ``PACKAGE[/CHANNEL][@CATALOG]``.

        Raises:
            CatalogError: The package is missing.
        """
        name, _, catalog = text.partition("@")
        package, _, channel = name.partition("/")
        if not package:
            raise CatalogError(
                f"invalid Subscription {text!r}", hint="write PACKAGE, PACKAGE/CHANNEL or PACKAGE/CHANNEL@CATALOG"
            )
        return cls(package, channel, catalog)


@dataclass(frozen=True, slots=True)
class NamespaceRequest:
    """A namespace to plan.

    Attributes:
        subscriptions: The Subscriptions.
        installed: Names of installed bundles; those of packages without a Subscription have none.
        priorities: Priorities of catalogs by name, 0 by default.
        namespace: Name of the namespace.
    """

    subscriptions: tuple[ChannelRequest, ...] = ()
    installed: tuple[str, ...] = ()
    priorities: Mapping[str, int] = field(default_factory=dict)
    namespace: str = NAMESPACE

    def build(self, catalogs: Mapping[str, Catalog]) -> Namespace:
        """Return the namespace with catalogs by name.

        Raises:
            CatalogError: A catalog or an installed bundle does not exist.
        """
        check_catalog_names(self.priorities, catalogs)
        entries = [
            ResolvableCatalog(
                CatalogKey(name, self.namespace),
                list_candidates(catalog, CatalogKey(name, self.namespace)),
                self.priorities.get(name, 0),
            )
            for name, catalog in catalogs.items()
        ]
        bundles = [_find_bundle(name, entries) for name in self.installed]
        by_package = {bundle.package: bundle.name for bundle in bundles}
        subscriptions = [
            Subscription(
                request.package,
                request.package,
                request.channel,
                _catalog_of(request, entries).key,
                installed_csv=by_package.get(request.package, ""),
            )
            for request in self.subscriptions
        ]
        followed = {subscription.package for subscription in subscriptions}
        installed = [
            bundle.installed(self.namespace, mandatory=bundle.package not in followed)
            for bundle in sorted(bundles, key=lambda bundle: bundle.name)
        ]
        return Namespace(self.namespace, tuple(entries), tuple(subscriptions), tuple(installed))


def _catalog_of(request: ChannelRequest, catalogs: Sequence[ResolvableCatalog]) -> ResolvableCatalog:
    """Return the catalog of a Subscription: the named one, or the only one that has the package."""
    names = [catalog.key.name for catalog in catalogs]
    if request.catalog:
        found = next((catalog for catalog in catalogs if catalog.key.name == request.catalog), None)
        if found is None:
            raise CatalogError(
                f"catalog {request.catalog!r} not found", hint=suggest_names("catalogs", request.catalog, names)
            )
        return found
    having = [catalog for catalog in catalogs if catalog.of_package(request.package)]
    if len(having) > 1:
        raise CatalogError(
            f"package {request.package} is in several catalogs: {', '.join(catalog.key.name for catalog in having)}",
            hint=f"name one of them, such as {request.package}/{request.channel}@{having[0].key.name}",
        )
    return having[0] if having else catalogs[0]


def _find_bundle(name: str, catalogs: Sequence[ResolvableCatalog]) -> CatalogEntry:
    for catalog in catalogs:
        for entry in catalog.entries:
            if entry.name == name:
                return entry
    names = [entry.name for catalog in catalogs for entry in catalog.entries]
    raise CatalogError(f"installed bundle {name!r} not found in a catalog", hint=suggest_names("bundles", name, names))
