"""``opm run``: run operators in a cluster with OLM."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.flags.cluster import ClusterFlags
from opmkit.cli.flags.olm import (
    DEFAULT_TIMEOUT,
    AddModeOption,
    CaSecretOption,
    InstallModeOption,
    RegistryPodFlags,
    Timeout,
    parse_install_mode,
    start_deadline,
    warn_of_add_mode,
)
from opmkit.cli.flags.progress import ProgressFlags
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.output.console import Output, OutputFormat, print_json, print_line
from opmkit.cli.output.errors import print_hint, print_warning
from opmkit.cli.output.fbc import render_cache
from opmkit.cli.output.status_lines import report_status
from opmkit.cli.output.streams import printing_result
from opmkit.cli.progress.command import progress
from opmkit.core.lazy import call_once

if TYPE_CHECKING:
    from opmkit import Blobs
    from opmkit.author.run.installation import InstalledOperator
    from opmkit.bundle.model import Bundle
    from opmkit.imagetools.tools.registry import RegistryTool
    from opmkit.index.fbc.blobs import BundleBlob
    from opmkit.kube import Cluster

DEFAULT_INDEX_IMAGE = "quay.io/operator-framework/opm:latest"
BundleArgument = Annotated[
    str, typer.Argument(metavar="BUNDLE", help="Bundle image, which the cluster also pulls, or bundle directory ./DIR")
]


def run_bundle(
    *,
    bundle: BundleArgument,
    install_mode: InstallModeOption = "",
    index_image: Annotated[
        str,
        typer.Option(
            metavar="IMAGE",
            help="Index to add the bundle to, for its dependencies; the default has no catalog",
        ),
    ] = DEFAULT_INDEX_IMAGE,
    timeout: Timeout = DEFAULT_TIMEOUT,
    output: Output = OutputFormat.TEXT,
    cluster_flags: ClusterFlags,
    pod_flags: RegistryPodFlags,
    registry_flags: RegistryFlags,
    ca_secret_name: CaSecretOption = "",
    mode: AddModeOption = "",
) -> None:
    """Install the operator of a bundle in a cluster with OLM, and wait until it runs

    The bundle is added to a catalog in the namespace, which a pod serves. Remove everything with opm cleanup.

    The manifests of a bundle directory are stored in the catalog; the cluster pulls no bundle image then.

    [bold]Examples:[/]

      opm run bundle quay.io/me/lagoon-bundle:0.1.0

      opm run bundle quay.io/me/lagoon-bundle:0.1.0 -n lagoon --install-mode OwnNamespace --timeout 5m

      opm run bundle ./bundle --index-image quay.io/operatorhubio/catalog:latest
    """
    from opmkit.author.run.catalog import CHANNEL, add_sequence
    from opmkit.author.run.installation import InstallRequest, install_operator
    from opmkit.author.run.operator_version import OperatorVersion
    from opmkit.author.run.resources import InjectedBundles, is_empty_index
    from opmkit.author.run.serving import ServedCatalog

    deadline, wanted, cluster = start_deadline(timeout), parse_install_mode(install_mode), _connect(cluster_flags)
    warn_of_add_mode(mode)
    with _registry_tool(registry_flags, cluster, ca_secret_name) as tool:
        loaded = _load_bundle(tool, bundle)
        blobs = add_sequence(_render(tool, [] if is_empty_index(index_image) else [index_image]), [_blob(loaded)])
        options = pod_flags.options(_serving_image(tool, index_image))
    operator = OperatorVersion.from_bundle(loaded)
    injected = InjectedBundles(options.image if Path(index_image).exists() else index_image, _images(loaded))
    request = InstallRequest(operator, CHANNEL, ServedCatalog(blobs, injected, options), wanted)
    with report_status() as reporter, _removal_hint(operator.package, cluster):
        installed = install_operator(cluster, request, cluster.namespace, deadline, reporter)
    _print_result(installed, output)


def bundle_upgrade(
    *,
    bundle: BundleArgument,
    timeout: Timeout = DEFAULT_TIMEOUT,
    output: Output = OutputFormat.TEXT,
    cluster_flags: ClusterFlags,
    pod_flags: RegistryPodFlags,
    registry_flags: RegistryFlags,
    ca_secret_name: CaSecretOption = "",
    mode: AddModeOption = "",
) -> None:
    """Upgrade an installed operator to the version in a bundle, and wait until it runs

    The bundle is added to the catalog of the operator's Subscription, where it replaces the installed version. A
    catalog that OLM runs from an image is replaced by an extended copy.

    [bold]Example:[/] opm run bundle-upgrade quay.io/me/lagoon-bundle:0.2.0
    """
    from opmkit.author.run.operator_version import OperatorVersion
    from opmkit.author.run.upgrade import UpgradeRequest, upgrade_operator

    deadline, cluster = start_deadline(timeout), _connect(cluster_flags)
    warn_of_add_mode(mode)
    with _registry_tool(registry_flags, cluster, ca_secret_name) as tool:
        loaded = _load_bundle(tool, bundle)
        operator = OperatorVersion.from_bundle(loaded)
        request = UpgradeRequest(
            operator, _blob(loaded), pod_flags.options(""), lambda references: _render(tool, references)
        )
        with report_status() as reporter, _removal_hint(operator.package, cluster):
            upgraded = upgrade_operator(cluster, request, cluster.namespace, deadline, reporter)
    _print_result(upgraded, output)


def package_manifests(
    *,
    directory: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="Directory of package manifests, one directory for each version")
    ] = Path("packagemanifests"),
    version: Annotated[
        str, typer.Option(metavar="VERSION", help="Version to install; default: the head of the default channel")
    ] = "",
    install_mode: InstallModeOption = "",
    timeout: Timeout = DEFAULT_TIMEOUT,
    output: Output = OutputFormat.TEXT,
    progress_flags: ProgressFlags,
    cluster_flags: ClusterFlags,
    pod_flags: RegistryPodFlags,
) -> None:
    """Install an operator from a directory of package manifests, and wait until it runs

    The manifests are stored in a catalog in the namespace, which a pod serves. Remove everything with opm cleanup.

    [bold]Example:[/] opm run packagemanifests ./packagemanifests --version 0.1.0
    """
    from opmkit.author.run.installation import InstallRequest, install_operator
    from opmkit.author.run.package_manifests import select_version
    from opmkit.author.run.resources import InjectedBundles
    from opmkit.author.run.serving import ServedCatalog

    deadline, mode, cluster = start_deadline(timeout), parse_install_mode(install_mode), _connect(cluster_flags)
    selected = select_version(directory, version)
    catalog = ServedCatalog(
        selected.blobs, InjectedBundles(DEFAULT_INDEX_IMAGE, ()), pod_flags.options(DEFAULT_INDEX_IMAGE)
    )
    request = InstallRequest(selected.operator, selected.channel, catalog, mode)
    with report_status() as reporter, _removal_hint(selected.operator.package, cluster):
        installed = install_operator(cluster, request, cluster.namespace, deadline, reporter)
    _print_result(installed, output)


def _connect(cluster_flags: ClusterFlags) -> Cluster:
    """Return the cluster, after a check that takes less time than to pull images."""
    from opmkit.author.run.preflight import check_cluster

    cluster = cluster_flags.connect()
    check_cluster(cluster, cluster.namespace)
    return cluster


@contextmanager
def _registry_tool(
    registry_flags: RegistryFlags, cluster: Cluster, ca_secret: str
) -> Iterator[Callable[[], RegistryTool]]:
    """Provide the registry tool, which trusts the certificate authorities in a Secret, if any."""
    if not ca_secret:
        yield call_once(registry_flags.tool)
        return
    from opmkit.author.run.secrets import read_certificates
    from opmkit.core.files import disk_errors, read_limited

    with NamedTemporaryFile(prefix="opm-ca-", suffix=".pem") as file:
        file.write(read_certificates(cluster, ca_secret))
        if registry_flags.ca_file:
            with disk_errors(registry_flags.ca_file):
                file.write(b"\n" + read_limited(registry_flags.ca_file))
        file.flush()
        yield call_once(replace(registry_flags, ca_file=Path(file.name)).tool)


def _load_bundle(tool: Callable[[], RegistryTool], text: str) -> Bundle:
    """Pull a bundle that clusters can pull as well, or that the catalog can contain."""
    from opmkit.author.run.operator_version import check_bundle
    from opmkit.bundle.load import pull_bundles

    with progress() as bars:
        (bundle,) = pull_bundles(tool(), [text], warn=print_warning, progress=bars)
    check_bundle(bundle)
    return bundle


def _images(bundle: Bundle) -> tuple[str, ...]:
    return (bundle.image,) if bundle.image else ()


def _blob(bundle: Bundle) -> BundleBlob:
    from opmkit.index.fbc.from_bundle import bundle_to_blob

    return bundle_to_blob(bundle)


def _render(tool: Callable[[], RegistryTool], references: Sequence[str]) -> Blobs:
    from opmkit.index.render import RenderOptions, render

    with progress() as bars:
        return render(tool, references, RenderOptions(cache=render_cache(), warn=print_warning), progress=bars)


def _serving_image(tool: Callable[[], RegistryTool], index: str) -> str:
    """Return the image that serves a catalog with the content of an index: the index image, since it contains opm.

    A database may be older than the command that serves catalogs, so the image of a database is not used.
    """
    from opmkit import IndexSource
    from opmkit.author.run.resources import is_empty_index
    from opmkit.index.image.source import SourceKind

    if is_empty_index(index):
        return index
    return index if IndexSource.find(tool, index).kind is SourceKind.CATALOG_IMAGE else DEFAULT_INDEX_IMAGE


@contextmanager
def _removal_hint(package: str, cluster: Cluster) -> Iterator[None]:
    """Print how to remove the objects that an interrupted command leaves behind."""
    from opmkit.core import interrupts

    try:
        yield
    except BaseException:  # libraries can turn an interruption into another error
        if number := interrupts.received_signal():
            interrupts.report(number)
            print_hint(f"run 'opm cleanup {package} --namespace {cluster.namespace}' to remove the objects")
        raise


def _print_result(installed: InstalledOperator, output: OutputFormat) -> None:
    done = f"{installed.csv} installed in namespace {installed.namespace}"
    if installed.replaced:
        done = f"{installed.replaced} upgraded to {installed.csv} in namespace {installed.namespace}"
    with printing_result(done):
        if output is OutputFormat.JSON:
            print_json(installed)
        else:
            watched = ", ".join(installed.watched_namespaces) or "all namespaces"
            print_line(f"{done}; it watches {watched}")
