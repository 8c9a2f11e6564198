from __future__ import annotations

import json
import random
import re
from typing import TYPE_CHECKING, Any

import pytest

from opmkit.bundle.validation.compat import OlmVersion
from opmkit.core.errors import LimitExceeded
from opmkit.index.diff.fbc import diff_blobs
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.load import load_files, parse_blobs
from opmkit.index.fbc.model import Catalog
from opmkit.index.plan.ending import Outcome
from opmkit.index.plan.extension_paths import plan_extension_updates
from opmkit.index.plan.paths import UpdatePath, plan_updates
from opmkit.index.plan.search import search
from tests.kit.plans import catalog, chain, encode, package, requires_package
from tests.kit.resolution_cases import random_catalog

if TYPE_CHECKING:
    from opmkit.index.plan.candidate import CatalogEntry
    from opmkit.index.plan.search import ChoiceProblem, Contradiction, Solution

OLD = package("acme", {"stable": chain("acme.v1.0.0", "acme.v1.1.0", "acme.v1.2.0")})


def paths(new: list[dict[str, object]], old: list[dict[str, object]] = OLD) -> dict[str, UpdatePath]:
    return {path.installed: path for path in plan_updates(catalog(new), catalog(old))}


def test_versions_reach_the_head() -> None:
    new = package("acme", {"stable": chain("acme.v1.0.0", "acme.v1.1.0", "acme.v1.2.0", "acme.v1.3.0")})
    found = paths(new)
    assert {path.outcome for path in found.values()} == {Outcome.HEAD}
    assert found["acme.v1.0.0"].hops == ("acme.v1.1.0", "acme.v1.2.0", "acme.v1.3.0")
    assert found["acme.v1.0.0"].final == "acme.v1.3.0"


def test_a_skipped_and_a_removed_version_reach_the_head() -> None:
    entries = [{"name": "acme.v1.3.0", "replaces": "acme.v1.2.0", "skips": ["acme.v1.1.0"], "skipRange": "<1.1.0"}]
    found = paths(package("acme", {"stable": entries}))
    assert {path.hops for path in found.values()} == {("acme.v1.3.0",)}


def test_a_version_that_nothing_replaces_is_stuck() -> None:
    entries: list[dict[str, object]] = [
        {"name": "acme.v1.1.0"},
        {"name": "acme.v1.3.0", "replaces": "acme.v1.1.0"},
    ]
    found = paths(package("acme", {"stable": entries}))
    assert found["acme.v1.1.0"].outcome is Outcome.HEAD
    stuck = found["acme.v1.2.0"]
    assert (stuck.outcome, stuck.hops) == (Outcome.STUCK, ())
    assert stuck.reason == "no entry of stable replaces or skips acme.v1.2.0 (acme.v1.3.0 replaces acme.v1.1.0)"
    assert stuck.remedy == "let acme.v1.3.0 skip acme.v1.2.0"
    entries[1]["skips"] = ["acme.v1.2.0", "acme.v1.0.0"]
    assert {path.outcome for path in paths(package("acme", {"stable": entries})).values()} == {Outcome.HEAD}


@pytest.mark.parametrize(
    ("new", "reason"),
    [
        (package("other", {"stable": chain("other.v1.0.0")}), "the catalog has no package acme"),
        (package("acme", {"fast": chain("acme.v1.2.0")}), "package acme has no channel stable, only fast"),
    ],
)
def test_a_channel_that_is_gone(new: list[dict[str, object]], reason: str) -> None:
    assert {(path.outcome, path.reason) for path in paths(new).values()} == {(Outcome.GONE, reason)}


def test_a_requirement_that_the_catalog_does_not_meet() -> None:
    new = package("acme", {"stable": chain("acme.v1.2.0", "acme.v1.3.0")}, {"acme.v1.3.0": [requires_package("kelp")]})
    path = paths(new)["acme.v1.2.0"]
    assert (path.outcome, path.hops) == (Outcome.UNRESOLVABLE, ())
    assert path.reason == ("acme.v1.3.0 requires package kelp in the range >=0.0.0, which the catalog does not have")


def test_circles() -> None:
    entries = [
        {"name": "acme.v1.1.0", "skipRange": ">=1.2.0 <1.3.0"},
        {"name": "acme.v1.2.0", "replaces": "acme.v1.1.0"},
    ]
    assert paths(package("acme", {"stable": entries}))["acme.v1.1.0"].outcome is Outcome.CIRCULAR


def test_a_channel_without_an_order() -> None:
    (path, *_) = plan_updates(catalog(OLD), catalog(OLD), ["acme"])
    assert path.to_dict()["outcome"] == "head"
    assert list(plan_updates(catalog(OLD), catalog(OLD), ["other"])) == []


def random_entries(rng: random.Random) -> list[dict[str, object]]:
    """Return a valid channel of some of nine versions, with edges to versions that it may lack."""
    numbers = sorted(rng.sample(range(9), rng.randint(1, 6)))
    entries: list[dict[str, object]] = []
    for position, number in enumerate(numbers):
        entry: dict[str, object] = {"name": f"acme.v1.{number}.0"}
        older = numbers[position - 1] if position else rng.randrange(number) if number else None
        if older is not None:
            entry["replaces"] = f"acme.v1.{older}.0"
        if number and rng.random() < 0.3:
            entry["skips"] = [f"acme.v1.{other}.0" for other in rng.sample(range(number), 1) if other not in numbers]
        if rng.random() < 0.2:
            entry["skipRange"] = f">=1.{rng.randint(0, number)}.0 <1.{number}.0"
        entries.append(entry)
    return entries


