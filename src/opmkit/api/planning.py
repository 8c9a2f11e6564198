"""Operations that plan what clusters do with catalogs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.api.session import Session
from opmkit.bundle.validation.compat import OlmVersion
from opmkit.core.progress import NO_PROGRESS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from opmkit.core.progress import Progress
    from opmkit.index.image.source import IndexSource
    from opmkit.index.plan.cluster import ClusterPlan, ClusterState
    from opmkit.index.plan.extension import ExtensionRequest
    from opmkit.index.plan.extension_paths import ExtensionPlan
    from opmkit.index.plan.paths import UpdatePath
    from opmkit.index.plan.platform import PlatformPlan
    from opmkit.index.plan.request import NamespaceRequest
    from opmkit.index.plan.result import NamespacePlan, UpdatePlan
    from opmkit.kube.access import ClusterAccess


MAX_CLUSTER_STATE = 1 << 29
"""Maximum size of a file with the state of a cluster, in bytes."""


class PlanOperations(Session):
    """Operations that plan what clusters do with catalogs."""

    def plan_updates(
        self,
        catalog: str,
        published: str,
        packages: Sequence[str] = (),
        *,
        olm: Collection[OlmVersion] = (OlmVersion.V0,),
        permissions: bool = False,
        pull_bundles: bool = False,
        progress: Progress = NO_PROGRESS,
    ) -> UpdatePlan:
        """Plan the updates of all versions that a published index can have left installed.

        Args:
            catalog: The new index: index image, catalog directory or database file.
            published: The published index.
            packages: Names of packages, by default all of the published index.
            olm: Versions of OLM whose updates to plan.
            permissions: Whether to compare the permissions of operators before and after each update.
            pull_bundles: Read the objects that the indexes do not contain from the bundle images.
            progress: Receiver of progress reports.

        Returns:
            For each version the versions that OLM installs in turn, and why it stops: with OLM v0 in each channel, with
            OLM v1 for an extension that follows all channels, and for one that follows each of them; and the
            updates that OLM refuses because of a CustomResourceDefinition, and those by which operators gain dangerous
            permissions, as far as the bundles are known.

        Raises:
            UnknownPackage: The published index does not have a package.
            CatalogError, BundleError, ImageToolsError: An index or a bundle cannot be read, or is invalid.
        """
        from opmkit.index.plan.edges import gained_permissions, review_updates
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
        read = self._bundle_reader(progress) if pull_bundles else None
        read_permissions = self._permission_reader(progress) if pull_bundles else None
        reviewed = review_updates(paths, after, before, read)
        gained = gained_permissions(reviewed.paths, after, before, read_permissions) if permissions else ()
        return UpdatePlan(reviewed.paths, reviewed.refused, gained)

    def plan_namespace(self, catalogs: Mapping[str, str], request: NamespaceRequest) -> NamespacePlan:
        """Plan what OLM v0 installs and updates in a namespace, resolution by resolution.

        Args:
            catalogs: Indexes by the names of their CatalogSources.
            request: The Subscriptions and the installed operators.

        Raises:
            CatalogError, ImageToolsError: An index cannot be read, or an installed bundle does not exist.
        """
        from opmkit.index.plan.result import NamespacePlan

        read = {name: self._source(index).catalog() for name, index in catalogs.items()}
        return NamespacePlan.of_namespace(request.build(read))

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

    def plan_platforms(
        self,
        catalogs: Mapping[str, str],
        installed: Sequence[str],
        *,
        channels: Mapping[str, str] | None = None,
        pull_bundles: bool = False,
    ) -> PlatformPlan:
        """Plan what operators need while a cluster is updated through versions of OpenShift.

        Args:
            catalogs: The index of each version of OpenShift, such as ``4.18``.
            installed: Names of bundles that are installed on the first version.
            channels: Channels that Subscriptions follow, by package; by default the default channel, if it has the
                bundle.
            pull_bundles: Read the label ``com.redhat.openshift.versions`` of the bundle images.

        Raises:
            CatalogError: A version is invalid or duplicate, or a bundle is not in the first index or in its channel.
            CatalogError, ImageToolsError: An index cannot be read.
        """
        from opmkit.index.plan.platform import PlatformCatalog, parse_platforms, plan_platforms

        platforms = []
        for version, index in parse_platforms(catalogs):
            source = self._source(index)
            platforms.append(PlatformCatalog(version, source.catalog(), source.blobs().others))
        return plan_platforms(platforms, installed, channels, self._openshift_versions if pull_bundles else None)

    def _openshift_versions(self, image: str) -> str:
        """Return the versions of OpenShift that the label of a bundle image names, or ""."""
        from opmkit.bundle.validation.openshift import VERSIONS
        from opmkit.imagetools.reference import parse_image_reference

        return self._registry_tool.inspect(parse_image_reference(image)).labels.get(VERSIONS, "")

    def read_cluster(self, source: ClusterAccess | Path) -> ClusterState:
        """Read the state of OLM v0 in a cluster: operators, Subscriptions, CatalogSources and OperatorGroups.

        Args:
            source: The cluster, or a file with the output of
                ``kubectl get csv,subscription,catalogsource,operatorgroup -A -o json``.

        Raises:
            ClusterError: The cluster cannot be reached, or has no OLM.
            CatalogError: It has no Subscription, or the file is invalid.
            DiskError: The file cannot be read.
        """
        from opmkit.core.files import disk_errors, read_limited
        from opmkit.index.plan.cluster import ClusterState
        from opmkit.kube.api import ALL_NAMESPACES, CATALOG_SOURCE, CSV, OPERATOR_GROUP, SUBSCRIPTION

        if isinstance(source, Path):
            with disk_errors(source):
                return ClusterState.parse(read_limited(source, MAX_CLUSTER_STATE), str(source))
        cluster = source.connect()
        return ClusterState.of_objects(
            {**found, "kind": resource.kind}  # objects in lists have no kind
            for resource in (CSV, SUBSCRIPTION, CATALOG_SOURCE, OPERATOR_GROUP)
            for found in cluster.list(resource, ALL_NAMESPACES)
        )

    def plan_cluster(self, state: ClusterState, catalogs: Mapping[str, str] | None = None) -> ClusterPlan:
        """Plan what OLM v0 installs and updates in each namespace of a cluster.

        Args:
            state: The state of the cluster.
            catalogs: Indexes that replace those of CatalogSources, by ``NAME`` or ``NAMESPACE/NAME``. The index of each
                other CatalogSource is its image.

        Raises:
            CatalogError: A CatalogSource does not exist, or has no image.
            CatalogError, ImageToolsError: An index cannot be read.
        """
        from opmkit.index.plan.candidate import list_candidates
        from opmkit.index.plan.cluster import plan_cluster
        from opmkit.index.plan.namespace import ResolvableCatalog

        given = {state.find_source(name).key: index for name, index in (catalogs or {}).items()}
        opened = []
        for source in state.needed_sources():
            catalog = self._source(given.get(source.key) or source.index()).catalog()
            opened.append(ResolvableCatalog(source.key, list_candidates(catalog, source.key), source.priority))
        return plan_cluster(state, opened)

    def _source(self, index: str) -> IndexSource:
        from opmkit.index.image.source import IndexSource

        return IndexSource.find(lambda: self._tool, index)
