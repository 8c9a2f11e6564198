"""Profiles: which validators run over a bundle, in which order, what ends the run, and what of it is shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opmkit.bundle.errors import BundleError
from opmkit.bundle.finding import Severity
from opmkit.bundle.validation.compat import ALL, OPMKIT_ONLY, RECENT, Compat

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class UnknownName(BundleError):
    """A profile or validator that there is not."""


@dataclass(frozen=True, slots=True)
class Step:
    """Validators that run one after the other. An error of one that is ``final`` ends the run after the step."""

    validators: tuple[str, ...]
    final: bool = False
    compat: frozenset[Compat] = ALL


@dataclass(frozen=True, slots=True)
class Profile:
    """A sequence of steps; findings less grave than ``min_severity`` are not shown.

    ``optional`` are the steps that are added if they are asked for by name; ``everything`` adds all validators that no
    profile leaves to be asked for.
    """

    name: str
    summary: str
    steps: tuple[Step, ...]
    min_severity: Severity = Severity.WARNING
    optional: Mapping[str, Step] = field(default_factory=dict)
    everything: bool = False

    def select_steps(self, compat: Compat, optional: Iterable[str] = (), known: Iterable[str] = ()) -> list[Step]:
        """The steps in a dialect, those asked for last. ``known`` are all validators there are.

        Raises:
            UnknownName: for an optional step that the profile does not have.
        """
        steps = list(self.steps)
        if self.everything:
            taken = {name for step in steps for name in step.validators} | _ON_REQUEST
            steps.append(Step(tuple(name for name in known if name not in taken)))
        for name in optional:
            if name not in self.optional:
                told = f"the profile {self.name} has no optional validator {name!r}"
                raise UnknownName(told, hint=f"It has {', '.join(self.optional)}.")
            steps.append(self.optional[name])
        return [step for step in steps if compat in step.compat]


@dataclass(frozen=True, slots=True)
class OptionalValidator:
    """A validator of operator-sdk that runs if it is selected by its labels; ``suite`` is where it is in the suite."""

    name: str
    summary: str
    compat: frozenset[Compat] = ALL
    suite: frozenset[Compat] = ALL

    def labels(self, compat: Compat) -> Mapping[str, str]:
        """The labels by which it is selected."""
        return {"name": self.name, **({"suite": "operatorframework"} if compat in self.suite else {})}


_OLDER = frozenset({Compat.OPM_1_26})
_NOWHERE: frozenset[Compat] = frozenset()

OPTIONAL: tuple[OptionalValidator, ...] = (
    OptionalValidator("operatorhubv2", "what OperatorHub.io asks for", RECENT, RECENT),
    OptionalValidator("capabilities", "the capability level", RECENT, RECENT),
    OptionalValidator("categories", "the categories", RECENT, RECENT),
    OptionalValidator("operatorhub", "the three above in one (deprecated)", suite=_OLDER),
    OptionalValidator("community", "what the community catalogs ask for (deprecated)", suite=_NOWHERE),
    OptionalValidator("alpha-deprecated-apis", "APIs that Kubernetes has removed, or will"),
    OptionalValidator("good-practices", "good practices"),
    OptionalValidator("multiarch", "the platforms of the operator's images", suite=_NOWHERE),
)
"""The optional validators of operator-sdk."""

_HUB = (
    Step(("operatorhub",), compat=_OLDER),
    Step(("operatorhubv2", "capabilities", "categories"), compat=RECENT),
)
_SDK = (
    Step(("load",), final=True),
    Step(("format",)),
    Step(("sdk-content", "bundle", "csv", "crd")),
)
_OPTIONAL_STEPS = {one.name: Step((one.name,), compat=one.compat) for one in OPTIONAL}
_ON_REQUEST = frozenset({"operatorhub", "opm-content-optional", "multiarch", "packagemanifest"})
"""Validators that repeat what others do, ask registries, or are about packages."""

PROFILES: Mapping[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile(
            "opm",
            "as opm alpha bundle validate: errors alone, and the manifests only if the format is right",
            (Step(("format",), final=True), Step(("opm-content",))),
            min_severity=Severity.ERROR,
            optional={
                "operatorhub": Step(("opm-content-optional",)),
                "bundle-objects": Step(("object",), compat=OPMKIT_ONLY),  # the Go tools find nothing
            },
        ),
        Profile("operator-sdk", "as operator-sdk bundle validate", _SDK, optional=_OPTIONAL_STEPS),
        Profile(
            "operatorhub",
            "as operator-sdk, and what OperatorHub.io asks for",
            (*_SDK, *_HUB),
            optional=_OPTIONAL_STEPS,
        ),
        Profile(
            "community",
            "as operatorhub, and what the community catalogs ask for",
            (*_SDK, *_HUB, Step(("community", "alpha-deprecated-apis", "good-practices"))),
            optional=_OPTIONAL_STEPS,
        ),
        Profile(
            "all",
            "every rule, and nothing ends the run early",
            (
                Step(("load", "format", "sdk-content", "bundle", "csv", "crd", "opm-content", "object")),
                *_HUB,
                Step(("community", "alpha-deprecated-apis", "good-practices", "opmkit")),
            ),
            optional=_OPTIONAL_STEPS,
            everything=True,
        ),
    )
}
"""The profiles, by their names."""


def profile_named(name: str) -> Profile:
    """The profile of that name; raises UnknownName if there is none."""
    if name not in PROFILES:
        raise UnknownName(f"there is no profile {name!r}", hint=f"The profiles are {', '.join(PROFILES)}.")
    return PROFILES[name]
