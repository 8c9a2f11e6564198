"""``opm index plan``: what the state of a cluster says, and why updates stop."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.plans import (
    catalog_source,
    chain,
    operator_group,
    package,
    provides,
    requires_package,
    subscription,
    version,
    write,
)

if TYPE_CHECKING:
    from tests.kit.opm import Opm

Object = dict[str, Any]

REEF = package("reef", {"stable": chain("reef.v1.0.0", "reef.v1.1.0", "reef.v1.2.0")})
FAILED = {"phase": "Failed", "reason": "InstallCheckFailed", "message": "install timeout"}
PACKAGE = [{"type": "olm.package", "value": {"packageName": "reef", "version": "1.0.0"}}]


@pytest.fixture
def sea(opm: Opm) -> Opm:
    write(opm.directory / "next", REEF)
    return opm


def plan_cluster(opm: Opm, *objects: Object, catalog: str = "next", flags: tuple[str, ...] = ()) -> tuple[int, str]:
    """Return the exit code with ``--fail-on`` and what is printed for a cluster."""
    state = (catalog_source("prod", "olm"), *objects)
    (opm.directory / "state.json").write_text(json.dumps({"kind": "List", "items": state}))
    kinds = "stuck,blocked,unresolvable,circular"
    done = opm.attempt("index", "plan", f"prod={catalog}", "--cluster", "state.json", "--fail-on", kinds, *flags)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout


def installed(name: str = "reef.v1.0.0", **status: str) -> tuple[Object, Object, Object]:
    """Return a namespace with an installed operator."""
    return (
        operator_group("a"),
        subscription("a", "reef", "stable", installed=name),
        version("a", name, properties=PACKAGE) | {"status": status or {"phase": "Succeeded"}},
    )


@pytest.mark.parametrize("phase", ["Failed", "Pending"])
def test_an_operator_that_has_not_succeeded_blocks_its_namespace(sea: Opm, phase: str) -> None:
    reason = f"reef.v1.0.0 is {phase} (InstallCheckFailed: install timeout), so that OLM does not replace it"
    code, printed = plan_cluster(sea, *installed(**FAILED | {"phase": phase}))
    assert code == 1
    assert printed.splitlines()[1:] == [
        "a          1     reef.v1.1.0  reef/stable  prod     reef.v1.0.0  subscription",
        "Namespace a: Blocked: Subscription reef and installed operator reef.v1.0.0 cannot be satisfied together; "
        "nothing in the namespace changes",
        f"Namespace a:   {reason}",
        "Namespace a:   a namespace can have one operator of package reef",
        "Namespace a:   Subscription reef accepts only reef.v1.2.0 (stable), reef.v1.1.0",
        "Namespace a:   to change: correct what reef.v1.0.0 reports, or delete its ClusterServiceVersion",
    ]
    newest, named = "reef.v1.2.0", json.dumps(PACKAGE).replace("1.0.0", "1.2.0")
    objects = operator_group("a"), subscription("a", "reef", "stable", installed=newest)
    csv = version("a", newest, properties=json.loads(named)) | {"status": FAILED | {"phase": phase}}
    code, printed = plan_cluster(sea, *objects, csv)
    assert (code, printed.splitlines()[0]) == (1, f"Namespace a: Blocked: {reason.replace('1.0.0', '1.2.0')}")
    (found,) = json.loads(plan_cluster(sea, *objects, csv, flags=("--output", "json"))[1])["namespaces"]
    assert [held["summary"] for held in found["held"]] == [reason.replace("1.0.0", "1.2.0")]


def test_a_failed_operator_is_replaced_if_its_group_says_so(sea: Opm) -> None:
    forwarding = operator_group("a") | {"spec": {"upgradeStrategy": "TechPreviewUnsafeFailForward"}}
    code, printed = plan_cluster(sea, forwarding, *installed(**FAILED)[1:])
    assert code == 0
    assert [line.split()[2] for line in printed.splitlines()[1:]] == ["reef.v1.1.0", "reef.v1.2.0"]


def test_a_replacement_that_waits_is_explained_and_one_in_progress_is_not(sea: Opm) -> None:
    old, new = "reef.v1.0.0", "reef.v1.1.0"
    replacing = version("a", new, properties=PACKAGE)
    replacing["spec"]["replaces"] = old
    objects = operator_group("a"), subscription("a", "reef", "stable", installed=new)
    first = version("a", old, properties=PACKAGE)
    code, printed = plan_cluster(
        sea, *objects, first | {"status": FAILED}, replacing | {"status": {"phase": "Pending"}}
    )
    assert code == 1
    assert "Blocked: reef.v1.1.0 stays Pending until reef.v1.0.0 succeeds or is deleted" in printed
    assert "or subscribe to package reef" not in printed, "its Subscription exists already"
    code, printed = plan_cluster(
        sea, *objects, first | {"status": {"phase": "Replacing"}}, replacing | {"status": {"phase": "Installing"}}
    )
    assert (code, printed.splitlines()[1].split()[2]) == (0, "reef.v1.2.0")


def waiting(*, approval: str = "Manual", failed: bool = False) -> Object:
    """Return a Subscription whose InstallPlan is not complete."""
    waits = subscription("a", "reef", "stable", installed="reef.v1.0.0", approval=approval)
    waits["status"] |= {
        "state": "UpgradePending",
        "currentCSV": "reef.v1.1.0",
        "installPlanRef": {"name": "install-abcde"},
        "conditions": [{"type": "InstallPlanFailed", "status": "True", "message": "denied"}] if failed else [],
    }
    return waits


def test_an_install_plan_that_waits_for_approval_is_the_next_step(sea: Opm) -> None:
    shorter: list[Object] = [
        {"name": "reef.v1.0.0"},
        {"name": "reef.v1.2.0", "replaces": "reef.v1.0.0", "skips": ["reef.v1.1.0"]},
    ]
    write(sea.directory / "shorter", package("reef", {"stable": shorter}))
    group, _, csv = installed()
    _, printed = plan_cluster(sea, group, waiting(), csv, catalog="shorter")
    assert [line.split()[1:3] for line in printed.splitlines()[1:3]] == [["1", "reef.v1.1.0"], ["2", "reef.v1.2.0"]]
    assert printed.splitlines()[1].endswith("waits for InstallPlan install-abcde")
    (found,) = json.loads(plan_cluster(sea, group, waiting(), csv, flags=("--output", "json"))[1])["namespaces"]
    assert found["resolutions"][0]["steps"][0]["installPlan"] == "install-abcde"
    code, printed = plan_cluster(sea, group, waiting(failed=True), csv)
    assert (code, "InstallPlan install-abcde has failed: denied" in printed) == (1, True)


def test_a_namespace_without_an_operator_group_gets_nothing(sea: Opm) -> None:
    code, printed = plan_cluster(sea, subscription("a", "reef", "stable"))
    assert code == 1
    assert printed == "Namespace a: Blocked: it has 0 OperatorGroups instead of one, so that OLM resolves nothing\n"


def test_a_damaged_annotation_fails_the_namespace_and_a_missing_one_does_not(sea: Opm) -> None:
    group, follows, csv = installed()
    damaged = json.loads(json.dumps(csv))
    for text in ("", "{", '{"properties": {}}', '{"properties": [{"type": 1}]}'):
        damaged["metadata"]["annotations"] = {"operatorframework.io/properties": text}
        code, printed = plan_cluster(sea, group, follows, damaged)
        assert code == 1
        assert printed.startswith(
            "Namespace a: Blocked: ClusterServiceVersion reef.v1.0.0: "
            "invalid annotation operatorframework.io/properties: "
        )
    owned = [{"name": "reefs.demo.com", "version": "v1", "kind": "Reef"}]
    names = ("reef.v1.0.0", "reef.v1.1.0", "reef.v1.2.0")
    write(
        sea.directory / "apis", package("reef", {"stable": chain(*names)}, {name: [provides("Reef")] for name in names})
    )
    code, printed = plan_cluster(sea, group, follows, version("a", "reef.v1.0.0", owned=owned), catalog="apis")
    assert code == 0
    assert [line.split()[2] for line in printed.splitlines()[1:]] == ["reef.v1.1.0", "reef.v1.2.0"]


def test_catalogs_that_a_namespace_does_not_see_are_named(sea: Opm) -> None:
    _, follows, csv = installed()
    _, printed = plan_cluster(sea, operator_group("a", exclude=True), follows, csv)
    excluded = "olm.operatorframework.io/exclude-global-namespace-resolution"
    assert f"Subscription reef: the OperatorGroup excludes CatalogSource olm/prod ({excluded})" in printed
    other = subscription("b", "reef", "stable", source="absent")
    _, printed = plan_cluster(sea, operator_group("b"), other)
    assert "Subscription reef: CatalogSource olm/absent does not exist" in printed
    elsewhere = subscription("b", "reef", "stable", source="far")
    elsewhere["spec"]["sourceNamespace"] = "c"
    _, printed = plan_cluster(
        sea, *installed(), operator_group("b"), elsewhere, catalog_source("far", "c"), subscription("d", "reef", "x")
    )
    assert "CatalogSource c/far is not in the namespace b or olm, so that OLM does not use it" in printed


SWAPPED = (
    "catalog prod has no package stable, but a package reef with a channel stable: its name and channel are swapped"
)


def test_swapped_and_misspelt_names(sea: Opm) -> None:
    swapped = subscription("a", "stable", "reef")
    code, printed = plan_cluster(sea, operator_group("a"), swapped)
    assert code == 1
    assert printed.splitlines()[1:] == [
        f"Namespace a:   Subscription stable: {SWAPPED}",
        "Namespace a:   to change: let Subscription stable have name reef and channel stable",
    ]
    printed = sea("index", "plan", "next", "--subscribe", "reef/stabl")
    assert "to change: correct Subscription reef: did you mean stable?" in printed
    assert "did you mean reef?" in sea("index", "plan", "next", "--subscribe", "ref/stable")


def test_manifests_in_yaml(sea: Opm) -> None:
    (sea.directory / "subscription.yaml").write_text(
        "apiVersion: operators.coreos.com/v1alpha1\nkind: Subscription\nmetadata: {name: reef, namespace: a}\n"
        "spec: {name: stable, channel: reef, source: prod, sourceNamespace: olm}\n"
    )
    printed = sea("index", "plan", "prod=next", "--cluster", "subscription.yaml")
    assert printed.splitlines() == [
        "Namespace a: Blocked: it has 0 OperatorGroups instead of one, so that OLM resolves nothing",
        f"Namespace a: Note: Subscription reef: {SWAPPED}; let Subscription reef have name reef and channel stable",
    ]
    (sea.directory / "all.yaml").write_text(
        "kind: OperatorGroup\nmetadata: {name: group, namespace: a}\n---\nkind: Subscription\n"
        "metadata: {name: reef, namespace: a}\n"
        "spec: {name: reef, channel: stable, source: prod, sourceNamespace: olm}\n"
    )
    assert "reef.v1.2.0" in sea("index", "plan", "prod=next", "--cluster", "all.yaml")


def test_a_skip_range_with_its_own_version_is_not_circular(opm: Opm) -> None:
    entries = [{"name": "reef.v1.0.0"}, {"name": "reef.v1.1.0", "replaces": "reef.v1.0.0", "skipRange": ">=1.0.0"}]
    write(opm.directory / "next", package("reef", {"stable": entries}))
    kinds = ("--fail-on", "circular,stuck")
    found = json.loads(opm("index", "plan", "next", "--from", "next", *kinds, "--output", "json"))
    assert [(path["hops"], path["outcome"]) for path in found["paths"]] == [(["reef.v1.1.0"], "head"), ([], "head")]
    printed = opm("index", "plan", "next", "--subscribe", "reef/stable", "--installed", "reef.v1.0.0", *kinds)
    assert [line.split()[1] for line in printed.splitlines()[1:]] == ["reef.v1.1.0"]
    nothing = opm("index", "plan", "next", "--subscribe", "reef/stable", "--installed", "reef.v1.1.0", *kinds)
    assert nothing == "OLM has nothing to do in the namespace\n"


def reason_of(opm: Opm, installed: str, *flags: str, old: str = "old", new: str = "new") -> tuple[str, str]:
    """Return why a version is stuck, and what to change."""
    found = json.loads(opm("index", "plan", new, "--from", old, "--output", "json", *flags))
    path = next(path for path in found["paths"] if path["installed"] == installed)
    assert path["outcome"] == "stuck"
    return path["reason"], path["remedy"]


def test_the_entry_that_would_update_a_version_is_named(opm: Opm) -> None:
    names = ("reef.v1.0.0", "reef.v2.0.0", "reef.v3.0.0")
    skipping = [entry | ({"skips": [entry["replaces"]]} if "replaces" in entry else {}) for entry in chain(*names)]
    write(opm.directory / "new", package("reef", {"stable": skipping}))
    write(opm.directory / "old", package("reef", {"stable": chain(*names)}))
    assert reason_of(opm, "reef.v1.0.0") == (
        "reef.v2.0.0 replaces reef.v1.0.0, but is itself skipped by reef.v3.0.0, so that OLM ignores it",
        "let reef.v3.0.0 skip reef.v1.0.0",
    )


def test_a_successor_of_a_lower_version_is_named(opm: Opm) -> None:
    names = ("reef.v0.1.0", "reef.v0.3.0", "reef.v0.2.0", "reef.v1.0.0")
    write(opm.directory / "new", package("reef", {"stable": chain(*names)}))
    reason, remedy = reason_of(opm, "reef.v0.3.0", "--olm", "v1", old="new")
    assert reason == (
        "reef.v0.2.0 replaces reef.v0.3.0, but its version 0.2.0 is lower, so that OLM v1 prefers the installed version"
    )
    assert remedy == "let reef.v1.0.0 skip reef.v0.3.0 and reef.v0.1.0", "otherwise reef.v0.1.0 is stranded"
    entries = chain(*names)
    entries[-1]["skips"] = ["reef.v0.3.0", "reef.v0.1.0"]
    write(opm.directory / "mended", package("reef", {"stable": entries}))
    done = opm.attempt("index", "plan", "mended", "--from", "new", "--olm", "v1", "--fail-on", "stuck")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("olm", ["v0", "v1"])
def test_a_version_that_is_newer_than_the_catalog(opm: Opm, olm: str) -> None:
    write(opm.directory / "old", package("reef", {"stable": chain("reef.v1.0.0", "reef.v1.1.0")}))
    write(opm.directory / "new", package("reef", {"stable": chain("reef.v1.0.0")}))
    reason, remedy = reason_of(opm, "reef.v1.1.0", "--olm", olm)
    assert reason.startswith("reef.v1.1.0 is newer than reef.v1.0.0, the h")
    assert remedy.startswith("keep reef.v1.1.0 in ")


def test_another_channel_that_leads_on_is_the_smallest_change(opm: Opm) -> None:
    old = package("reef", {"stable": chain("reef.v1.0.0", "reef.v1.1.0")})
    stable = [{"name": "reef.v1.0.0"}, {"name": "reef.v1.2.0", "replaces": "reef.v1.0.0"}]
    beta = chain("reef.v1.1.0", "reef.v1.3.0")
    write(opm.directory / "old", old)
    write(opm.directory / "new", package("reef", {"stable": stable, "beta": beta}))
    assert reason_of(opm, "reef.v1.1.0") == (
        "no entry of stable replaces or skips reef.v1.1.0 (reef.v1.2.0 replaces reef.v1.0.0)",
        "follow channel beta",
    )


def test_stuck_operators_are_reported_by_every_form(opm: Opm) -> None:
    stable, other = [{"name": "reef.v1.0.0"}, {"name": "reef.v1.2.0", "replaces": "reef.v1.0.0"}], chain("reef.v1.1.0")
    write(opm.directory / "next", package("reef", {"stable": stable, "other": other}))
    arguments = ("index", "plan", "next", "--subscribe", "reef/stable", "--installed", "reef.v1.1.0")
    done = opm.attempt(*arguments, "--fail-on", "stuck")
    expected = [
        "Stuck: reef/stable: no entry of stable replaces or skips reef.v1.1.0 (reef.v1.2.0 replaces reef.v1.0.0)",
        "  to change: let reef.v1.2.0 skip reef.v1.1.0",
    ]
    assert (done.returncode, done.stdout.splitlines()) == (1, expected)
    (path,) = json.loads(opm(*arguments, "--output", "json"))["paths"]
    assert (path["outcome"], path["remedy"]) == ("stuck", "let reef.v1.2.0 skip reef.v1.1.0")
    assert "- `Stuck: reef/stable: no entry" in opm(*arguments, "--output", "markdown")
    assert "PLAN-STUCK" in opm(*arguments, "--output", "junit")
    code, printed = plan_cluster(opm, *installed("reef.v1.1.0"))
    assert (code, printed.splitlines()) == (1, [f"Namespace a: {line}" for line in expected])


def test_an_installed_bundle_that_no_index_has(sea: Opm) -> None:
    arguments = ("index", "plan", "next", "--subscribe", "reef/stable", "--fail-on", "stuck")
    entries = [{"name": "reef.v1.2.0", "skipRange": ">=0.8.0 <1.2.0"}]
    write(sea.directory / "range", package("reef", {"stable": entries}))
    updated = sea("index", "plan", "range", "--subscribe", "reef/stable", "--installed", "reef.v0.9.0=0.9.0")
    assert updated.splitlines()[1].split() == [
        "1",
        "reef.v1.2.0",
        "reef/stable",
        "catalog",
        "reef.v0.9.0",
        "subscription",
    ]
    stuck = sea.attempt(*arguments, "--installed", "reef.v0.7.0=0.7.0")
    assert (stuck.returncode, stuck.stdout.splitlines()[1]) == (1, "  to change: let reef.v1.0.0 replace reef.v0.7.0")
    newer = sea.attempt(*arguments, "--installed", "reef.v2.0.0=2.0.0")
    assert newer.stdout.startswith(
        "Stuck: reef/stable: reef.v2.0.0 is newer than reef.v1.2.0, the head of channel stable"
    )
    for installed, message in (
        ("reef.v0.7.0", "add its version: reef.v0.7.0=1.2.3"),
        ("reef.v0.7.0=first", "invalid version 'first'"),
        ("reef.v1.0.0=2.0.0", "installed bundle 'reef.v1.0.0' has version 1.0.0, not 2.0.0"),
        ("reef.v1.0.0,reef.v1.1.0", "package reef: two installed bundles: reef.v1.0.0 and reef.v1.1.0"),
        ("reef.v1.0.0,reef.v0.7.0=0.7.0", "package reef: two installed bundles: reef.v1.0.0 and reef.v0.7.0"),
    ):
        failed = sea.attempt(*arguments, "--installed", installed)
        assert (failed.returncode, message in failed.stderr) == (1, True), failed.stderr


def test_steps_that_are_not_determined_list_the_others(opm: Opm) -> None:
    versions = chain("reef.v1.0.0", "reef.v1.1.0")
    write(opm.directory / "next", package("reef", {"stable": versions, "beta": versions, "old": versions[:1]}))
    arguments = ("index", "plan", "next", "--installed", "reef.v1.0.0")
    printed = opm(*arguments, "--subscribe", "reef")
    assert printed.splitlines()[2:] == [
        "Step 1 is not determined: OLM may install other bundles, in another order",
        "  instead: reef.v1.1.0 (beta)",
    ]
    assert "not determined" not in opm(*arguments, "--subscribe", "reef/beta")


def test_an_invalid_property_names_its_bundle_and_catalog(opm: Opm) -> None:
    names = ("reef.v1.0.0", "reef.v1.1.0")
    damaged = {"reef.v1.1.0": [{"type": "olm.package.required", "value": {"packageName": "sand", "versionRange": "?"}}]}
    write(opm.directory / "next", package("reef", {"stable": chain(*names)}, damaged))
    named = "catalog prod: bundle reef.v1.1.0: invalid property olm.package.required: "
    code, printed = plan_cluster(opm, *installed())
    assert (code, named in printed) == (1, True)
    failed = opm.attempt("index", "plan", "prod=next", "--subscribe", "reef/stable", "--installed", "reef.v1.0.0")
    assert (failed.returncode, named in failed.stderr) == (1, True)
    assert "bundle reef.v1.1.0: invalid property" in opm("index", "plan", "next", "--from", "next")


def test_requirements_that_hold_an_operator_back(opm: Opm) -> None:
    names = ("reef.v1.0.0", "reef.v1.1.0")
    requires = {"reef.v1.1.0": [requires_package("sand")]}
    write(opm.directory / "next", package("reef", {"stable": chain(*names)}, requires))
    reason = "reef.v1.1.0 requires package sand in the range >=0.0.0, which the catalog does not have"
    remedy = "add package sand in the range >=0.0.0 to the catalog"
    write(opm.directory / "old", package("reef", {"stable": chain(names[0])}))
    assert (
        opm("index", "plan", "next", "--from", "old") == f"reef/stable: reef.v1.0.0 unresolvable: {reason}; {remedy}\n"
    )
    code, printed = plan_cluster(opm, *installed())
    assert code == 1
    assert printed.splitlines() == [
        f"Namespace a: Unresolvable: reef/stable: {reason}",
        f"Namespace a:   to change: {remedy}",
    ]


def test_an_extension_below_the_preferred_version_is_stuck(opm: Opm) -> None:
    stable = [{"name": "reef.v1.0.0"}, {"name": "reef.v1.2.0", "replaces": "reef.v1.0.0"}]
    write(opm.directory / "next", package("reef", {"stable": stable, "other": chain("reef.v1.1.0")}))
    arguments = ("index", "plan", "next", "--installed", "reef.v1.1.0", "--fail-on", "stuck")
    done = opm.attempt(*arguments, "--extension", "reef")
    assert (done.returncode, done.stdout.splitlines()) == (
        1,
        [
            "Stuck: no entry of any channel replaces or skips reef.v1.1.0",
            "  to change: let reef.v1.2.0 skip reef.v1.1.0",
        ],
    )
    found = json.loads(opm.attempt(*arguments, "--extension", "reef", "--output", "json").stdout)
    assert (found["kind"], found["remedy"]) == ("stuck", "let reef.v1.2.0 skip reef.v1.1.0")
    assert "Stuck: `no entry" in opm.attempt(*arguments, "--extension", "reef", "--output", "markdown").stdout
    for text in ("reef@<1.2", "reef/other"):
        assert opm(*arguments, "--extension", text) == "OLM v1 has nothing to do for reef\n"
