"""Updates of channels with thousands of entries, and their equality with those of simple loops."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from opmkit.bundle.validation.compat import OlmVersion
from opmkit.bundle.versions import VersionRange, strict_version, version_key
from opmkit.core.errors import LimitExceeded
from opmkit.index.fbc.load import load_files
from opmkit.index.fbc.model import Catalog
from opmkit.index.plan import edges, result
from opmkit.index.plan.edges import ReviewedUpdates, review_updates
from opmkit.index.plan.ending import Outcome
from opmkit.index.plan.extension import ExtensionCatalog, ExtensionRequest, InstalledBundle
from opmkit.index.plan.extension_paths import plan_extension, plan_extension_updates
from opmkit.index.plan.paths import UpdatePath
from opmkit.index.plan.result import UpdatePlan
from opmkit.index.plan.successors import Hops, Routes, Successors
from tests.kit.plans import long_channel

if TYPE_CHECKING:
    from collections.abc import Mapping

RANGES = ("<1.2.0", ">=1.0.0 <2.0.0", "!1.1.1", ">1.5.0 || <0.3.0", "1.1.0", ">=0.0.0")


def offered(rng: random.Random) -> tuple[dict[int, int], dict[int, int]]:
    """Return the updates of random bundles, and those that a simple loop finds."""
    versions = [f"{rng.randrange(3)}.{rng.randrange(3)}.{rng.randrange(3)}" for _ in range(rng.randint(1, 30))]
    keys = [version_key(strict_version(version)) for version in versions]
    successors: Successors[int, int] = Successors(zip(keys, range(len(keys)), strict=True))
    expected: dict[int, int] = {}
    for update in range(20):
        named = rng.sample(range(len(keys)), rng.randrange(2))
        span = VersionRange.parse(rng.choice(RANGES))
        successors.offer(named, update)
        successors.offer_range(span, update)
        for number in (*named, *(number for number, key in enumerate(keys) if span.contains_key(key))):
            expected.setdefault(number, update)
    return successors.found, expected


def walked(graph: Mapping[int, int], start: int) -> tuple[list[int], int | None]:
    """Return the bundles on a route, and the one that it leads back to."""
    found: list[int] = []
    current = start
    while current in graph:
        current = graph[current]
        if current == start or current in found:
            return found, current
        found.append(current)
    return found, None


@pytest.mark.parametrize("seed", range(200))
def test_random_updates_and_routes(seed: int) -> None:
    rng = random.Random(seed)
    found, expected = offered(rng)
    assert found == expected
    graph = {each: rng.randrange(20) for each in rng.sample(range(20), rng.randrange(20))}
    graph = {each: following for each, following in graph.items() if each != following}
    routes = Routes(graph)
    for start in range(20):
        route = routes[start]
        hops, repeated = walked(graph, start)
        assert (route.repeated, route.last) == (repeated, hops[-1] if hops else start)
        names = Hops(route, str, route.count)
        assert (tuple(names), names.last, len(names)) == (tuple(map(str, hops)), str(route.last), len(hops))
        assert names == tuple(map(str, hops))
        assert names[:1] == names[0:1] == tuple(map(str, hops[:1]))


def test_paths_of_a_long_channel_share_their_hops() -> None:
    blobs = load_files([("catalog.json", long_channel("pool", 5000))]).blobs
    paths = list(plan_extension_updates(blobs, blobs))
    assert {path.outcome for path in paths} == {Outcome.HEAD}
    assert sum(len(path.hops) for path in paths) == 5000 * 4999
    assert paths[0].hops[0] == "pool.v1.1.0"
    catalog = Catalog.from_blobs(blobs)
    assert review_updates(paths, catalog, catalog) == ReviewedUpdates(tuple(paths), ())
    with pytest.raises(LimitExceeded, match="package pool: 24995000 updates on all paths, and 10000000 are the limit"):
        UpdatePlan(tuple(paths)).to_dict()
    assert UpdatePlan(tuple(paths)).counts == {Outcome.HEAD: 10_000}


def test_updates_of_an_extension_are_found_in_one_pass() -> None:
    blobs = load_files([("catalog.json", long_channel("pool", 5000))]).blobs
    request = ExtensionRequest("pool", installed=InstalledBundle("pool.v1.0.0", "1.0.0"))
    plan = plan_extension(request, [ExtensionCatalog("catalog", blobs)])
    assert (len(plan.steps), plan.problem, plan.steps[-1].bundle.name) == (4999, "", "pool.v1.4999.0")


def test_too_many_updates_that_differ_name_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edges, "MAX_UPDATES", 10)
    monkeypatch.setattr(result, "MAX_HOPS", 10)
    blobs = load_files([("catalog.json", long_channel("pool", 12))]).blobs
    catalog = Catalog.from_blobs(blobs)
    with pytest.raises(LimitExceeded, match="package pool: more than 10 updates"):
        review_updates(list(plan_extension_updates(blobs, blobs)), catalog, catalog)
    path = UpdatePath("pool", "stable", "a", ("b",), Outcome.HEAD, olm=OlmVersion.V1)
    assert UpdatePlan((path,)).to_dict()["paths"][0]["hops"] == ["b"]
