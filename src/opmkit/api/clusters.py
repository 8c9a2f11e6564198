"""Operations on operators and OLM in clusters."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from opmkit.api.session import Session
from opmkit.core.progress import NO_OPERATION_REPORTS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from opmkit.author.install.operations import OlmOptions, OlmState
    from opmkit.author.install.release import ReleaseReader
    from opmkit.author.run.cleanup import RemovedOperator
    from opmkit.author.run.installation import InstalledOperator
    from opmkit.author.run.operations import CleanupOptions, ImageReader, OperatorRun, OperatorRunOptions
    from opmkit.core.progress import OperationReporter
    from opmkit.kube.access import ClusterAccess


class ClusterOperations(Session):
    """Operations on operators and OLM in clusters."""

    def run_bundle(
        self,
        bundle: str,
        cluster: ClusterAccess,
        options: OperatorRunOptions | None = None,
        *,
        reporter: OperationReporter = NO_OPERATION_REPORTS,
    ) -> InstalledOperator:
        """Install the operator of a bundle in a cluster with OLM, and wait until it runs.

        The bundle is added to a catalog in the namespace, which a pod serves; `clean_up` removes everything.

        Args:
            bundle: Bundle image, which the cluster also pulls, or bundle directory.
            cluster: The cluster and the namespace.
            options: Options of the catalog, the pod and the installation.
            reporter: Receiver of reports.

        Raises:
            OlmError: OLM, the namespace or the install mode does not allow the installation, or it failed.
            ClusterError: The cluster cannot be reached, or rejects a request.
            BundleError, CatalogError, ImageToolsError: The bundle or the index cannot be read or combined.
        """
        run = _begin(cluster, options, reporter)
        with self._image_reader(run) as images:
            return run.run_bundle(images, bundle)

    def upgrade_bundle(
        self,
        bundle: str,
        cluster: ClusterAccess,
        options: OperatorRunOptions | None = None,
        *,
        reporter: OperationReporter = NO_OPERATION_REPORTS,
    ) -> InstalledOperator:
        """Upgrade an installed operator to the version in a bundle, and wait until it runs.

        The bundle is added to the catalog of the operator's Subscription, where it replaces the installed version.

        Args:
            bundle: Bundle image or directory, as for `run_bundle`.
            cluster: The cluster and the namespace.
            options: Options of the pod; the index and the install mode are those of the installation.
            reporter: Receiver of reports.

        Raises:
            OlmError: The package is not installed, or the upgrade failed.
            ClusterError: The cluster cannot be reached, or rejects a request.
            BundleError, CatalogError, ImageToolsError: The bundle cannot be read, or added to the catalog.
        """
        run = _begin(cluster, options, reporter)
        with self._image_reader(run) as images:
            return run.upgrade_bundle(images, bundle)

    def run_package_manifests(
        self,
        directory: Path,
        cluster: ClusterAccess,
        options: OperatorRunOptions | None = None,
        *,
        version: str = "",
        reporter: OperationReporter = NO_OPERATION_REPORTS,
    ) -> InstalledOperator:
        """Install an operator from a directory of package manifests, and wait until it runs.

        Args:
            directory: Directory with the manifest of a package, and a directory for each version.
            cluster: The cluster and the namespace.
            options: Options of the pod and the installation.
            version: Version to install, by default the head of the default channel.
            reporter: Receiver of reports.

        Raises:
            OlmError: OLM, the namespace or the install mode does not allow the installation, or it failed.
            ClusterError: The cluster cannot be reached, or rejects a request.
            CatalogError: A manifest is invalid, or the version does not exist.
        """
        return _begin(cluster, options, reporter).run_package_manifests(directory, version)

    def clean_up(
        self,
        package: str,
        cluster: ClusterAccess,
        options: CleanupOptions | None = None,
        *,
        reporter: OperationReporter = NO_OPERATION_REPORTS,
    ) -> RemovedOperator:
        """Remove an operator from a cluster, with everything that `run_bundle` created; other operators keep theirs.

        Args:
            package: Package of the operator.
            cluster: The cluster and the namespace.
            options: The objects to remove as well.
            reporter: Receiver of reports.

        Returns:
            The removed and retained objects; none if the package is not installed.

        Raises:
            OlmError: The cluster does not have OLM, or objects still exist after the timeout.
            ClusterError: The cluster cannot be reached, or rejects a request.
        """
        from opmkit.author.run.cleanup import RemovedOperator, clean_up
        from opmkit.author.run.operations import CleanupOptions
        from opmkit.author.run.session import WaitDeadline

        options = options or CleanupOptions()
        deadline, client = WaitDeadline(options.timeout), cluster.connect()
        removals = clean_up(
            client,
            package,
            client.namespace,
            deadline,
            reporter,
            delete_crds=options.delete_crds,
            delete_groups=options.delete_groups,
        )
        return RemovedOperator(package, client.namespace, tuple(removals))

    def install_olm(
        self,
        cluster: ClusterAccess,
        options: OlmOptions | None = None,
        *,
        reporter: OperationReporter = NO_OPERATION_REPORTS,
    ) -> OlmState:
        """Install OLM in a cluster, and wait until it runs; an installation that failed is continued.

        Args:
            cluster: The cluster.
            options: The release.
            reporter: Receiver of reports.

        Raises:
            OlmError: The release cannot be read, OLM is installed, or does not run.
            ClusterError: The cluster cannot be reached, or rejects a request.
            ImageToolsError: The image with the release cannot be read.
        """
        from opmkit.author.install.operations import OlmOptions, install_olm

        return install_olm(cluster, self._release_reader, options or OlmOptions(), reporter)

    def olm_state(
        self,
        cluster: ClusterAccess,
        options: OlmOptions | None = None,
        *,
        reporter: OperationReporter = NO_OPERATION_REPORTS,
    ) -> OlmState:
        """Return the state of the objects of OLM in a cluster.

        Args:
            cluster: The cluster.
            options: The release, by default the installed one.
            reporter: Receiver of reports.

        Raises:
            OlmError: OLM is not installed, the release cannot be read, or another one is installed.
            ClusterError: The cluster cannot be reached, or rejects a request.
            ImageToolsError: The image with the release cannot be read.
        """
        from opmkit.author.install.operations import OlmOptions, olm_state

        return olm_state(cluster, self._release_reader, options or OlmOptions(), reporter)

    def uninstall_olm(
        self,
        cluster: ClusterAccess,
        options: OlmOptions | None = None,
        *,
        reporter: OperationReporter = NO_OPERATION_REPORTS,
    ) -> OlmState:
        """Remove OLM from a cluster, with its CustomResourceDefinitions and all Subscriptions and installed versions.

        Args:
            cluster: The cluster.
            options: The release, by default the installed one.
            reporter: Receiver of reports.

        Raises:
            OlmError: OLM is not installed, the release cannot be read, or objects still exist after the timeout.
            ClusterError: The cluster cannot be reached, or rejects a request.
            ImageToolsError: The image with the release cannot be read.
        """
        from opmkit.author.install.operations import OlmOptions, uninstall_olm

        return uninstall_olm(cluster, self._release_reader, options or OlmOptions(), reporter)

    @property
    def _release_reader(self) -> ReleaseReader:
        from opmkit.author.install.release import ReleaseReader

        return ReleaseReader(self.registries, lambda: self._registry_tool)

    @contextmanager
    def _image_reader(self, run: OperatorRun) -> Iterator[ImageReader]:
        """Provide the reader of images, which trusts the certificate authorities in a Secret, if any."""
        from opmkit.author.run.operations import ImageReader, trusting_secret

        cache = self._render_cache
        if not run.options.ca_secret:
            yield ImageReader(lambda: self._registry_tool, cache, run.reporter)
            return
        from opmkit.imagetools.registry import RegistryClient
        from opmkit.imagetools.tools.registry import RegistryTool

        with trusting_secret(self.registries, run.cluster, run.options.ca_secret) as registries:
            tool = RegistryTool(RegistryClient(registries), self._store)
            yield ImageReader(lambda: tool, cache, run.reporter)


def _begin(cluster: ClusterAccess, options: OperatorRunOptions | None, reporter: OperationReporter) -> OperatorRun:
    from opmkit.author.run.operations import OperatorRun, OperatorRunOptions

    return OperatorRun.begin(cluster, options or OperatorRunOptions(), reporter)
