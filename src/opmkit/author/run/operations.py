"""Run bundles and package manifests in a cluster: pull, render and serve them, and install the operator."""

from __future__ import annotations

import base64
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.author.run.errors import OlmError
from opmkit.author.run.install_mode import InstallMode
from opmkit.author.run.installation import InstallRequest, install_operator
from opmkit.author.run.objects import text
from opmkit.author.run.package_manifests import OperatorVersion, check_bundle, select_version
from opmkit.author.run.registry_pod import DEFAULT_IMAGE, PodOptions
from opmkit.author.run.resources import InjectedBundles, is_empty_index
from opmkit.author.run.serving import CHANNEL, ServedCatalog, add_sequence
from opmkit.author.run.session import WaitDeadline, check_cluster
from opmkit.author.run.upgrade import UpgradeRequest, upgrade_operator
from opmkit.bundle.pull import BundleFetcher, pull_bundles
from opmkit.core.files import disk_errors, read_limited
from opmkit.index.fbc.from_bundle import bundle_to_blob
from opmkit.index.image.source import IndexSource, SourceKind
from opmkit.index.render import RenderOptions, render
from opmkit.kube.api import SECRET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from opmkit.author.run.installation import InstalledOperator
    from opmkit.bundle.model import Bundle
    from opmkit.core.cache import ResultCache
    from opmkit.core.progress import OperationReporter
    from opmkit.imagetools.registry import RegistryOptions
    from opmkit.imagetools.tools.registry import RegistryTool
    from opmkit.index.fbc.blobs import Blobs
    from opmkit.kube import Cluster
    from opmkit.kube.access import ClusterAccess


class OperatorRun(Struct, frozen=True):
    """One run of an operator in a cluster.

    Attributes:
        cluster: The cluster, whose default namespace the operator is installed in.
        options: How to run it.
        mode: The requested install mode, None for the default one.
        deadline: The time until the run fails.
        reporter: Receiver of reports.
    """

    cluster: Cluster
    options: OperatorRunOptions
    mode: InstallMode | None
    deadline: WaitDeadline
    reporter: OperationReporter

    @classmethod
    def begin(cls, access: ClusterAccess, options: OperatorRunOptions, reporter: OperationReporter) -> OperatorRun:
        """Start the time, and check the cluster, which takes less time than to pull images.

        Raises:
            InvalidInstallMode: The install mode is invalid.
            OlmNotInstalled: The cluster does not have OLM.
            OlmError: The namespace does not exist.
            ClusterError: The cluster cannot be reached, or rejects a request.
        """
        deadline = WaitDeadline(options.timeout)
        mode = InstallMode.parse(options.install_mode) if options.install_mode else None
        cluster = access.connect()
        check_cluster(cluster, cluster.namespace)
        return cls(cluster, options, mode, deadline, reporter)

    def run_bundle(self, images: ImageReader, bundle: str) -> InstalledOperator:
        """Install the operator of a bundle, see `install_operator`."""
        index, pod = self.options.index, self.options.pod
        loaded = images.load_bundle(bundle)
        blobs = add_sequence(images.render([] if is_empty_index(index) else [index]), [bundle_to_blob(loaded)])
        pod = pod if pod.image else replace(pod, image=images.serving_image(index))
        added = (loaded.image,) if loaded.image else ()
        injected = InjectedBundles(pod.image if Path(index).exists() else index, added)
        return self._install(OperatorVersion.from_bundle(loaded), CHANNEL, ServedCatalog(blobs, injected, pod))

    def upgrade_bundle(self, images: ImageReader, bundle: str) -> InstalledOperator:
        """Upgrade an installed operator to the version in a bundle, see `upgrade_operator`."""
        loaded = images.load_bundle(bundle)
        operator = OperatorVersion.from_bundle(loaded)
        request = UpgradeRequest(operator, bundle_to_blob(loaded), self.options.pod, images.render)
        self.reporter.started(operator.package, self.cluster.namespace)
        return upgrade_operator(self.cluster, request, self.cluster.namespace, self.deadline, self.reporter)

    def run_package_manifests(self, directory: Path, version: str) -> InstalledOperator:
        """Install an operator from a directory of package manifests, see `install_operator`."""
        selected, pod = select_version(directory, version), self.options.pod
        pod = pod if pod.image else replace(pod, image=DEFAULT_IMAGE)
        catalog = ServedCatalog(selected.blobs, InjectedBundles(DEFAULT_IMAGE, ()), pod)
        return self._install(selected.operator, selected.channel, catalog)

    def _install(self, operator: OperatorVersion, channel: str, catalog: ServedCatalog) -> InstalledOperator:
        request = InstallRequest(operator, channel, catalog, self.mode)
        self.reporter.started(operator.package, self.cluster.namespace)
        return install_operator(self.cluster, request, self.cluster.namespace, self.deadline, self.reporter)


