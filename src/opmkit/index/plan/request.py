"""Namespaces to plan, as users describe them: catalogs, Subscriptions and installed operators by their names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opmkit.index.errors import CatalogError
from opmkit.index.plan.candidate import CatalogEntry, CatalogKey, installed_properties, list_candidates
from opmkit.index.plan.namespace import Namespace, ResolvableCatalog, Subscription
from opmkit.index.suggestions import check_catalog_names, did_you_mean, suggest_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opmkit.index.fbc.model import Catalog

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
        installed: Names of installed bundles, or ``NAME=VERSION`` of bundles that no catalog has; those of packages
            without a Subscription have none.
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
            CatalogError: A catalog or an installed bundle does not exist, or two installed bundles are of one package.
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
        bundles = [self._find_bundle(text, entries) for text in dict.fromkeys(self.installed)]
        by_package = _by_package(bundles)
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

    def _find_bundle(self, text: str, catalogs: Sequence[ResolvableCatalog]) -> CatalogEntry:
        """Return the installed bundle called ``NAME``, or ``NAME=VERSION`` if catalogs do not have it."""
        name, _, version = text.partition("=")
        entries = [entry for catalog in catalogs for entry in catalog.entries]
        found = next((entry for entry in entries if entry.name == name), None)
        if version and not found:
            return CatalogEntry(installed_properties(name, self._package_of(name), version), catalogs[0].key)
        if not found:
            similar = did_you_mean(name, [entry.name for entry in entries])
            raise CatalogError(
                f"installed bundle {name!r} not found in a catalog",
                hint=f"{similar} otherwise add its version: {name}=1.2.3".lstrip(),
            )
        if version and version != found.bundle.version_text:
            raise CatalogError(
                f"installed bundle {name!r} has version {found.bundle.version_text}, not {version}",
                hint="omit the version of a bundle that a catalog has",
            )
        return found

    def _package_of(self, name: str) -> str:
        """Return the package of a bundle that no catalog has: that of the Subscription that it is named for."""
        packages = [request.package for request in self.subscriptions]
        if len(packages) == 1:
            return packages[0]
        return max((each for each in packages if name.startswith((f"{each}.", f"{each}-"))), key=len, default="")


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


def _by_package(bundles: Sequence[CatalogEntry]) -> dict[str, str]:
    """Return the names of installed bundles by package; raise CatalogError for two of one package."""
    found: dict[str, str] = {}
    for bundle in bundles:
        other = found.setdefault(bundle.package, bundle.name) if bundle.package else bundle.name
        if other != bundle.name:
            raise CatalogError(
                f"package {bundle.package}: two installed bundles: {other} and {bundle.name}",
                hint="a namespace can have one operator of a package: name one of them",
            )
    return found
