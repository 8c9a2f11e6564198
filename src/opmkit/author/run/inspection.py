"""Collect the reasons for a failed installation from the objects of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from opmkit.author.run.diagnosis import (
    READY,
    Problem,
    catalog_source_problems,
    csv_problems,
    deployment_problems,
    event_problems,
    failed_containers,
    install_plan_problems,
    is_unpack_job,
    job_problems,
    pod_problems,
    subscription_problems,
)
from opmkit.author.run.objects import field as get_field
from opmkit.author.run.objects import name_of, subject, text
from opmkit.author.run.package_manifests import deployment_names
from opmkit.kube.api import CATALOG_SOURCE, CSV, DEPLOYMENT, EVENT, INSTALL_PLAN, JOB, POD, SUBSCRIPTION
from opmkit.kube.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from opmkit.kube import Cluster
    from opmkit.kube.api import Object, Resource

_LOG_LINES = 8
"""Number of lines from the end of the log of a failed container."""


class Involved(Struct, frozen=True):
    """Names of the objects of an installation, or "" for those that do not exist yet.

    Attributes:
        namespace: Namespace of the operator.
        catalog_namespace: Namespace of the CatalogSource.
        bundle_image: Image that OLM unpacks in a Job.
    """

    namespace: str
    catalog_source: str = ""
    catalog_namespace: str = ""
    registry_pod: str = ""
    subscription: str = ""
    install_plan: str = ""
    csv: str = ""
    bundle_image: str = ""


def find_problems(cluster: Cluster, involved: Involved, deployments: Iterable[str] = ()) -> list[Problem]:
    """Return the problems that the objects report, without duplicates. Unreadable objects are reported as well."""
    return _Inspection(cluster, involved, tuple(deployments)).run()


class _Inspection(Struct):
    """One collection of problems, from the catalog to the operator's pods."""

    cluster: Cluster
    involved: Involved
    deployments: tuple[str, ...]
    problems: dict[Problem, None] = {}
    seen: list[Object] = []

    def run(self) -> list[Problem]:
        involved = self.involved
        catalog_namespace = involved.catalog_namespace or involved.namespace
        source = self._add(CATALOG_SOURCE, involved.catalog_source, catalog_namespace, catalog_source_problems)
        pod = self._add(POD, involved.registry_pod, catalog_namespace, pod_problems)
        if pod and get_field(source, "status", "connectionState", "lastObservedState") != READY:
            self._add_logs(pod, [""])
        self._add(SUBSCRIPTION, involved.subscription, involved.namespace, subscription_problems)
        self._add(INSTALL_PLAN, involved.install_plan, involved.namespace, install_plan_problems)
        csv = self._add(CSV, involved.csv, involved.namespace, csv_problems)
        if csv is None and involved.bundle_image:
            self._add_unpacking(catalog_namespace)
        for name in deployment_names(csv) if csv and text(csv, "status", "phase") != "Succeeded" else ():
            self._add_deployment(name)
        for name in self.deployments:
            self._add_deployment(name)
        self._add_events({involved.namespace, catalog_namespace})
        return list(self.problems)

    def _extend(self, found: Iterator[Problem]) -> None:
        self.problems.update(dict.fromkeys(found))

    def _add(
        self, resource: Resource, name: str, namespace: str, describe: Callable[[Mapping[str, Any]], Iterator[Problem]]
    ) -> Object | None:
        if not name:
            return None
        try:
            found = self.cluster.find(resource, name, namespace)
        except ClusterError as error:
            self._extend(iter([Problem(f"{resource.kind} {namespace}/{name}", error.message)]))
            return None
        if found is not None:
            self.seen.append(found)
            self._extend(describe(found))
        return found

    def _list(self, resource: Resource, namespace: str, labels: Mapping[str, str] | None = None) -> list[Object]:
        try:
            return self.cluster.list(resource, namespace, labels=labels)
        except ClusterError as error:
            self._extend(iter([Problem(f"{resource.plural} in {namespace}", error.message)]))
            return []

    def _add_unpacking(self, namespace: str) -> None:
        """Add the problems of the Job that unpacks the bundle image, and of its pods."""
        for job in self._list(JOB, namespace):
            if is_unpack_job(job, self.involved.bundle_image):
                self.seen.append(job)
                self._extend(job_problems(job))
                for pod in self._list(POD, namespace, {"job-name": name_of(job)}):
                    self._add_pod(pod)

    def _add_deployment(self, name: str) -> None:
        deployment = self._add(DEPLOYMENT, name, self.involved.namespace, deployment_problems)
        if deployment is None:
            self._extend(iter([Problem(f"Deployment {self.involved.namespace}/{name}", "not created yet")]))
            return
        labels = get_field(deployment, "spec", "selector", "matchLabels")
        selected = {key: value for key, value in labels.items() if isinstance(value, str)} if labels else {}
        for pod in self._list(POD, self.involved.namespace, selected) if selected else ():
            self._add_pod(pod)

    def _add_pod(self, pod: Object) -> None:
        self.seen.append(pod)
        self._extend(pod_problems(pod))
        self._add_logs(pod, list(failed_containers(pod)))

    def _add_logs(self, pod: Object, containers: list[str]) -> None:
        for container in containers:
            try:
                log = self.cluster.logs(name_of(pod), text(pod, "metadata", "namespace"), container=container)
            except ClusterError:  # the container has not started, or its log may not be read
                continue
            where = f"log of {subject(pod)}{f', container {container}' if container else ''}"
            lines = [line for line in log.splitlines() if line.strip()]
            self._extend(Problem(where, line) for line in lines[-_LOG_LINES:])

    def _add_events(self, namespaces: set[str]) -> None:
        for namespace in sorted(namespaces):
            self._extend(event_problems(self._list(EVENT, namespace), self.seen))