class ImageReader(Struct, frozen=True):
    """Reads the images of a run.

    Attributes:
        tool: Returns the registry tool.
        cache: Cache of rendered bundle images.
        reporter: Receiver of reports.
    """

    tool: Callable[[], RegistryTool]
    cache: ResultCache
    reporter: OperationReporter

    def load_bundle(self, text: str) -> Bundle:
        """Pull a bundle that clusters can pull as well, or that the catalog can contain."""
        with self.reporter.step() as progress:
            (bundle,) = pull_bundles(BundleFetcher(self.tool()), [text], warn=self.reporter.warn, progress=progress)
        check_bundle(bundle)
        return bundle

    def render(self, references: Sequence[str]) -> Blobs:
        """Return the blobs of index images and bundle images."""
        with self.reporter.step() as progress:
            options = RenderOptions(cache=self.cache, warn=self.reporter.warn)
            return render(self.tool, references, options, progress=progress)

    def serving_image(self, index: str) -> str:
        """Return the image that serves a catalog with the content of an index: the index image, since it contains opm.

        A database may be older than the command that serves catalogs, so the image of a database is not used.
        """
        if is_empty_index(index):
            return index
        return index if IndexSource.find(self.tool, index).kind is SourceKind.CATALOG_IMAGE else DEFAULT_IMAGE


@contextmanager
def trusting_secret(registries: RegistryOptions, cluster: Cluster, secret: str) -> Iterator[RegistryOptions]:
    """Provide registry options with the certificate authorities in a Secret, in addition to those of ``registries``."""
    with NamedTemporaryFile(prefix="opm-ca-", suffix=".pem") as file:
        file.write(read_certificates(cluster, secret))
        if registries.ca_file:
            with disk_errors(registries.ca_file):
                file.write(b"\n" + read_limited(registries.ca_file))
        file.flush()
        yield replace(registries, ca_file=Path(file.name))


CERTIFICATE_KEY = "cert.pem"


def read_certificates(cluster: Cluster, name: str) -> bytes:
    """Return the certificate authorities in a Secret, in PEM.

    Raises:
        OlmError: The Secret does not exist, or does not have the key ``cert.pem``.
        ClusterError: The cluster cannot be reached or rejects the request.
    """
    found = cluster.find(SECRET, name)
    where = f"Secret {cluster.namespace}/{name}"
    if found is None:
        raise OlmError(f"{where}: not found", hint=f"create it with the key {CERTIFICATE_KEY}")
    try:
        certificates = base64.b64decode(text(found, "data", CERTIFICATE_KEY), validate=True)
    except ValueError:
        certificates = b""
    if b"-----BEGIN CERTIFICATE-----" not in certificates:
        raise OlmError(
            f"{where}: no certificate in the key {CERTIFICATE_KEY}", hint="store certificates in PEM under this key"
        )
    return certificates


DEFAULT_TIMEOUT = 120.0
"""Seconds until an operation in a cluster fails."""


@dataclass(frozen=True, slots=True)
class OperatorRunOptions:
    """Options to run an operator in a cluster.

    Attributes:
        install_mode: ``OwnNamespace``, ``AllNamespaces``, ``SingleNamespace=NAME`` or ``MultiNamespace=NAME,...``; ""
            for AllNamespaces or OwnNamespace, as the operator supports.
        index: Index to add the bundle to, for its dependencies; the default has no catalog.
        pod: Options of the pod that serves the catalog. Without an image, the pod has that of the index if it contains
            opm, or that of the present pod for an upgrade.
        ca_secret: Secret whose key ``cert.pem`` has certificate authorities to trust when images are pulled.
        timeout: Seconds until the operation fails.
    """

    install_mode: str = ""
    index: str = DEFAULT_IMAGE
    pod: PodOptions = field(default_factory=lambda: PodOptions(image=""))
    ca_secret: str = ""
    timeout: float = DEFAULT_TIMEOUT


@dataclass(frozen=True, slots=True)
class CleanupOptions:
    """Options to remove an operator from a cluster.

    Attributes:
        delete_crds: Whether to delete its CustomResourceDefinitions, with all custom resources.
        delete_groups: Whether to delete the OperatorGroup that was created for it.
        timeout: Seconds until the operation fails.
    """

    delete_crds: bool = True
    delete_groups: bool = True
    timeout: float = DEFAULT_TIMEOUT
