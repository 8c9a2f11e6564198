"""Profiles: the validators that run over a bundle, their order, and the findings that are reported."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from opmkit.bundle.errors import BundleError
from opmkit.bundle.finding import Severity
from opmkit.bundle.validation.compat import ALL, OPMKIT_ONLY, RECENT, Compat

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from opmkit.bundle.finding import Finding
    from opmkit.bundle.validation.bundle_view import BundleView


DEFAULT = "default"
HUB = "operatorhub"
PREFLIGHT = "preflight"
_REQUIREMENTS = ("HUB-", "COMM-")
"""Prefixes of rules with requirements for publishing; their validators also have others."""


class UnknownName(BundleError):
    """There is no profile or optional validator of this name."""


class Step(Struct, frozen=True):
    """Validators that run one after the other. After a ``final`` step, an error ends the run."""

    validators: tuple[str, ...]
    final: bool = False
    compat: frozenset[Compat] = ALL

    def without(self, taken: Collection[str]) -> Step:
        """Return the step without the validators that run anyway."""
        return structs.replace(self, validators=tuple(name for name in self.validators if name not in taken))


class Profile(Struct, frozen=True):
    """A sequence of steps.

    Attributes:
        name: Name on the command line.
        summary: One line for the documentation.
        steps: Steps that always run.
        min_severity: Severity from which findings are reported.
        optional: Steps that run on request, by their names.
        all_validators: Whether all further validators run, except those that only run on request.
        advisory: Validators whose requirements are reported as warnings unless they are selected.
        compat: Program whose results it gives by default, None for opmkit.
        prepare: Returns the part of a bundle that its rules see.
        accepts_bare: Whether the format of a manifests directory without metadata is not validated.
    """

    name: str
    summary: str
    steps: tuple[Step, ...]
    min_severity: Severity = Severity.WARNING
    optional: Mapping[str, Step] = {}
    all_validators: bool = False
    advisory: frozenset[str] = frozenset()
    compat: Compat | None = None
    prepare: Callable[[BundleView], BundleView] | None = None
    accepts_bare: bool = True

    def grade(self, finding: Finding, selected: Collection[str]) -> Finding:
        """Return a finding with the severity of this profile; ``selected`` are the names of optional validators."""
        is_advisory = finding.validator in self.advisory and finding.rule.startswith(_REQUIREMENTS)
        if not is_advisory or finding.validator in selected or HUB in selected:
            return finding
        return replace(finding, severity=Severity.WARNING)

    def select_steps(self, compat: Compat, optional: Iterable[str] = (), known: Iterable[str] = ()) -> list[Step]:
        """Return the steps for a compatibility mode, the optional ones last; ``known`` are all validators.

        Raises:
            UnknownName: The profile has no optional step of such a name.
        """
        steps = [step for step in self.steps if compat in step.compat]
        if self.all_validators:
            taken = {name for step in self.steps for name in step.validators} | _ON_REQUEST
            steps.append(Step(tuple(name for name in known if name not in taken)))
        for name in optional:
            if name not in self.optional:
                message = f"unknown optional validator {name!r} of the profile {self.name}"
                raise UnknownName(message, hint=f"choose one of {', '.join(self.optional)}")
            taken = {name for step in steps for name in step.validators}
            if compat in self.optional[name].compat:
                steps.append(self.optional[name].without(taken))
        return steps


class OptionalValidator(Struct, frozen=True):
    """A validator of operator-sdk that is selected by its labels.

    ``compat`` are the modes in which it exists, ``suite`` those in which it belongs to the suite operatorframework.
    """

    name: str
    summary: str
    compat: frozenset[Compat] = ALL
    suite: frozenset[Compat] = ALL

    def labels(self, compat: Compat) -> Mapping[str, str]:
        """Return the labels by which it is selected."""
        return {"name": self.name, **({"suite": "operatorframework"} if compat in self.suite else {})}


_OPM_1_26_ONLY = frozenset({Compat.OPM_1_26})
_NONE: frozenset[Compat] = frozenset()

OPTIONAL: tuple[OptionalValidator, ...] = (
    OptionalValidator("operatorhubv2", "requirements of OperatorHub.io", RECENT, RECENT),
    OptionalValidator("capabilities", "capability level", RECENT, RECENT),
    OptionalValidator("categories", "categories", RECENT, RECENT),
    OptionalValidator("operatorhub", "the three validators above (deprecated)", suite=_OPM_1_26_ONLY),
    OptionalValidator("community", "requirements of the community catalogs (deprecated)", suite=_NONE),
    OptionalValidator("alpha-deprecated-apis", "removed and deprecated Kubernetes APIs"),
    OptionalValidator("good-practices", "good practices"),
    OptionalValidator("multiarch", "platforms of the operator's images", suite=_NONE),
    OptionalValidator("openshift", "OpenShift versions of the bundle and its APIs", OPMKIT_ONLY, _NONE),
    OptionalValidator("pipeline", "requirements of Red Hat's pipelines for all catalogs", OPMKIT_ONLY, _NONE),
    OptionalValidator("community-pipeline", "requirements of community-operators-prod", OPMKIT_ONLY, _NONE),
    OptionalValidator("olm-v1", "what OLM v1 does not support", OPMKIT_ONLY, _NONE),
)
"""The optional validators of operator-sdk, and those of opmkit."""

_HUB = (
    Step(("operatorhub",), compat=_OPM_1_26_ONLY),
    Step(("operatorhubv2", "capabilities", "categories"), compat=RECENT),
)
_SDK = (
    Step(("load",), final=True),
    Step(("format",)),
    Step(("sdk-content", "bundle", "csv", "crd")),
)
_BUNDLE_OBJECTS = {"bundle-objects": Step(("object",), compat=OPMKIT_ONLY)}  # the Go tools find nothing
_OPTIONAL_STEPS = {
    **{validator.name: Step((validator.name,), compat=validator.compat) for validator in OPTIONAL},
    **_BUNDLE_OBJECTS,
}
_PIPELINE = Step(("openshift", "pipeline"), compat=OPMKIT_ONLY)
_ON_REQUEST = frozenset(
    {
        *("operatorhub", "opm-content-optional", "multiarch", "packagemanifest", "operator"),
        *("pipeline", "community-pipeline", "olm-v1", PREFLIGHT),
    }
)
"""Validators that repeat others, send requests, validate other directories, or are specific to a catalog."""

_ALL = (
    Step(("load", "format", "sdk-content", "bundle", "csv", "crd", "opm-content", "object")),
    *_HUB,
    Step(("community", "alpha-deprecated-apis", "good-practices", "opmkit")),
)
_PUBLISHING = frozenset({"operatorhub", "operatorhubv2", "capabilities", "categories", "community"})
"""Validators with requirements for publishing, without which a bundle works."""


def _as_extracted(bundle: BundleView) -> BundleView:
    from opmkit.bundle.validation.preflight import as_extracted  # rarely needed

    return as_extracted(bundle)


PROFILES: Mapping[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile(
            "opm",
            "the rules of opm alpha bundle validate: errors only; manifests only if the format is valid",
            (Step(("format",), final=True), Step(("opm-content",))),
            min_severity=Severity.ERROR,
            optional={"operatorhub": Step(("opm-content-optional",)), **_BUNDLE_OBJECTS},
        ),
        Profile(
            "operator-sdk",
            "the rules of operator-sdk bundle validate",
            _SDK,
            optional=_OPTIONAL_STEPS,
            accepts_bare=False,
        ),
        Profile(
            "operatorhub",
            "operator-sdk, and the requirements of OperatorHub.io",
            (*_SDK, *_HUB),
            optional=_OPTIONAL_STEPS,
        ),
        Profile(
            "community",
            "operatorhub, and the requirements of the community catalogs",
            (
                *(*_SDK, *_HUB, Step(("community", "alpha-deprecated-apis", "good-practices"))),
                *(_PIPELINE, Step(("community-pipeline",), compat=OPMKIT_ONLY)),
            ),
            optional=_OPTIONAL_STEPS,
        ),
        Profile(
            "redhat",
            "operator-sdk, and the requirements of the catalogs of certified operators",
            (*_SDK, Step(("alpha-deprecated-apis",)), _PIPELINE),
            optional=_OPTIONAL_STEPS,
        ),
        Profile(
            "olm-v1",
            "operator-sdk, and what OLM v1 does not support",
            (*_SDK, Step(("olm-v1",), compat=OPMKIT_ONLY)),
            optional=_OPTIONAL_STEPS,
        ),
        Profile(
            PREFLIGHT,
            "the checks of openshift-preflight for certification that need no cluster",
            (
                Step((PREFLIGHT,)),
                Step(("load",), final=True),
                Step(("bundle", "csv", "crd", "operatorhubv2", "capabilities", "categories")),
            ),
            compat=Compat.NEWEST,
            prepare=_as_extracted,
        ),
        Profile(
            "all",
            "all rules, without ending the run early",
            _ALL,
            optional=_OPTIONAL_STEPS,
            all_validators=True,
        ),
        Profile(
            DEFAULT,
            "all rules; requirements for publishing are warnings unless their validators are selected",
            _ALL,
            optional=_OPTIONAL_STEPS,
            all_validators=True,
            advisory=_PUBLISHING,
        ),
    )
}
"""The profiles by name."""


def profile_named(name: str) -> Profile:
    """Return a profile.

    Raises:
        UnknownName: There is no such profile.
    """
    if name not in PROFILES:
        raise UnknownName(f"unknown profile {name!r}", hint=f"choose one of {', '.join(PROFILES)}")
    return PROFILES[name]
