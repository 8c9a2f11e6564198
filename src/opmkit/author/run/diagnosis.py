"""Reasons that objects of a cluster give for a failed or delayed installation, in the words of OLM and Kubernetes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from opmkit.author.run.objects import condition, field, items, name_of, subject, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    Object = Mapping[str, Any]


READY = "READY"
UNKNOWN_STATE = "unknown"
"""States of the connection of OLM to a catalog; in the second, OLM has reported none."""
_STARTING = frozenset({"ContainerCreating", "PodInitializing", ""})
"""Reasons of waiting containers that are no problem."""
_MAX_TEXT = 1200


class Problem(Struct, frozen=True):
    """A reason for a failure: the object and its message."""

    subject: str
    message: str

    def __str__(self) -> str:
        """Return the problem as one line."""
        message = " ".join(self.message.split())
        return f"{self.subject}: {message if len(message) <= _MAX_TEXT else f'{message[:_MAX_TEXT]} ...'}"


def catalog_source_problems(source: Object) -> Iterator[Problem]:
    """Yield the problems of a CatalogSource: an invalid spec, or no connection to its server, once it has one."""
    if not text(source, "spec", "address") and not text(source, "spec", "image"):
        return
    if message := text(source, "status", "message"):
        yield Problem(subject(source), _join(text(source, "status", "reason"), message))
    state = text(source, "status", "connectionState", "lastObservedState")
    if state != READY:
        address = (
            text(source, "status", "connectionState", "address") or text(source, "spec", "address") or "its server"
        )
        yield Problem(subject(source), f"OLM is not connected to {address}: state {state or UNKNOWN_STATE}")


def subscription_problems(subscription: Object) -> Iterator[Problem]:
    """Yield the conditions of a Subscription that report a problem: they are true if something is wrong."""
    for entry in items(subscription, "status", "conditions"):
        type_, message = text(entry, "type"), text(entry, "message")
        is_problem = type_.endswith(("Failed", "Missing", "Unhealthy"))
        if is_problem and entry.get("status") == "True":
            yield Problem(subject(subscription), _join(type_, text(entry, "reason"), message))


def install_plan_problems(plan: Object) -> Iterator[Problem]:
    """Yield the error, failed conditions and steps of an InstallPlan, and bundles that could not be unpacked."""
    failed = text(plan, "status", "phase") == "Failed"
    conditions = items(plan, "status", "conditions")
    error = text(plan, "status", "message")  # also while OLM repeats a step
    if error and all(text(entry, "message") != error for entry in conditions):
        yield Problem(subject(plan), error)
    for entry in conditions:
        if entry.get("status") == "False" and (failed or text(entry, "message")):
            yield Problem(
                subject(plan), _join(text(entry, "type"), text(entry, "reason"), text(entry, "message")) or "failed"
            )
    for lookup in items(plan, "status", "bundleLookups"):
        for entry in items(lookup, "conditions"):
            if entry.get("status") == "True":
                parts = (text(lookup, "identifier"), text(entry, "type"), text(entry, "reason"), text(entry, "message"))
                yield Problem(subject(plan), _join(*parts))
    unfinished = ("NotCreated", "UnsupportedResource", "WaitingForApi") if not failed else ("UnsupportedResource",)
    for step in items(plan, "status", "plan"):
        if text(step, "status") in unfinished:
            resource = f"{text(step, 'resource', 'kind')} {text(step, 'resource', 'name')}"
            yield Problem(subject(plan), f"step {resource}: {text(step, 'status')}")


def csv_problems(csv: Object) -> Iterator[Problem]:
    """Yield the phase of a ClusterServiceVersion that is not installed, and its unmet requirements."""
    phase = text(csv, "status", "phase")
    if phase == "Succeeded":
        return
    reason, message = text(csv, "status", "reason"), text(csv, "status", "message")
    yield Problem(subject(csv), f"{phase or 'no phase yet'}: {_join(reason, message)}".rstrip(": "))
    for requirement in items(csv, "status", "requirementStatus"):
        if text(requirement, "status") in ("Present", "Satisfied"):
            continue
        name = f"{text(requirement, 'kind')} {text(requirement, 'name')}"
        yield Problem(f"requirement {name}", _join(text(requirement, "status"), text(requirement, "message")))
        for dependent in items(requirement, "dependents"):
            if text(dependent, "status") not in ("Present", "Satisfied"):
                parts = (text(dependent, "kind"), text(dependent, "status"), text(dependent, "message"))
                yield Problem(f"requirement {name}", _join(*parts))


def deployment_problems(deployment: Object) -> Iterator[Problem]:
    """Yield the conditions of a Deployment that is not available."""
    for type_, good in (("Available", "True"), ("Progressing", "True"), ("ReplicaFailure", "False")):
        entry = condition(deployment, type_)
        if entry and entry.get("status") != good:
            yield Problem(subject(deployment), _join(type_, text(entry, "reason"), text(entry, "message")))


def job_problems(job: Object) -> Iterator[Problem]:
    """Yield the failure of a Job."""
    entry = condition(job, "Failed")
    if entry.get("status") == "True":
        yield Problem(subject(job), _join(text(entry, "reason"), text(entry, "message")) or "failed")


def pod_problems(pod: Object) -> Iterator[Problem]:
    """Yield the problems of a pod: not scheduled, or containers that do not start, or that end with an error."""
    scheduled = condition(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        yield Problem(subject(pod), _join(text(scheduled, "reason"), text(scheduled, "message")))
    if text(pod, "status", "phase") == "Failed" and text(pod, "status", "message"):
        yield Problem(subject(pod), _join(text(pod, "status", "reason"), text(pod, "status", "message")))
    for status in (*items(pod, "status", "initContainerStatuses"), *items(pod, "status", "containerStatuses")):
        where = f"{subject(pod)}, container {text(status, 'name')}"
        waiting = field(status, "state", "waiting")
        if text(waiting, "reason") not in _STARTING:
            yield Problem(where, _join(text(waiting, "reason"), text(waiting, "message")))
        for state in ("state", "lastState"):
            ended = field(status, state, "terminated")
            if isinstance(ended, dict) and ended.get("exitCode") not in (0, None):
                code = f"exit code {ended['exitCode']}"
                yield Problem(where, _join(text(ended, "reason"), code, _last_line(text(ended, "message"))))


def failed_containers(pod: Object) -> Iterator[str]:
    """Yield the names of the containers of a pod that ended with an error, whose logs may contain the cause."""
    for status in (*items(pod, "status", "initContainerStatuses"), *items(pod, "status", "containerStatuses")):
        codes = [field(status, state, "terminated", "exitCode") for state in ("state", "lastState")]
        if any(code not in (0, None) for code in codes):
            yield text(status, "name")


def event_problems(events: Iterable[Object], objects: Iterable[Object]) -> Iterator[Problem]:
    """Yield the warnings among ``events`` about ``objects``, each message once, the most recent ones last."""
    uids = {text(each, "metadata", "uid") for each in objects}
    names = {(text(each, "kind"), name_of(each)) for each in objects}
    seen: dict[Problem, None] = {}
    for event in sorted(events, key=_event_time):
        involved = field(event, "involvedObject")
        concerns = text(involved, "uid") in uids or (text(involved, "kind"), text(involved, "name")) in names
        if concerns and text(event, "type") == "Warning":
            name = f"{text(involved, 'kind')} {text(involved, 'namespace')}/{text(involved, 'name')}"
            problem = Problem(f"event of {name}", _join(text(event, "reason"), text(event, "message")))
            seen.pop(problem, None)
            seen[problem] = None
    yield from seen


def _last_line(message: str) -> str:
    """Return the last line of a message, which is the end of a log if the container wrote none."""
    return next((line.strip() for line in reversed(message.splitlines()) if line.strip()), "")


def _event_time(event: Object) -> str:
    return text(event, "lastTimestamp") or text(event, "eventTime") or text(event, "metadata", "creationTimestamp")


def _join(*parts: str) -> str:
    return ": ".join(dict.fromkeys(filter(None, parts)))


def is_unpack_job(job: Mapping[str, Any], image: str) -> bool:
    """Return whether a Job unpacks a bundle image: one of its containers has the image."""
    spec = ("spec", "template", "spec")
    containers = [*items(job, *spec, "initContainers"), *items(job, *spec, "containers")]
    return any(text(container, "image") == image for container in containers)
