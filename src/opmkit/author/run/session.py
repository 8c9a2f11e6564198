"""The state of one installation or upgrade: its cluster, deadline, and the objects that it involves."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from opmkit.author.run.diagnosis import UNKNOWN_STATE
from opmkit.author.run.errors import InstallationFailed
from opmkit.author.run.hint_terms import OlmOperation, OlmSetting
from opmkit.author.run.inspection import Involved, find_problems
from opmkit.author.run.objects import subject
from opmkit.core import interrupts
from opmkit.core.hints import Hint
from opmkit.kube.errors import ClusterError
from opmkit.kube.resources import CSV, INSTALL_PLAN

if TYPE_CHECKING:
    from opmkit.author.run.diagnosis import Problem
    from opmkit.author.run.waiting import Reporter, WaitDeadline
    from opmkit.core.errors import OpmkitError
    from opmkit.kube import Cluster
    from opmkit.kube.resources import Object

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
