"""Operations that plan what clusters do with catalogs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.api.session import Session
from opmkit.index.modes import OlmVersion

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from opmkit.index.image.source import IndexSource
    from opmkit.index.plan.extension import ExtensionRequest
    from opmkit.index.plan.extension_paths import ExtensionPlan
    from opmkit.index.plan.paths import UpdatePath
    from opmkit.index.plan.request import NamespaceRequest
    from opmkit.index.plan.result import NamespacePlan, UpdatePlan


class PlanOperations(Session):
    """Operations that plan what clusters do with catalogs."""

    def plan_updates(
        self,
        catalog: str,
        published: str,
        packages: Sequence[str] = (),
        *,
        olm: Collection[OlmVersion] = (OlmVersion.V0,),
    ) -> UpdatePlan:
        """Plan the updates of all versions that a published index can have left installed.

        Args:
            catalog: The new index: index image, catalog directory or database file.
            published: The published index.
            packages: Names of packages, by default all of the published index.
            olm: Versions of OLM whose updates to plan.

        Returns:
            For each version the versions that OLM installs in turn, and why it stops: with OLM v0 in each channel, with
            OLM v1 for an extension that follows all channels, and for one that follows each of them.

        Raises:
            UnknownPackage: The published index does not have a package.
            CatalogError, ImageToolsError: An index cannot be read, or is invalid.
        """
        from opmkit.index.plan.extension_paths import plan_extension_updates
        from opmkit.index.plan.paths import plan_updates
        from opmkit.index.plan.result import UpdatePlan
        from opmkit.index.suggestions import unknown_packages

        paths: list[UpdatePath] = []
        sources = self._source(catalog), self._source(published)
        after, before = (source.catalog() for source in sources)
        for error in unknown_packages(packages, before.packages):
            raise error
        if OlmVersion.V0 in olm:
            paths += plan_updates(after, before, packages)
        if OlmVersion.V1 in olm:
            new, old = (source.blobs() for source in sources)
            paths += plan_extension_updates(new, old, packages)
        return UpdatePlan(tuple(paths))

    def plan_namespace(self, catalogs: Mapping[str, str], request: NamespaceRequest) -> NamespacePlan:
        """Plan what OLM v0 installs and updates in a namespace, resolution by resolution.

        Args:
            catalogs: Indexes by the names of their CatalogSources.
            request: The Subscriptions and the installed operators.

        Raises:
            CatalogError, ImageToolsError: An index cannot be read, or an installed bundle does not exist.
        """
        from opmkit.index.plan.result import NamespacePlan
        from opmkit.index.plan.walk import walk

        read = {name: self._source(index).catalog() for name, index in catalogs.items()}
        return NamespacePlan(walk(request.build(read)))

    def plan_extension(
        self, catalogs: Mapping[str, str], request: ExtensionRequest, *, priorities: Mapping[str, int] | None = None
    ) -> ExtensionPlan:
        """Plan what OLM v1 installs for a ClusterExtension, update by update.

        Args:
            catalogs: Indexes by the names of their ClusterCatalogs.
            request: What the extension asks for. If the installed bundle has no version, that of a catalog is used.
            priorities: Priorities of the ClusterCatalogs by name, 0 by default.

        Raises:
            CatalogError, ImageToolsError: An index cannot be read, a range is invalid, a catalog with a priority does
                not exist, or the version of the installed bundle is unknown.
        """
        from opmkit.index.plan.extension import ExtensionCatalog
        from opmkit.index.plan.extension_paths import plan_extension
        from opmkit.index.suggestions import check_catalog_names

        given = priorities or {}
        check_catalog_names(given, catalogs)
        opened = []
        for name, index in sorted(catalogs.items()):
            source = self._source(index)
            source.catalog()  # OLM serves valid catalogs only
            opened.append(ExtensionCatalog(name, source.blobs(), given.get(name, 0)))
        return plan_extension(request.with_installed_version(opened), opened)

    def _source(self, index: str) -> IndexSource:
        from opmkit.index.image.source import IndexSource

        return IndexSource.find(lambda: self._tool, index)
