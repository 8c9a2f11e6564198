from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from opmkit.core.errors import LimitExceeded
from opmkit.index.errors import CatalogError
from opmkit.index.plan.explain import explain
from opmkit.index.plan.namespace import AmbiguousChannel, order_channel
from opmkit.index.plan.request import ChannelRequest, NamespaceRequest
from opmkit.index.plan.requirement import InvalidRequirement
from opmkit.index.plan.walk import Walk, walk
from tests.kit.plans import catalog, chain, package, provides, requires_package

if TYPE_CHECKING:
    from opmkit.index.fbc.model import Catalog

LAGOON = package("lagoon", {"stable": chain("lagoon.v1.0.0", "lagoon.v1.1.0", "lagoon.v1.2.0")})
REEF = package(
    "reef", {"stable": chain("reef.v1.0.0", "reef.v1.1.0")}, {"reef.v1.1.0": [requires_package("lagoon", "<1.2.0")]}
)


def plan(
    catalogs: dict[str, Catalog],
    *subscriptions: str,
    installed: tuple[str, ...] = (),
    priorities: dict[str, int] | None = None,
) -> Walk:
    request = NamespaceRequest(tuple(map(ChannelRequest.parse, subscriptions)), installed, priorities or {})
    return walk(request.build(catalogs))


def steps(walked: Walk) -> list[list[str]]:
    return [[step.candidate.name for step in resolution.steps] for resolution in walked.resolutions]


def test_a_subscription_installs_the_head() -> None:
    assert steps(plan({"c": catalog(LAGOON)}, "lagoon")) == [["lagoon.v1.2.0"]]


def test_an_installed_version_is_updated_hop_by_hop() -> None:
    walked = plan({"c": catalog(LAGOON)}, "lagoon/stable", installed=("lagoon.v1.0.0",))
    assert steps(walked) == [["lagoon.v1.1.0"], ["lagoon.v1.2.0"]]
    assert walked.resolutions[0].steps[0].replaces == "lagoon.v1.0.0"
    assert [item.name for item in walked.final.installed] == ["lagoon.v1.2.0"]


def test_a_dependency_is_installed_and_followed_as_well() -> None:
    walked = plan({"c": catalog(LAGOON, REEF)}, "reef")
    assert steps(walked) == [["lagoon.v1.1.0", "reef.v1.1.0"]]
    assert walked.resolutions[0].steps[0].required_by == ("reef.v1.1.0",)
    assert {subscription.package for subscription in walked.final.subscriptions} == {"reef", "lagoon"}


def test_a_search_that_takes_too_long_names_the_subscriptions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opmkit.index.plan.search.MAX_DECISIONS", 1)
    with pytest.raises(LimitExceeded, match=r"Subscriptions \w+ to reef, \w+ to lagoon: no solution found after"):
        plan({"c": catalog(LAGOON, REEF)}, "reef", "lagoon")


def test_dependencies_come_from_the_same_catalog_then_by_priority() -> None:
    provider = package("kelp", {"stable": chain("kelp.v1.0.0")})
    needs = package("urchin", {"stable": chain("urchin.v1.0.0")}, {"urchin.v1.0.0": [requires_package("kelp")]})

    def source(**priorities: int) -> str:
        catalogs = {"own": catalog(needs), "a": catalog(provider), "b": catalog(provider)}
        walked = plan(catalogs, "urchin", priorities=priorities)
        return next(s.candidate.catalog.name for s in walked.resolutions[0].steps if s.candidate.package == "kelp")

    assert (source(), source(b=1), source(a=1, b=-1)) == ("a", "b", "a")
    same = {"a": catalog(provider), "own": catalog(needs, provider)}
    assert {
        step.candidate.catalog.name for step in plan(same, "urchin@own", priorities={"a": 9}).resolutions[0].steps
    } == {"own"}


def test_one_subscription_blocks_all() -> None:
    walked = plan({"c": catalog(LAGOON)}, "lagoon", "zebra")
    assert steps(walked) == []
    assert walked.blocked is not None
    (conflict,) = walked.blocked.conflicts
    explanation = explain(conflict)
    assert explanation.summary == "Subscription zebra cannot be satisfied"
    assert explanation.causes == ("Subscription zebra: catalog c has no package zebra",)
    assert explanation.remedies[0] == "correct or delete Subscription zebra"


def test_each_independent_conflict_is_explained() -> None:
    broken = package("reef", {"stable": chain("reef.v1.0.0")}, {"reef.v1.0.0": [requires_package("mussel")]})
    walked = plan({"c": catalog(broken)}, "reef", "lagoon/fast")
    assert walked.blocked is not None
    summaries = [explain(conflict).summary for conflict in walked.blocked.conflicts]
    assert summaries == ["Subscription lagoon cannot be satisfied", "Subscription reef cannot be satisfied"]
    (cause, *_) = explain(walked.blocked.conflicts[1]).causes
    assert cause == (
        "reef.v1.0.0 requires package mussel in the range >=0.0.0, which neither a catalog nor the namespace has"
    )


def test_a_namespace_has_one_provider_of_an_api() -> None:
    one, other = (
        package(name, {"stable": chain(f"{name}.v1.0.0")}, {f"{name}.v1.0.0": [provides("Thing")]})
        for name in ("a", "b")
    )
    walked = plan({"c": catalog(one, other)}, "a", "b")
    assert walked.blocked is not None
    explanation = explain(walked.blocked.conflicts[0])
    assert explanation.summary == "Subscription a and Subscription b cannot be satisfied together"
    assert "a namespace can have one provider of Thing (demo.com/v1)" in explanation.causes


