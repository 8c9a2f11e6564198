"""Operations that write Kubernetes manifests for indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.api.session import Session
from opmkit.core.progress import NO_OPERATION_REPORTS

if TYPE_CHECKING:
    from opmkit.core.progress import OperationReporter
    from opmkit.index.operations.manifests.olm_v0 import CatalogSourceOptions
    from opmkit.index.operations.manifests.olm_v1.manifests import ClusterCatalogOptions, ClusterExtensionOptions
    from opmkit.index.operations.manifests.resources import Installation, OlmManifests


class ManifestOperations(Session):
    """Operations that write Kubernetes manifests for indexes."""

    def build_olm_v0_manifests(
        self,
        index: str,
        options: CatalogSourceOptions | None = None,
        installation: Installation | None = None,
        *,
        reporter: OperationReporter = NO_OPERATION_REPORTS,
    ) -> OlmManifests:
        """Return the CatalogSource for an index, and the Subscription and OperatorGroup that install a package.

        Channel and target namespaces are looked up in the index. An index that cannot be read is a warning.

        Args:
            index: Index image; if the options have an address, any index to look up the package in, or "".
            options: Options of the CatalogSource.
            installation: The package to install; by default only the CatalogSource is returned.
            reporter: Receiver of the steps.

        Raises:
            CatalogError: Clusters cannot pull the index or would reject an option, or the package cannot be installed.
            ImageToolsError: The reference of the image is invalid.
        """
        from opmkit.imagetools.tools import NO_ENGINE
        from opmkit.index.operations.manifests.olm_v0 import CatalogSourceOptions, build_olm_v0_manifests

        source = (options or CatalogSourceOptions()).source(index)
        registry_tool = (lambda: self._registry_tool) if self.container_tool in NO_ENGINE else None
        return build_olm_v0_manifests(index, source, installation, lambda: self._tool, registry_tool, reporter)

    def build_olm_v1_manifests(
        self,
        index: str,
        options: ClusterCatalogOptions | None = None,
        extension: ClusterExtensionOptions | None = None,
    ) -> OlmManifests:
        """Return the ClusterCatalog for an index, and the ClusterExtension and ServiceAccount that install a package.

        The ServiceAccount gets the permissions that the bundle needs. An index or bundle that cannot be read is a
        warning.

        Args:
            index: Index image with a file-based catalog.
            options: Options of the ClusterCatalog.
            extension: The package to install; by default only the ClusterCatalog is returned.

        Raises:
            CatalogError: Clusters cannot pull the index or would reject an option, or the package cannot be installed.
            ImageToolsError: The reference of the image, or the container tool, is invalid.
        """
        from opmkit.index.operations.manifests.olm_v1.manifests import ClusterCatalogOptions, build_olm_v1_manifests

        catalog = (options or ClusterCatalogOptions()).catalog(index)
        return build_olm_v1_manifests(catalog, extension, lambda: self._tool)
