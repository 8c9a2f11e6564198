"""Reasons that objects give for a failed installation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from opmkit.author.run.diagnosis import (
    catalog_source_problems,
    csv_problems,
    deployment_problems,
    event_problems,
    failed_containers,
    install_plan_problems,
    job_problems,
    pod_problems,
    subscription_problems,
)

if TYPE_CHECKING:
    from collections.abc import Callable

HOSTILE: list[Any] = [
    {},
    {"status": None},
    {"status": {"conditions": "x", "containerStatuses": 1, "plan": [1], "requirementStatus": {}}},
    {"status": {"conditions": [{"type": 1, "status": "True", "message": []}], "bundleLookups": [{"conditions": 1}]}},
    {"status": {"containerStatuses": [{"name": [], "state": 1, "lastState": {"terminated": {"exitCode": "x"}}}]}},
]


def make(kind: str, status: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": "x", "namespace": "ns", "uid": "u"}, "spec": spec, "status": status}


def condition(type_: str, status: str, reason: str = "", message: str = "") -> dict[str, str]:
    return {"type": type_, "status": status, "reason": reason, "message": message}


def test_subscription_reports_true_problem_conditions() -> None:
    subscription = make(
        "Subscription",
        {
            "conditions": [
                condition("CatalogSourcesUnhealthy", "False", "AllCatalogSourcesHealthy", "all healthy"),
                condition("ResolutionFailed", "True", "ConstraintsNotSatisfiable", "no operators\nfound"),
                condition("BundleUnpackFailed", "True", "BundleUnpackFailed", "DeadlineExceeded"),
                condition("InstallPlanPending", "True", "RequiresApproval"),
            ]
        },
    )
    assert list(map(str, subscription_problems(subscription))) == [
        "Subscription ns/x: ResolutionFailed: ConstraintsNotSatisfiable: no operators found",
        "Subscription ns/x: BundleUnpackFailed: DeadlineExceeded",
    ]


def test_catalog_source_reports_its_connection() -> None:
    state = {"lastObservedState": "TRANSIENT_FAILURE", "address": "10.0.0.1:50051"}
    source = make("CatalogSource", {"connectionState": state}, address="10.0.0.1:50051")
    assert list(map(str, catalog_source_problems(source))) == [
        "CatalogSource ns/x: OLM is not connected to 10.0.0.1:50051: state TRANSIENT_FAILURE"
    ]
    ready = make("CatalogSource", {"connectionState": {**state, "lastObservedState": "READY"}}, address="a")
    assert list(catalog_source_problems(ready)) == []
    invalid = make("CatalogSource", {"reason": "SpecInvalidError", "message": "bad interval"}, image="a")
    assert str(next(catalog_source_problems(invalid))) == "CatalogSource ns/x: SpecInvalidError: bad interval"
    assert list(catalog_source_problems(make("CatalogSource", {"message": "no address"}))) == []


def test_install_plan_reports_failed_steps_and_lookups() -> None:
    plan = make(
        "InstallPlan",
        {
            "phase": "Failed",
            "conditions": [condition("Installed", "False", "InstallComponentFailed", "cannot create CRD")],
            "bundleLookups": [
                {
                    "identifier": "x.v1",
                    "conditions": [condition("BundleLookupPending", "True", "JobIncomplete", "wait")],
                }
            ],
            "plan": [
                {"status": "UnsupportedResource", "resource": {"kind": "Demo", "name": "d"}},
                {"status": "Created", "resource": {"kind": "Service", "name": "s"}},
            ],
        },
    )
    assert list(map(str, install_plan_problems(plan))) == [
        "InstallPlan ns/x: Installed: InstallComponentFailed: cannot create CRD",
        "InstallPlan ns/x: x.v1: BundleLookupPending: JobIncomplete: wait",
        "InstallPlan ns/x: step Demo d: UnsupportedResource",
    ]


def test_install_plan_reports_the_error_of_a_repeated_step_once() -> None:
    error = "risk of data loss updating CRD"
    repeated = make("InstallPlan", {"phase": "Installing", "message": f"retrying execution due to error: {error}"})
    assert list(map(str, install_plan_problems(repeated))) == [
        f"InstallPlan ns/x: retrying execution due to error: {error}"
    ]
    failed = make(
        "InstallPlan",
        {
            "phase": "Failed",
            "message": error,
            "conditions": [condition("Installed", "False", "InstallComponentFailed", error)],
        },
    )
    assert list(map(str, install_plan_problems(failed))) == [
        f"InstallPlan ns/x: Installed: InstallComponentFailed: {error}"
    ]


def test_csv_reports_unmet_requirements() -> None:
    requirements = [
        {"kind": "CustomResourceDefinition", "name": "a", "status": "NotPresent", "message": "CRD is not present"},
        {"kind": "CustomResourceDefinition", "name": "b", "status": "Present"},
        {
            "kind": "ServiceAccount",
            "name": "sa",
            "status": "PresentNotSatisfied",
            "dependents": [{"kind": "PolicyRule", "status": "NotSatisfied", "message": "cluster rule: {}"}],
        },
    ]
    status = {"phase": "Pending", "reason": "RequirementsNotMet", "message": "missing"}
    csv = make("ClusterServiceVersion", {**status, "requirementStatus": requirements})
    assert list(map(str, csv_problems(csv))) == [
        "ClusterServiceVersion ns/x: Pending: RequirementsNotMet: missing",
        "requirement CustomResourceDefinition a: NotPresent: CRD is not present",
        "requirement ServiceAccount sa: PresentNotSatisfied",
        "requirement ServiceAccount sa: PolicyRule: NotSatisfied: cluster rule: {}",
    ]
    assert list(csv_problems(make("ClusterServiceVersion", {"phase": "Succeeded"}))) == []
    assert str(next(csv_problems(make("ClusterServiceVersion", {})))) == "ClusterServiceVersion ns/x: no phase yet"


def test_deployment_and_job_report_their_conditions() -> None:
    conditions = [
        condition("Available", "False", "MinimumReplicasUnavailable", "no minimum availability"),
        condition("Progressing", "True"),
        condition("ReplicaFailure", "True", "FailedCreate", "forbidden"),
    ]
    assert list(map(str, deployment_problems(make("Deployment", {"conditions": conditions})))) == [
        "Deployment ns/x: Available: MinimumReplicasUnavailable: no minimum availability",
        "Deployment ns/x: ReplicaFailure: FailedCreate: forbidden",
    ]
    job = make("Job", {"conditions": [condition("Failed", "True", "DeadlineExceeded", "too long")]})
    assert list(map(str, job_problems(job))) == ["Job ns/x: DeadlineExceeded: too long"]


def test_pod_reports_containers_that_do_not_run() -> None:
    pod = make(
        "Pod",
        {
            "phase": "Pending",
            "conditions": [condition("PodScheduled", "False", "Unschedulable", "0/3 nodes are available")],
            "initContainerStatuses": [
                {"name": "pull", "state": {"waiting": {"reason": "ErrImagePull", "message": "not found"}}}
            ],
            "containerStatuses": [
                {"name": "new", "state": {"waiting": {"reason": "ContainerCreating"}}},
                {
                    "name": "crashed",
                    "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
                    "lastState": {"terminated": {"reason": "Error", "exitCode": 2, "message": "a\nout of memory\n"}},
                },
                {"name": "done", "state": {"terminated": {"exitCode": 0}}},
            ],
        },
    )
    assert list(map(str, pod_problems(pod))) == [
        "Pod ns/x: Unschedulable: 0/3 nodes are available",
        "Pod ns/x, container pull: ErrImagePull: not found",
        "Pod ns/x, container crashed: CrashLoopBackOff: back-off",
        "Pod ns/x, container crashed: Error: exit code 2: out of memory",
    ]
    assert list(failed_containers(pod)) == ["crashed"]


def test_warnings_about_the_objects_are_reported_once_and_the_newest_last() -> None:
    def event(uid: str, message: str, time: str, type_: str = "Warning") -> dict[str, Any]:
        involved = {"kind": "Pod", "namespace": "ns", "name": "p", "uid": uid}
        return {
            "type": type_,
            "reason": "Failed",
            "message": message,
            "lastTimestamp": time,
            "involvedObject": involved,
        }

    events = [
        event("u", "second", "2026-01-02"),
        event("u", "first", "2026-01-01"),
        event("u", "second", "2026-01-03"),
        event("u", "fine", "2026-01-01", "Normal"),
        event("other", "foreign", "2026-01-01"),
    ]
    assert list(map(str, event_problems(events, [make("Subscription", {})]))) == [
        "event of Pod ns/p: Failed: first",
        "event of Pod ns/p: Failed: second",
    ]


@pytest.mark.parametrize(
    "describe",
    [
        catalog_source_problems,
        csv_problems,
        deployment_problems,
        failed_containers,
        install_plan_problems,
        job_problems,
        pod_problems,
        subscription_problems,
    ],
)
def test_malformed_objects_are_no_failures(describe: Callable[[Any], Any]) -> None:
    for value in HOSTILE:
        list(map(str, describe(value)))
    assert list(event_problems(HOSTILE, HOSTILE)) == []
