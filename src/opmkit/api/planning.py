"""Operations that plan what clusters do with catalogs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.api.session import Session

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opmkit.index.fbc.model import Catalog
    from opmkit.index.plan.request import NamespaceRequest
    from opmkit.index.plan.result import NamespacePlan, UpdatePlan


class PlanOperations(Session):
    """Operations that plan what clusters do with catalogs."""

    def plan_updates(self, catalog: str, published: str, packages: Sequence[str] = ()) -> UpdatePlan:
        """Plan the updates of all versions that a published index can have left installed.

        Args:
            catalog: The new index: index image, catalog directory or database file.
            published: The published index.
            packages: Names of packages, by default all of the published index.

        Returns:
            For each version in each channel the versions that OLM v0 installs in turn, and why it stops.

        Raises:
            UnknownPackage: The published index does not have a package.
            CatalogError, ImageToolsError: An index cannot be read, or is invalid.
        """
        from opmkit.index.plan.paths import plan_updates
        from opmkit.index.plan.result import UpdatePlan
        from opmkit.index.suggestions import unknown_packages

        before = self._read_catalog(published)
        for error in unknown_packages(packages, before.packages):
            raise error
        return UpdatePlan(tuple(plan_updates(self._read_catalog(catalog), before, packages)))

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

        return NamespacePlan(walk(request.build({name: self._read_catalog(index) for name, index in catalogs.items()})))

    def _read_catalog(self, index: str) -> Catalog:
        from opmkit.index.image.source import IndexSource

        return IndexSource.find(lambda: self._tool, index).catalog()
