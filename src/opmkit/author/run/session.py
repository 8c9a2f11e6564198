"""The state of one installation or upgrade, checks of its cluster, and waiting with a deadline."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from opmkit.author.run.diagnosis import UNKNOWN_STATE
from opmkit.author.run.errors import InstallationConflict, InstallationFailed, OlmError, OlmNotInstalled
from opmkit.author.run.hint_terms import OlmOperation, OlmSetting
from opmkit.author.run.inspection import Involved, find_problems
from opmkit.author.run.objects import catalog_name, name_of, subject, text
from opmkit.core import interrupts
from opmkit.core.hints import Hint
from opmkit.kube.api import CATALOG_SOURCE, CSV, INSTALL_PLAN, NAMESPACE, SUBSCRIPTION
from opmkit.kube.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable

    from opmkit.author.run.diagnosis import Problem
    from opmkit.core.errors import OpmkitError
    from opmkit.kube import Cluster
    from opmkit.kube.api import Object

    T = TypeVar("T")


_HINTS = {
    "ImagePull": Hint.any_of(
        "check that the cluster can pull the image", Hint("name a secret for it with {}", OlmSetting.PULL_SECRET)
    ),
    f"state {UNKNOWN_STATE}": Hint("check OLM with {}", OlmOperation.OLM_STATUS),
}
"""Hints by texts in problems."""


@dataclass
class OperatorSession:
    """One installation or upgrade.

    Attributes:
        objects: Names of the objects that it involves, for the diagnosis of failures.
        created: Objects that it created, in that order.
    """

    cluster: Cluster
    namespace: str
    package: str
    deadline: WaitDeadline
    reporter: Reporter
    objects: Involved = field(init=False)
    created: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Start without objects."""
        self.objects = Involved(self.namespace)

    def involve(self, **names: str) -> None:
        """Set names of `Involved` objects."""
        self.objects = replace(self.objects, **names)

    def record(self, created: Object) -> None:
        """Record an object that was created, for reports of failures and interruptions."""
        name = subject(created)
        if name not in self.created:
            self.created.append(name)
            interrupts.record_update(name)

    def explain(self, error: OpmkitError, what: str) -> InstallationFailed:
        """Return the error to raise for a failure, with the reasons of the cluster and the remaining objects."""
        problems: list[Problem] = []
        remaining = list(self.created)
        if not isinstance(error, ClusterError) or error.status:  # otherwise the cluster cannot be reached
            problems = find_problems(self.cluster, self.objects)
            remaining += self._created_by_olm()
        details = [f"  {problem}" for problem in problems]
        if remaining:
            details.append(f"remaining objects: {', '.join(remaining)}")
        clean_up = Hint(
            f"run {{}} for package {self.package} in namespace {self.namespace} before the next attempt",
            OlmOperation.CLEAN_UP,
        )
        reported = " ".join(problem.message for problem in problems)
        hints = [hint for text, hint in _HINTS.items() if text in reported]
        hint = Hint.all_of(error.hint, *hints, clean_up if remaining else "")
        return InstallationFailed(f"{what}: {error.message}", details=details, hint=hint)

    def _created_by_olm(self) -> list[str]:
        names = ((INSTALL_PLAN, self.objects.install_plan), (CSV, self.objects.csv))
        found: list[str] = []
        for resource, name in names:
            with suppress(ClusterError):
                if name and self.cluster.find(resource, name, self.namespace):
                    found.append(f"{resource.kind} {self.namespace}/{name}")
        return found


POLL_INTERVAL = 0.5
"""Seconds between two requests."""


class Reporter(Protocol):
    """A receiver of reports about a long operation."""

    def finished(self, text: str) -> None:
        """Report a finished step."""

    def waiting(self, text: str) -> None:
        """Report the current state; called repeatedly, also if it did not change."""


class Pending(Struct, frozen=True):
    """A state that is not reached yet.

    Attributes:
        text: The state, such as ``InstallPlan x to be created``.
        detail: What the cluster reports instead, "" if nothing.
    """

    text: str
    detail: str = ""

    def __str__(self) -> str:
        """Return the state with the detail."""
        return f"{self.text}: {self.detail}" if self.detail else self.text


