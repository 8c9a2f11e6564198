"""Plans equal what OLM does with the results of its resolver.

The resolver alone repeats an update whose skip range contains its own version. OLM takes no step to a bundle that all
its Subscriptions have, so that these tests leave out such steps of the resolver.

``OPMKIT_REFERENCE_RESOLVE`` is the path of a program that runs the resolver of operator-lifecycle-manager 0.38 on cases
in JSON, as described in docs/development.md.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from opmkit.core.errors import OpmkitError
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.load import parse_blobs
from opmkit.index.fbc.model import Catalog
from opmkit.index.plan.candidate import CatalogKey, list_candidates
from opmkit.index.plan.ending import Outcome
from opmkit.index.plan.namespace import Blocked, Namespace, ResolvableCatalog, Subscription, resolve
from opmkit.index.plan.paths import plan_updates
from opmkit.index.plan.walk import install, walk
from tests.kit.opm import PROGRAM
from tests.kit.resolution_cases import random_catalog, random_namespace
from tests.kit.server import Server

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from opmkit.index.plan.namespace import ResolvedStep

RESOLVE = os.environ.get("OPMKIT_REFERENCE_RESOLVE", "")
SEED = int(os.environ.get("OPMKIT_RESOLUTIONS_SEED", "1"))
CATALOGS = 30
CASES = int(os.environ.get("OPMKIT_RESOLUTIONS", "300"))
pytestmark = pytest.mark.skipif(not RESOLVE, reason="OPMKIT_REFERENCE_RESOLVE is not set")

Documents = list[dict[str, Any]]
Step = dict[str, Any]


class Pool:
    """Random valid catalogs by name, with their documents and the addresses at which they are served."""

    def __init__(self) -> None:
        self.documents: dict[str, Documents] = {}
        self.catalogs: dict[str, Catalog] = {}
        self.addresses: dict[str, str] = {}

    def fill(self, rng: random.Random, directory: Path, stack: ExitStack) -> None:
        """Generate and serve catalogs."""
        while len(self.catalogs) < CATALOGS:
            documents = random_catalog(rng)
            raw = "\n".join(map(json.dumps, documents)).encode()
            try:
                catalog = Catalog.from_blobs(parse_blobs(raw, "catalog.json"))
            except OpmkitError:
                continue
            name = f"c{len(self.catalogs)}"
            (directory / name).mkdir()
            (directory / name / "catalog.json").write_bytes(raw)
            server = stack.enter_context(Server(str(directory / name), program=(str(PROGRAM), "serve")))
            self.documents[name], self.catalogs[name] = documents, catalog
            self.addresses[name] = server.address

    def resolve(self, cases: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the results of OLM's resolver."""
        for case in cases:
            for catalog in case["catalogs"]:
                catalog["address"] = self.addresses[catalog["name"]]
        done = subprocess.run(
            [RESOLVE], input="\n".join(map(json.dumps, cases)), capture_output=True, text=True, check=True
        )
        return [json.loads(line) for line in done.stdout.splitlines()]

    def namespace(self, case: Mapping[str, Any]) -> Namespace:
        """Return the namespace of a case."""
        entries = {}
        for catalog in case["catalogs"]:
            key = CatalogKey(catalog["name"], catalog["namespace"])
            candidates = list_candidates(self.catalogs[key.name], key)
            entries[key.name] = ResolvableCatalog(key, candidates, catalog["priority"])
        followed = {item["installedCSV"] for item in case["subscriptions"]}
        installed = [
            next(entry for entry in entries[item["catalog"]].entries if entry.name == item["name"]).installed(
                case["namespace"], mandatory=item["name"] not in followed
            )
            for item in sorted(case["installed"], key=lambda item: str(item["name"]))
        ]
        subscriptions = [
            Subscription(
                item["name"],
                item["package"],
                item["channel"],
                entries[item["catalog"]].key,
                item["startingCSV"],
                item["installedCSV"],
            )
            for item in case["subscriptions"]
        ]
        return Namespace(case["namespace"], tuple(entries.values()), tuple(subscriptions), tuple(installed))


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    with ExitStack() as stack:
        filled = Pool()
        filled.fill(random.Random(SEED), tmp_path_factory.mktemp("catalogs"), stack)
        yield filled


def as_dicts(steps: Sequence[ResolvedStep]) -> list[Step]:
    return [
        {
            "name": step.candidate.name,
            "package": step.candidate.package,
            "channel": step.candidate.channel,
            "catalog": step.candidate.catalog.name,
            "replaces": step.replaces,
        }
        for step in steps
    ]


