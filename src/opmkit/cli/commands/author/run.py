"""``opm run``: run operators in a cluster with OLM."""

from __future__ import annotations

from pathlib import Path
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
    parse_timeout,
    warn_of_add_mode,
)
from opmkit.cli.flags.output import Output, ProgressFlags
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.output.console import OutputFormat, print_json, print_line
from opmkit.cli.output.status_lines import report_status
from opmkit.cli.output.streams import printing_result
from opmkit.cli.parser.declaration import argument, flag

if TYPE_CHECKING:
    from opmkit import InstalledOperator

DEFAULT_INDEX_IMAGE = "quay.io/operator-framework/opm:latest"
BundleArgument = Annotated[
    str, typer.Argument(metavar="BUNDLE", help="Bundle image, which the cluster also pulls, or bundle directory ./DIR")
]


def run_bundle(
    *,
    bundle: BundleArgument,
    install_mode: InstallModeOption = "",
    index_image: str = flag(
        DEFAULT_INDEX_IMAGE,
        "Index to add the bundle to, for its dependencies; the default has no catalog",
        metavar="IMAGE",
    ),
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
    from opmkit import OperatorRunOptions

    options = OperatorRunOptions(install_mode, index_image, pod_flags.options(), ca_secret_name, parse_timeout(timeout))
    warn_of_add_mode(mode)
    with report_status() as reporter:
        operator = registry_flags.opm().run_bundle(bundle, cluster_flags.access(), options, reporter=reporter)
    _print_result(operator, output)


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
    from opmkit import OperatorRunOptions

    options = OperatorRunOptions(pod=pod_flags.options(), ca_secret=ca_secret_name, timeout=parse_timeout(timeout))
    warn_of_add_mode(mode)
    with report_status() as reporter:
        operator = registry_flags.opm().upgrade_bundle(bundle, cluster_flags.access(), options, reporter=reporter)
    _print_result(operator, output)


def package_manifests(
    *,
    directory: Path = argument(
        Path("packagemanifests"), "Directory of package manifests, one directory for each version", metavar="[DIR]"
    ),
    version: str = flag("", "Version to install; default: the head of the default channel", metavar="VERSION"),
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
    from opmkit import OperatorRunOptions
    from opmkit.api import Opm

    options, access = (
        OperatorRunOptions(install_mode, pod=pod_flags.options(), timeout=parse_timeout(timeout)),
        cluster_flags.access(),
    )
    with report_status() as reporter:
        operator = Opm().run_package_manifests(directory, access, options, version=version, reporter=reporter)
    _print_result(operator, output)


def _print_result(installed: InstalledOperator, output: OutputFormat) -> None:
    done = f"{installed.csv} installed in namespace {installed.namespace}"
    if installed.replaced:
        done = f"{installed.replaced} upgraded to {installed.csv} in namespace {installed.namespace}"
    with printing_result(done):
        if output is OutputFormat.JSON:
            print_json(installed.to_dict())
        else:
            watched = ", ".join(installed.watched_namespaces) or "all namespaces"
            print_line(f"{done}; it watches {watched}")