class TimedOut(OlmError):
    """The deadline passed before the cluster reached a state.

    Attributes:
        pending: The state that was waited for.
    """

    def __init__(self, seconds: float, pending: str) -> None:
        """Create the error."""
        super().__init__(f"timed out after {format_seconds(seconds)}: waited for {pending}")
        self.pending = pending


@dataclass(frozen=True)
class WaitDeadline:
    """The time that an operation may take, in seconds from the creation of this object."""

    seconds: float
    end: float = field(init=False)

    def __post_init__(self) -> None:
        """Compute the end."""
        object.__setattr__(self, "end", time.monotonic() + self.seconds)

    @property
    def remaining(self) -> float:
        """Seconds until the end, at least 0."""
        return max(0.0, self.end - time.monotonic())


def wait_until(check: Callable[[], T | Pending], deadline: WaitDeadline, reporter: Reporter) -> T:
    """Call ``check`` until it returns something else than Pending, and return that.

    Responses of an overloaded or restarting API server are ignored until the deadline.

    Raises:
        TimedOut: The deadline passes.
        ClusterError: The cluster rejects a request, or cannot be reached until the deadline.
        Interrupted: After a signal.
    """
    while True:
        failure: ClusterError | None = None
        try:
            state = check()
        except ClusterError as error:
            if error.status and error.status != 429 and error.status < 500:
                raise
            failure, state = error, Pending("a response of the API server")
        if not isinstance(state, Pending):
            return state
        reporter.waiting(str(state))
        if not deadline.remaining:
            raise failure or TimedOut(deadline.seconds, state.text)
        interrupts.sleep(min(POLL_INTERVAL, deadline.remaining))


def format_seconds(seconds: float) -> str:
    """Return a duration as Go writes it, such as ``2m0s``."""
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    text = f"{rest:.3f}".rstrip("0").rstrip(".") + "s"
    if hours:
        return f"{hours}h{minutes}m{text}"
    return f"{minutes}m{text}" if minutes else text


def list_subscriptions(cluster: Cluster, namespace: str, package: str) -> list[Object]:
    """Return the Subscriptions to a package in a namespace.

    Raises:
        OlmNotInstalled: The cluster does not have OLM's APIs.
    """
    try:
        found = cluster.list(SUBSCRIPTION, namespace)
    except ClusterError as error:
        if error.status != 404:
            raise
        raise OlmNotInstalled(
            f"OLM is not installed in the cluster {cluster.host}: it does not have {SUBSCRIPTION.full_name}",
            hint=Hint.any_of(
                Hint("install it with {}", OlmOperation.INSTALL_OLM),
                "check that the kubeconfig selects the right cluster",
            ),
        ) from error
    return [each for each in found if text(each, "spec", "name") == package]


def check_cluster(cluster: Cluster, namespace: str) -> None:
    """Raise OlmNotInstalled if the cluster does not have OLM, and OlmError if the namespace does not exist."""
    list_subscriptions(cluster, namespace, "")
    check_namespace(cluster, namespace)


def check_namespace(cluster: Cluster, namespace: str) -> None:
    """Raise OlmError if a namespace does not exist; users who may not read it can still use it."""
    try:
        cluster.get(NAMESPACE, namespace)
    except ClusterError as error:
        if error.status == 403:
            return
        if error.status != 404:
            raise
        raise OlmError(
            f"namespace {namespace}: not found",
            hint=Hint.any_of("create it", Hint("choose another one with {}", OlmSetting.NAMESPACE)),
        ) from error


def check_not_installed(cluster: Cluster, namespace: str, package: str) -> None:
    """Raise InstallationConflict if a package is installed, or an earlier attempt left its CatalogSource."""
    existing = list_subscriptions(cluster, namespace, package)
    clean_up = Hint(f"remove it with {{}} for package {package}", OlmOperation.CLEAN_UP)
    if existing:
        installed = text(existing[0], "status", "installedCSV")
        state = f"{installed} is installed" if installed else "an earlier installation is incomplete"
        raise InstallationConflict(
            f"package {package}: already exists in namespace {namespace}: {state}, Subscription {name_of(existing[0])}",
            hint=Hint.any_of(clean_up, Hint("upgrade it with {}", OlmOperation.UPGRADE_OPERATOR)),
        )
    name = catalog_name(package)
    if cluster.find(CATALOG_SOURCE, name, namespace):
        raise InstallationConflict(f"CatalogSource {namespace}/{name}: already exists", hint=clean_up)