def test_an_operator_without_a_subscription_stays() -> None:
    walked = plan({"c": catalog(LAGOON, REEF)}, "reef", installed=("lagoon.v1.2.0",))
    assert steps(walked) == [["reef.v1.0.0"]], "the head requires an older lagoon"
    only = package("reef", {"stable": chain("reef.v1.1.0")}, {"reef.v1.1.0": [requires_package("lagoon", "<1.2.0")]})
    blocked = plan({"c": catalog(LAGOON, only)}, "reef", installed=("lagoon.v1.2.0",)).blocked
    assert blocked is not None
    explanation = explain(blocked.conflicts[0])
    assert explanation.summary == (
        "Subscription reef and installed operator lagoon.v1.2.0 cannot be satisfied together"
    )
    assert "lagoon.v1.2.0 is installed without a Subscription, so that OLM neither updates nor removes it" in (
        explanation.causes
    )


def test_an_update_that_excludes_a_dependency_waits() -> None:
    """Reef 1.1.0 needs lagoon below 1.2.0, so lagoon cannot be updated while it is installed."""
    walked = plan({"c": catalog(LAGOON, REEF)}, "reef", "lagoon", installed=("reef.v1.1.0", "lagoon.v1.1.0"))
    assert steps(walked) == []


def test_undetermined_steps_are_listed() -> None:
    """The operator without a Subscription accepts any lagoon, so that it may keep the old one."""
    keeper = package("keeper", {"stable": chain("keeper.v1.0.0")}, {"keeper.v1.0.0": [requires_package("lagoon")]})
    walked = plan({"c": catalog(LAGOON, keeper)}, "lagoon", installed=("keeper.v1.0.0", "lagoon.v1.0.0"))
    (resolution,) = walked.resolutions
    assert (resolution.steps, resolution.is_determined) == ((), False)
    assert [[step.candidate.name for step in other] for other in resolution.others] == [["lagoon.v1.1.0"]]


def test_orders_are_only_left_out_if_they_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare the steps in small random catalogs with those of a search in all orders."""
    numbers = random.Random(1)
    for _ in range(150):
        names = ["a", "b", "c", "d"]
        packages = []
        for name in names:
            versions = [f"{name}.v{number}.0.0" for number in range(1, numbers.randint(2, 4))]
            requires = {
                version: [
                    *([requires_package(other, f"<={numbers.randint(1, 3)}.0.0")] if other != name else []),
                    *([provides(numbers.choice("XYZ"))] if numbers.random() < 0.4 else []),
                ]
                for version in versions
                if (other := numbers.choice(names)) and numbers.random() < 0.6
            }
            packages.append(package(name, {"stable": chain(*versions)}, requires))
        catalogs = {"c": catalog(*packages)}
        installed = tuple(f"{name}.v1.0.0" for name in names if numbers.random() < 0.5)
        subscribed = [name for name in names if numbers.random() < 0.7]
        found = outcome(plan(catalogs, *subscribed, installed=installed))
        with monkeypatch.context() as patched:
            patched.setattr("opmkit.index.plan.namespace._is_order_irrelevant", lambda *_: False)
            assert found == outcome(plan(catalogs, *subscribed, installed=installed))


def outcome(walked: Walk) -> tuple[object, ...]:
    """Return the names of the bundles of each resolution, also of the others that are possible."""
    possible = [
        [
            {frozenset(step.candidate.name for step in each) for each in (found.steps, *found.others)},
            [step.candidate.name for step in found.steps],
        ]
        for found in walked.resolutions
    ]
    return possible, walked.blocked is None, [item.name for item in walked.final.installed]


def test_circles_are_reported() -> None:
    entries = [
        {"name": "lagoon.v1.0.0", "skipRange": ">=1.1.0 <1.2.0"},
        {"name": "lagoon.v1.1.0", "replaces": "lagoon.v1.0.0"},
    ]
    walked = plan({"c": catalog(package("lagoon", {"stable": entries}))}, "lagoon", installed=("lagoon.v1.1.0",))
    assert walked.is_circular


def test_invalid_requirements_and_names() -> None:
    bad = package(
        "reef", {"stable": chain("reef.v1.0.0")}, {"reef.v1.0.0": [{"type": "olm.constraint", "value": {"x": 1}}]}
    )
    with pytest.raises(InvalidRequirement, match="unknown member 'x'"):
        plan({"c": catalog(bad)}, "reef")
    with pytest.raises(CatalogError, match=r"installed bundle 'reef\.v9'"):
        plan({"c": catalog(REEF)}, "reef", installed=("reef.v9",))
    with pytest.raises(CatalogError, match="in several catalogs: a, b"):
        plan({"a": catalog(REEF), "b": catalog(REEF)}, "reef")
    with pytest.raises(CatalogError, match="catalog 'z' not found"):
        plan({"a": catalog(REEF)}, "reef@z")


def test_the_order_of_a_channel() -> None:
    request = NamespaceRequest()
    entries: list[dict[str, object]] = [
        {"name": "a.v1.0.0"},
        {"name": "a.v1.1.0", "replaces": "a.v1.0.0"},
        {"name": "a.v1.2.0", "replaces": "a.v1.0.0", "skips": ["a.v1.1.0"]},
    ]
    (source,) = request.build({"c": catalog(package("a", {"stable": entries}))}).catalogs
    assert [entry.name for entry in order_channel(source.entries)] == ["a.v1.2.0", "a.v1.0.0"]
    heads = [entry for entry in source.entries if entry.name != "a.v1.2.0"]
    with pytest.raises(AmbiguousChannel, match="2 heads"):
        order_channel([heads[0], heads[0].__class__(heads[1].bundle, heads[1].catalog, "stable")])
    assert order_channel([]) == []