def is_possible(namespace: Namespace, case: Mapping[str, Any], result: Mapping[str, Any]) -> bool:
    """Return whether OLM's walk consists of steps that we consider possible."""
    unnamed = {item["package"] for item in case["subscriptions"] if not item["channel"]}

    def comparable(steps: list[Step]) -> list[Step]:  # the channel of a Subscription without one depends on map order
        free = {"channel": "", "replaces": ""}
        return [step | free if step["package"] in unnamed else step for step in steps]

    for wanted in (*result["steps"], None):
        try:
            found = resolve(namespace)
        except CatalogError:
            return wanted is None and bool(result["error"])
        if isinstance(found, Blocked):
            return wanted is None and bool(result["error"]) and names_a_conflict(namespace, result["error"])
        options = [found.steps, *found.others]
        wanted = performed(namespace, wanted) if wanted else wanted
        if not wanted:
            return not case["repeat"] or any(not option for option in options)
        taken = next((option for option in options if comparable(as_dicts(option)) == comparable(wanted)), None)
        if taken is None:
            return not found.is_determined
        namespace = install(namespace, [step.candidate for step in taken])
    return False


def performed(namespace: Namespace, steps: list[Step]) -> list[Step]:
    """Return the steps of the resolver that OLM takes: not those to what all Subscriptions to a bundle have."""

    def is_up_to_date(step: Step) -> bool:
        following = [
            each.installed_csv == step["name"]
            for each in namespace.subscriptions
            if each.package == step["package"]
            and each.channel in ("", step["channel"])
            and each.catalog.name == step["catalog"]
        ]
        return bool(following) and all(following)

    return [step for step in steps if not is_up_to_date(step)]


def names_a_conflict(namespace: Namespace, error: str) -> bool:
    """Return whether what an error of OLM names is blocked without the others.

    Of several conflicts that overlap OLM names a random one, which need not be minimal.
    """
    subscriptions = {*re.findall(r"subscription (\S+) (?:exists|requires)", error)}
    installed = {*re.findall(r"clusterserviceversion (\S+) exists and", error)}
    named = structs.replace(
        namespace,
        subscriptions=tuple(each for each in namespace.subscriptions if each.name in subscriptions),
        installed=tuple(each for each in namespace.installed if not each.is_mandatory or each.name in installed),
    )
    return isinstance(resolve(named), Blocked)


def test_namespaces(pool: Pool) -> None:
    rng = random.Random(SEED)
    cases = [random_namespace(rng, pool.documents) for _ in range(CASES)]
    namespaces = [pool.namespace(case) for case in cases]
    for case, namespace in zip(cases, namespaces, strict=True):
        case["repeat"] = not leads_in_circles(namespace)
    results = pool.resolve(cases)
    determined = 0
    for case, namespace, result in zip(cases, namespaces, results, strict=True):
        assert is_possible(namespace, case, result), (case, result)
        determined += result["steps"][:1] == [as_dicts(found.steps)] if (found := resolved(namespace)) else False
    assert determined > CASES / 4


def leads_in_circles(namespace: Namespace) -> bool:
    """Return whether the resolver repeats updates without end, among them those from an entry to itself."""
    try:
        walked = walk(namespace)
    except CatalogError:
        return False
    return walked.is_circular or any(
        entry.name == subscription.installed_csv and entry.updates_from(entry.name, entry.bundle.version)
        for subscription in walked.final.subscriptions
        for entry in walked.final.followed_entries(subscription)
    )


def resolved(namespace: Namespace) -> Any:
    try:
        found = resolve(namespace)
    except CatalogError:
        return None
    return None if isinstance(found, Blocked) else found


def test_update_paths(pool: Pool) -> None:
    """Each version of each channel gets as far as with OLM."""
    paths = [(name, path) for name, catalog in pool.catalogs.items() for path in plan_updates(catalog, catalog)]
    paths = random.Random(SEED).sample(paths, min(len(paths), 4 * CASES))
    cases: list[dict[str, Any]] = [
        {
            "namespace": "ns",
            "catalogs": [{"name": name, "namespace": "ns", "priority": 0}],
            "installed": [{"name": path.installed, "catalog": name}],
            "subscriptions": [
                {
                    "name": "s",
                    "package": path.package,
                    "channel": path.channel,
                    "catalog": name,
                    "startingCSV": "",
                    "installedCSV": path.installed,
                }
            ],
        }
        for name, path in paths
    ]
    for case in cases:
        case["repeat"] = not leads_in_circles(pool.namespace(case))
    for (_, path), case, result in zip(paths, cases, pool.resolve(cases), strict=True):
        hops = [step["name"] for steps in result["steps"] for step in steps if step["package"] == path.package]
        if not case["repeat"]:
            assert path.hops[:1] == tuple(name for name in hops[:1] if name != path.installed), (path, result)
        else:
            assert path.hops == tuple(hops), (path, result)
            assert bool(result["error"]) == (path.outcome is Outcome.UNRESOLVABLE and bool(result["error"])), (
                path,
                result,
            )
