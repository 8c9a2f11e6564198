from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from opmkit.core.errors import OpmkitError
from opmkit.index.fbc.load import parse_blobs
from opmkit.index.plan.ending import Outcome
from opmkit.index.plan.extension import ExtensionCatalog, ExtensionRequest, InstalledBundle, version_text
from opmkit.index.plan.extension_paths import plan_extension, plan_extension_updates
from tests.kit.plans import chain, encode, package, requires_package
from tests.kit.resolution_cases import random_catalog, random_releases

if TYPE_CHECKING:
    from opmkit.index.fbc.blobs import Blobs
    from opmkit.index.plan.paths import UpdatePath

OLD = package("acme", {"stable": chain("acme.v1.0.0", "acme.v1.1.0"), "fast": chain("acme.v1.1.0", "acme.v1.2.0")})


def blobs(documents: list[dict[str, Any]]) -> Blobs:
    return parse_blobs(encode(documents), "c.json")


def paths(new: list[dict[str, Any]], old: list[dict[str, Any]] = OLD) -> dict[tuple[str, str], UpdatePath]:
    return {(path.channel, path.installed): path for path in plan_extension_updates(blobs(new), blobs(old))}


def test_an_extension_follows_all_channels_or_one() -> None:
    found = paths(OLD)
    assert found["", "acme.v1.0.0"].hops == ("acme.v1.1.0", "acme.v1.2.0")
    assert found["stable", "acme.v1.0.0"].hops == ("acme.v1.1.0",)
    assert {path.outcome for path in found.values()} == {Outcome.HEAD}
    assert ("fast", "acme.v1.0.0") not in found


def test_why_a_version_is_not_updated() -> None:
    found = paths(package("acme", {"stable": chain("acme.v1.1.0", "acme.v2.0.0")}))
    stuck = found["", "acme.v1.0.0"]
    assert (stuck.outcome, stuck.reason) == (Outcome.STUCK, "no entry of any channel replaces or skips acme.v1.0.0")
    assert stuck.remedy == "let acme.v2.0.0 skip acme.v1.0.0"
    gone = found["fast", "acme.v1.2.0"]
    assert (gone.outcome, gone.reason) == (Outcome.GONE, "package acme has no channel fast, only stable")
    assert paths(package("other", {"stable": chain("other.v1.0.0")}))["", "acme.v1.0.0"].outcome is Outcome.GONE


def test_a_version_with_dependencies_stops_all_updates() -> None:
    new = package("acme", {"stable": chain("acme.v1.0.0", "acme.v1.1.0")}, {"acme.v1.1.0": [requires_package("reef")]})
    found = paths(new)["", "acme.v1.0.0"]
    assert (found.outcome, found.hops) == (Outcome.UNRESOLVABLE, ())
    assert found.reason.startswith("acme.v1.1.0 has a dependency (olm.package.required)")


def test_a_deprecated_version_is_left_for_the_one_before() -> None:
    entry = {"reference": {"schema": "olm.bundle", "name": "acme.v1.1.0"}, "message": "old"}
    deprecations = {"schema": "olm.deprecations", "package": "acme", "entries": [entry]}
    new = package("acme", {"stable": [{"name": "acme.v1.0.0", "skips": ["acme.v1.1.0"]}, {"name": "acme.v1.1.0"}]})
    found = paths([*new, deprecations])
    assert found["", "acme.v1.1.0"].hops == ("acme.v1.0.0",)


@pytest.mark.parametrize("seed", range(20))
def test_paths_are_resolved_step_by_step(seed: int) -> None:
    """The paths of all versions equal repeated resolutions of each."""
    rng = random.Random(seed)
    documents = random_releases(rng, random_catalog(rng))
    try:
        catalog = parse_blobs("\n".join(map(json.dumps, documents)).encode(), "c.json")
    except OpmkitError:
        pytest.skip("the random catalog is invalid")
    versions = {bundle.name: version_text(bundle) for bundle in catalog.bundles}
    for path in plan_extension_updates(catalog, catalog):
        installed = InstalledBundle(path.installed, versions[path.installed])
        request = ExtensionRequest(path.package, "", (path.channel,) if path.channel else (), installed=installed)
        plan = plan_extension(request, [ExtensionCatalog("c", catalog)])
        assert path.hops == tuple(step.bundle.name for step in plan.steps)
        assert plan.is_blocked == (path.outcome in (Outcome.UNRESOLVABLE, Outcome.GONE))
