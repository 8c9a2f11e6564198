"""Updates on paths: what OLM refuses because of a CRD, and what operators may do after them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opmkit.index.fbc.definitions import RefusedUpdate
from opmkit.index.plan.edges import gained_permissions, review_updates
from opmkit.index.plan.paths import plan_updates
from tests.kit.permissions import PODS, SECRETS, csv, read
from tests.kit.plans import catalog, chain, definition, embeds, package

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.index.fbc.model import Catalog

DROPPED = "version {} is removed, but objects may be stored in it"


def reefs(**definitions: dict[str, Any] | None) -> Catalog:
    """Return a catalog with a channel of versions v1, v2, ..., each with a definition."""
    names = {f"reef.v{name[1:]}.0.0": value for name, value in definitions.items()}
    properties = {name: [embeds(value)] for name, value in names.items() if value}
    return catalog(package("reef", {"stable": chain(*names)}, properties))


def refused(new: Catalog, published: Catalog) -> list[tuple[str, str, str]]:
    """Return both bundles and the reason of each refused update."""
    found = review_updates(tuple(plan_updates(new, published)), new, published).refused
    assert all(update.package == "reef" and update.definition == "reefs.demo.com" for update in found)
    return [(update.installed, update.next, update.reason) for update in found]


def test_dropped_stored_versions() -> None:
    published = reefs(v1=definition("v1alpha1"))
    new = reefs(v1=definition("v1alpha1"), v2=definition("v1alpha1", "v1"), v3=definition("v1"))
    assert refused(new, published) == [("reef.v2.0.0", "reef.v3.0.0", DROPPED.format("v1alpha1"))]
    assert refused(published, published) == []
    (path,) = review_updates(tuple(plan_updates(new, published)), new, published).paths
    assert (path.hops, path.final, path.outcome.value) == (("reef.v2.0.0",), "reef.v2.0.0", "crd")


def test_the_published_definition_counts() -> None:
    new = reefs(v1=definition("v1"), v2=definition("v1"))
    published = reefs(v1=definition("v1beta1"))
    assert refused(new, published) == [("reef.v1.0.0", "reef.v2.0.0", DROPPED.format("v1beta1"))]


def test_another_scope() -> None:
    new = reefs(v1=definition("v1"), v2=definition("v1", scope="Cluster"))
    reason = 'scope changes from "Namespaced" to "Cluster"'
    assert refused(new, reefs(v1=definition("v1"))) == [("reef.v1.0.0", "reef.v2.0.0", reason)]


def test_definitions_that_a_version_lacks_stay_on_the_cluster() -> None:
    new = reefs(v1=definition("v1"), v2=None, v3=definition("v2"))
    assert refused(new, reefs(v1=definition("v1"))) == [("reef.v2.0.0", "reef.v3.0.0", DROPPED.format("v1"))]


def test_json() -> None:
    update = RefusedUpdate("reef", "reef.v1.0.0", "reef.v2.0.0", "reefs.demo.com", "scope changes")
    assert update.to_dict() == {
        "package": "reef",
        "installed": "reef.v1.0.0",
        "next": "reef.v2.0.0",
        "definition": "reefs.demo.com",
        "reason": "scope changes",
        "olm": "v0",
    }


def operators(**rules: Sequence[dict[str, Any]] | None) -> Catalog:
    """Return a catalog with a channel of versions v1, v2, ..., each with cluster permissions."""
    names = {f"reef.v{name[1:]}.0.0": value for name, value in rules.items()}
    properties = {name: [embeds(csv(cluster=value))] for name, value in names.items() if value is not None}
    return catalog(package("reef", {"stable": chain(*names)}, properties))


def test_permissions_that_operators_gain_on_their_paths() -> None:
    published, new = operators(v1=[]), operators(v1=[SECRETS], v2=[PODS], v3=[PODS, SECRETS])
    paths = tuple(plan_updates(new, published))
    lines = [line for change in gained_permissions(paths, new, published) for line in change.lines()]
    assert lines == [
        "reef.v1.0.0 to reef.v2.0.0: demo may now run pods in every namespace (workloads)",
        "reef.v2.0.0 to reef.v3.0.0: demo may now read all secrets in every namespace (secrets)",
    ]


def test_bundles_without_objects_are_read_or_ignored() -> None:
    published, new = operators(v1=[]), operators(v1=[], v2=None)
    paths = tuple(plan_updates(new, published))
    assert gained_permissions(paths, new, published) == ()
    images = {"quay.io/me/reef.v1.0.0": read(csv()), "quay.io/me/reef.v2.0.0": read(csv(cluster=[PODS]))}
    (change,) = gained_permissions(paths, new, published, lambda names: {name: images[name] for name in names})
    assert [each.kind.value for each in change.gained] == ["workloads"]
    (change,) = gained_permissions(paths, new, published, lambda names: dict.fromkeys(names, "broken"))
    assert change.problem == "the permissions of reef.v1.0.0 cannot be read: broken"