@pytest.mark.parametrize("seed", range(200))
def test_differences_name_the_versions_that_plans_find_stuck(seed: int) -> None:
    """Changes warn about versions that they strand without planning updates, which must find the same."""
    rng = random.Random(seed)
    old, new = (package("acme", {"stable": random_entries(rng)}) for _ in range(2))
    difference = diff_blobs(*(parse_blobs(encode(documents), "catalog.json") for documents in (old, new)))
    stranded = {name for each in difference.packages for channel in each.channels for name in channel.stranded}
    stuck = {name for name, path in paths(new, old).items() if path.outcome is not Outcome.HEAD}
    assert stranded == stuck


LET = re.compile(r"let (\S+) (skip|replace) (.+?)(?: in channel (\S+))?")
FOLLOW = "follow channel "


@pytest.mark.parametrize("olm", OlmVersion)
def test_remedies_lead_to_the_head(olm: OlmVersion) -> None:
    """Each change results in a valid catalog with which the version is updated to the head."""
    rng, tried = random.Random(1), 0
    while tried < 60:
        new, old = random_catalog(rng), random_catalog(rng)
        try:
            stuck = [path for path in plan(new, old, olm) if path.outcome is Outcome.STUCK]
        except CatalogError:
            continue  # one of the catalogs is invalid
        for path in stuck:
            channel = path.remedy.removeprefix(FOLLOW) if path.remedy.startswith(FOLLOW) else path.channel
            if (change := LET.fullmatch(path.remedy)) or channel != path.channel:
                tried += 1
                changed = applied(change, path, new) if change else new
                after = {(each.channel, each.installed): each for each in plan(changed, old, olm, path.package)}
                assert after[channel, path.installed].outcome is Outcome.HEAD, path


def plan(
    new: list[dict[str, Any]], old: list[dict[str, Any]], olm: OlmVersion, package_name: str = ""
) -> list[UpdatePath]:
    """Return the paths of all versions; with a package, those of all its versions in each channel of the new one."""
    if package_name:
        names = [each["name"] for each in old if (each["schema"], each.get("package")) == ("olm.bundle", package_name)]
        channels = {each["name"] for each in new if each["schema"] == "olm.channel" and each["package"] == package_name}
        chains = {channel: chain(*names) for channel in sorted(channels)}
        old = package(package_name, chains)
    before, after = (load_files([("catalog.json", encode(documents))]).blobs for documents in (old, new))
    if olm is OlmVersion.V1:
        Catalog.from_blobs(after)
        return list(plan_extension_updates(after, before))
    return list(plan_updates(Catalog.from_blobs(after), Catalog.from_blobs(before)))


def applied(change: re.Match[str], path: UpdatePath, documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the documents of a catalog with a change of one entry."""
    bundle, verb, names, named = change.groups()
    changed: list[dict[str, Any]] = json.loads(json.dumps(documents))
    (entry,) = (
        entry
        for each in changed
        if each["schema"] == "olm.channel" and each["package"] == path.package
        if (named or path.channel) in ("", each["name"])
        for entry in each["entries"]
        if entry["name"] == bundle
    )
    edges = {"skips": [*entry.get("skips", ()), *names.split(" and ")]} if verb == "skip" else {"replaces": names}
    entry |= edges
    return changed


def dependencies(count: int, last: str = "") -> list[dict[str, object]]:
    """Return packages each of which requires the next, and the last one another."""
    names = [f"p{number}" for number in range(count)]
    return [
        document
        for name, following in zip(names, [*names[1:], last], strict=True)
        for document in package(
            name,
            {"stable": chain(f"{name}.v1.0.0")},
            {f"{name}.v1.0.0": [requires_package(following)]} if following else {},
        )
    ]


def test_a_long_chain_of_dependencies_is_resolved_once_in_each_state(monkeypatch: pytest.MonkeyPatch) -> None:
    searched = []

    def count(problem: ChoiceProblem[CatalogEntry]) -> Solution[CatalogEntry] | Contradiction[CatalogEntry]:
        searched.append(problem)
        return search(problem)

    monkeypatch.setattr("opmkit.index.plan.namespace.search", count)
    found = paths(dependencies(40), dependencies(40))
    assert {path.outcome for path in found.values()} == {Outcome.HEAD}
    assert len(searched) == 78  # one that installs the dependencies, if there are any, and one that finds nothing to do


def test_dependencies_of_all_updates_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opmkit.index.plan.paths.MAX_CONSIDERED", 100)
    with pytest.raises(LimitExceeded, match="package p1: more than 100 bundles to consider"):
        paths(dependencies(30), dependencies(30))
    broken = dependencies(30, "missing")
    with pytest.raises(LimitExceeded, match="package p12: more than 100 bundles to consider"):
        paths(broken, broken)
