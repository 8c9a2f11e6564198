"""Install a version of an operator from a catalog: subscribe, approve, and wait until OLM has installed it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.author.run.diagnosis import install_plan_problems, is_unpack_job, pod_problems
from opmkit.author.run.errors import InstallationFailed
from opmkit.author.run.hint_terms import OlmSetting
from opmkit.author.run.install_mode import check_operator_groups, choose_install_mode, group_targets
from opmkit.author.run.objects import condition, name_of, strings, subject, text
from opmkit.author.run.resources import build_catalog_source, build_operator_group, build_subscription
from opmkit.author.run.serving import ServedCatalog, serve_catalog
from opmkit.author.run.session import OperatorSession, Pending, check_namespace, check_not_installed, wait_until
from opmkit.core.errors import OpmkitError
from opmkit.core.hints import Hint
from opmkit.core.json_types import JsonResult
from opmkit.kube.api import CSV, INSTALL_PLAN, JOB, OPERATOR_GROUP, POD, SUBSCRIPTION

if TYPE_CHECKING:
    from opmkit.author.run.install_mode import InstallMode
    from opmkit.author.run.package_manifests import OperatorVersion
    from opmkit.author.run.session import Reporter, WaitDeadline
    from opmkit.kube import Cluster
    from opmkit.kube.api import Object


class InstallRequest(Struct, frozen=True):
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
class InstalledOperator(JsonResult):
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


RESOLUTION_GRACE = 5.0
"""Seconds after which an unsatisfiable resolution is final: OLM resolves again when a catalog changes."""


@dataclass(slots=True)
class Rollout:
    """The installation of a version by a Subscription.

    Attributes:
        catalog_namespace: Namespace of the CatalogSource, where bundles are unpacked.
        former_plan: Name of the InstallPlan that the Subscription had before, or "" if there is none.
    """

    session: OperatorSession
    operator: OperatorVersion
    subscription: str
    catalog_namespace: str
    former_plan: str = ""
    _unsatisfiable_since: float = field(default=0.0, init=False)

    def run(self) -> str:
        """Approve the InstallPlan, wait for the ClusterServiceVersion, and return the name of the InstallPlan.

        Raises:
            InstallationFailed: OLM cannot install the version.
            TimedOut: The version is not installed before the deadline.
            ClusterError: The cluster rejects a request.
        """
        session = self.session
        plan = wait_until(self._find_plan, session.deadline, session.reporter)
        session.involve(install_plan=plan, csv=self.operator.name)
        session.cluster.patch(INSTALL_PLAN, plan, {"spec": {"approved": True}}, session.namespace)
        session.reporter.finished(f"InstallPlan {plan} approved")
        wait_until(lambda: self._find_installed(plan), session.deadline, session.reporter)
        session.reporter.finished(f"ClusterServiceVersion {self.operator.name} succeeded")
        return plan

    def _find_plan(self) -> str | Pending:
        """Return the name of the InstallPlan for the version."""
        cluster, namespace = self.session.cluster, self.session.namespace
        found = cluster.find(SUBSCRIPTION, self.subscription, namespace)
        if found is None:
            raise InstallationFailed(f"Subscription {namespace}/{self.subscription}: deleted")
        plan = text(found, "status", "installPlanRef", "name")
        if plan and plan != self.former_plan:
            stored = cluster.find(INSTALL_PLAN, plan, namespace)
            if stored and self.operator.name in strings(stored, "spec", "clusterServiceVersionNames"):
                return plan
        self._check_conditions(found)
        return self._describe_progress(found)

    def _check_conditions(self, subscription: Object) -> None:
        """Raise InstallationFailed if a condition of the Subscription is final."""
        unpack = condition(subscription, "BundleUnpackFailed")
        if unpack.get("status") == "True":
            raise InstallationFailed("OLM cannot unpack the bundle")
        resolution = condition(subscription, "ResolutionFailed")
        unsatisfiable = resolution.get("status") == "True" and resolution.get("reason") == "ConstraintsNotSatisfiable"
        if not unsatisfiable:
            self._unsatisfiable_since = 0.0
        elif not self._unsatisfiable_since:
            self._unsatisfiable_since = time.monotonic()
        elif time.monotonic() - self._unsatisfiable_since > RESOLUTION_GRACE:
            raise InstallationFailed(
                "OLM cannot resolve the dependencies of the namespace",
                hint=Hint("name an index that contains the dependencies with {}", OlmSetting.INDEX_IMAGE),
            )

    def _describe_progress(self, subscription: Object) -> Pending:
        image = self.operator.image
        if image and condition(subscription, "BundleUnpacking").get("status") == "True":
            cluster, namespace = self.session.cluster, self.catalog_namespace
            jobs = [job for job in cluster.list(JOB, namespace) if is_unpack_job(job, image)]
            pods = [pod for job in jobs for pod in cluster.list(POD, namespace, labels={"job-name": name_of(job)})]
            problem = next((str(found) for pod in pods for found in pod_problems(pod)), "")
            return Pending(f"OLM to unpack {image}", problem)
        resolution = condition(subscription, "ResolutionFailed")
        if resolution.get("status") == "True":
            return Pending("OLM to resolve the Subscription", text(resolution, "message"))
        return Pending(f"OLM to create the InstallPlan of {self.operator.name}")

    def _find_installed(self, plan: str) -> bool | Pending:
        cluster, namespace, name = self.session.cluster, self.session.namespace, self.operator.name
        csv = cluster.find(CSV, name, namespace)
        phase = text(csv, "status", "phase")
        stored = cluster.find(INSTALL_PLAN, plan, namespace)
        if phase == "Succeeded":
            state = text(stored, "status", "phase")
            return True if state != "Installing" else Pending(f"InstallPlan {plan} to complete", state)
        if phase == "Failed":
            raise InstallationFailed(f"phase Failed: {text(csv, 'status', 'reason')}: {text(csv, 'status', 'message')}")
        if text(stored, "status", "phase") == "Failed":
            causes = [problem.message for problem in install_plan_problems(stored or {})]
            raise InstallationFailed(f"{subject(stored)} failed{f': {causes[0]}' if causes else ''}")
        if csv is None:
            return Pending(f"InstallPlan {plan} to create {name}", _describe(stored))
        repeated = text(stored, "status", "message")
        return Pending(f"{name} to be installed", f"InstallPlan {plan}: {repeated}" if repeated else _describe(csv))


def _describe(found: Object | None) -> str:
    """Return the phase of an object with its message."""
    return ": ".join(filter(None, (text(found, "status", "phase"), text(found, "status", "message"))))
