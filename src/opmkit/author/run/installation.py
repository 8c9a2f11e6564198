"""Install a version of an operator from a catalog that is served for it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from opmkit.author.run.install_mode import check_operator_groups, choose_install_mode, group_targets
from opmkit.author.run.objects import name_of
from opmkit.author.run.preflight import check_namespace, check_not_installed
from opmkit.author.run.resources import build_catalog_source, build_operator_group, build_subscription
from opmkit.author.run.rollout import Rollout
from opmkit.author.run.serving import ServedCatalog, serve_catalog
from opmkit.author.run.session import OperatorSession
from opmkit.core.errors import OpmkitError
from opmkit.kube.resources import OPERATOR_GROUP

if TYPE_CHECKING:
    from opmkit.author.run.install_mode import InstallMode
    from opmkit.author.run.operator_version import OperatorVersion
    from opmkit.author.run.waiting import Reporter, WaitDeadline
    from opmkit.kube import Cluster


@dataclass(frozen=True, slots=True)
class InstallRequest:
    """A version to install.

    Attributes:
        operator: The version.
        channel: Channel of the catalog that has the version.
        catalog: The catalog to serve.
        mode: Install mode, None for the default one.
    """

    operator: OperatorVersion
    channel: str
    catalog: ServedCatalog
    mode: InstallMode | None = None


@dataclass(frozen=True, slots=True)
class InstalledOperator:
    """An operator that OLM has installed.

    Attributes:
        csv: Name of the ClusterServiceVersion.
        replaced: Name of the ClusterServiceVersion before an upgrade.
        watched_namespaces: Namespaces that the operator watches, empty for all.
    """

    package: str
    csv: str
    version: str
    namespace: str
    channel: str
    catalog_source: str
    subscription: str
    install_plan: str
    operator_group: str
    watched_namespaces: tuple[str, ...]
    replaced: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the operator in JSON types."""
        return asdict(self)


def install_operator(
    cluster: Cluster, request: InstallRequest, namespace: str, deadline: WaitDeadline, reporter: Reporter
) -> InstalledOperator:
    """Install a version and wait until it runs.

    Raises:
        OlmNotInstalled: The cluster does not have OLM.
        InvalidInstallMode: The operator does not support the install mode.
        InstallationConflict: An object in the namespace prevents the installation; nothing was created.
        InstallationFailed: OLM did not install the version; the details list the reasons and the remaining objects.
        ClusterError: The cluster cannot be reached or rejects a request; nothing was created.
    """
    operator = request.operator
    check_not_installed(cluster, namespace, operator.package)
    check_namespace(cluster, namespace)
    supported = operator.install_modes
    groups = cluster.list(OPERATOR_GROUP, namespace)
    group = check_operator_groups(groups, operator.name, supported, request.mode, namespace)
    mode = choose_install_mode(operator.name, supported, request.mode, namespace) if not group or request.mode else None
    session = OperatorSession(cluster, namespace, operator.package, deadline, reporter)
    session.involve(bundle_image=operator.image)
    try:
        source = cluster.create(build_catalog_source(operator.package, namespace, request.catalog.options))
        session.record(source)
        session.involve(catalog_source=name_of(source))
        reporter.finished(f"CatalogSource {name_of(source)} created")
        serve_catalog(session, source, request.catalog)
        if group is None:
            group = cluster.create(build_operator_group(namespace, mode.targets(namespace) if mode else ()))
            session.record(group)
            reporter.finished(f"OperatorGroup {name_of(group)} created")
        subscription = cluster.create(build_subscription(operator, request.channel, name_of(source), namespace))
        session.record(subscription)
        session.involve(subscription=name_of(subscription))
        reporter.finished(f"Subscription {name_of(subscription)} created")
        plan = Rollout(session, operator, name_of(subscription), namespace).run()
    except OpmkitError as error:
        raise session.explain(error, f"{operator.name}: not installed") from error
    return InstalledOperator(
        package=operator.package,
        csv=operator.name,
        version=operator.version,
        namespace=namespace,
        channel=request.channel,
        catalog_source=name_of(source),
        subscription=name_of(subscription),
        install_plan=plan,
        operator_group=name_of(group),
        watched_namespaces=group_targets(group),
    )
