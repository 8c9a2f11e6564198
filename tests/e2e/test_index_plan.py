"""``opm index plan``: what clusters will do with an index."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from tests.kit.apiserver import ApiServer
from tests.kit.command_lines import ROOT
from tests.kit.opm import FIXTURES
from tests.kit.plans import (
    catalog_source,
    chain,
    definition,
    embeds,
    operator_group,
    package,
    requires_package,
    subscription,
    version,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kit.opm import Opm
    from tests.kit.registry import Registry

OLD = package("acme", {"stable": chain("acme.v1.1.0", "acme.v1.2.0")})
NEW = package("acme", {"stable": [{"name": "acme.v1.1.0"}, {"name": "acme.v1.3.0", "replaces": "acme.v1.1.0"}]})
STUCK = (
    "stuck: no entry of stable replaces or skips acme.v1.2.0 (acme.v1.3.0 replaces acme.v1.1.0); "
    "let acme.v1.3.0 skip acme.v1.2.0"
)


@pytest.fixture
def site(opm: Opm) -> Opm:
    write(opm.directory / "old", OLD)
    write(opm.directory / "new", NEW)
    return opm


def test_stuck_versions_are_listed_with_the_smallest_change(site: Opm) -> None:
    done = site.attempt("index", "plan", "new", "--from", "old")
    assert (done.returncode, done.stdout) == (0, f"acme/stable: acme.v1.2.0 {STUCK}\n")
    assert done.stderr == "2 installed versions: 1 reaches the head, 1 stuck\n"
    done = site.attempt("index", "plan", "new", "--from", "old", "--all")
    assert done.stdout.splitlines() == [
        "PACKAGE  CHANNEL  INSTALLED    NEXT         HOPS  RESULT",
        "acme     stable   acme.v1.1.0  acme.v1.3.0  1     acme.v1.3.0",
        f"acme     stable   acme.v1.2.0  -            0     {STUCK}",
    ]
    assert done.stderr == "2 installed versions: 1 reaches the head, 1 stuck\n"


def test_problems_are_grouped(opm: Opm) -> None:
    many = [f"acme.v1.{number}.0" for number in range(12)]
    reefs = package("reef", {"stable": chain("reef.v1.0.0"), "beta": chain("reef.v1.0.0", "reef.v1.1.0")})
    write(opm.directory / "old", package("acme", {"stable": chain(*many)}), reefs)
    write(opm.directory / "new", package("reef", {"stable": chain("reef.v1.0.0"), "beta": chain("reef.v1.1.0")}))
    done = opm.attempt("index", "plan", "new", "--from", "old", "--fail-on", "stuck,gone")
    assert done.stdout.splitlines() == [
        "acme/stable: 12 versions (acme.v1.0.0 to acme.v1.11.0) gone: the catalog has no package acme; "
        "keep the package",
        "reef/beta: reef.v1.0.0 stuck: no entry of beta replaces or skips reef.v1.0.0; "
        "let reef.v1.1.0 replace reef.v1.0.0",
    ]
    assert done.stderr.splitlines() == [
        "15 installed versions: 2 reach the head, 1 stuck, 12 gone",
        "Error: 13 problems of the kinds stuck, gone: acme/stable (v0): acme.v1.0.0: the catalog has no package acme",
    ]
    assert done.returncode == 1
    assert len(opm("index", "plan", "new", "--from", "old", "--all").splitlines()) == 16


def test_versions_that_are_stuck_for_the_same_reason_are_one_line(opm: Opm) -> None:
    many = [f"acme.v1.{number}.0" for number in range(9)]
    newest = [{"name": "acme.v1.0.0"}, {"name": "acme.v2.0.0", "replaces": "acme.v1.0.0"}]
    write(opm.directory / "old", package("acme", {"stable": chain(*many)}))
    write(opm.directory / "new", package("acme", {"stable": newest}))
    assert opm("index", "plan", "new", "--from", "old") == (
        "acme/stable: 8 versions (acme.v1.1.0 to acme.v1.8.0) stuck: no entry of stable replaces or skips them "
        "(acme.v2.0.0 replaces acme.v1.0.0); let acme.v2.0.0 skip them\n"
    )
    assert opm("index", "plan", "old", "--from", "old") == ""
    write(opm.directory / "older", package("acme", {"stable": chain(*many[:3])}))
    assert opm("index", "plan", "older", "--from", "old") == (
        "acme/stable: 6 versions (acme.v1.3.0 to acme.v1.8.0) stuck: they are newer than acme.v1.2.0, the head of "
        "channel stable; keep them in channel stable\n"
    )


def test_markdown_fits_a_comment(opm: Opm) -> None:
    names = [f"reef-with-a-long-name-{number}" for number in range(300)]
    write(opm.directory / "old", *(package(name, {"stable": chain(f"{name}.v1.0.0")}) for name in names))
    write(opm.directory / "new", package("other", {"stable": chain("other.v1.0.0")}))
    markdown = opm("index", "plan", "new", "--from", "old", "--output", "markdown")
    assert len(markdown) < 65_536
    assert "and 100 more: `--output json` lists all" in markdown


def test_exit_code_and_formats(site: Opm) -> None:
    assert site.attempt("index", "plan", "new", "--from", "old", "--fail-on", "stuck,gone").returncode == 1
    assert site.attempt("index", "plan", "new", "--from", "old", "--fail-on", "gone").returncode == 0
    found = json.loads(site("index", "plan", "new", "--from", "old", "--output", "json"))
    assert found["counts"] == {"head": 1, "stuck": 1}
    assert [path["outcome"] for path in found["paths"]] == ["head", "stuck"]
    markdown = site("index", "plan", "new", "--from", "old", "--output", "markdown")
    assert f"| `v0` | `acme` | `stable` | `acme.v1.2.0` | `{STUCK}` |" in markdown


def test_updates_that_are_refused_because_of_a_crd(opm: Opm) -> None:
    names = ("reef.v1.0.0", "reef.v2.0.0")
    embedded = {name: [embeds(definition(version))] for name, version in zip(names, ("v1alpha1", "v1"), strict=True)}
    write(opm.directory / "old", package("reef", {"stable": chain(names[0])}, {names[0]: embedded[names[0]]}))
    write(opm.directory / "new", package("reef", {"stable": chain(*names)}, embedded))
    done = opm.attempt("index", "plan", "new", "--from", "old", "--fail-on", "crd")
    assert done.returncode == 1
    reason = "version v1alpha1 is removed, but objects may be stored in it"
    assert done.stdout.splitlines() == [f"Refused by OLM v0: reef.v1.0.0 to reef.v2.0.0: reefs.demo.com: {reason}"]
    count, *error = done.stderr.splitlines()
    assert count == "1 installed version: 1 stops at a CRD, 1 update refused because of a CRD"
    assert error == [
        f"Error: 1 problem of the kinds crd: CRDs of reef (v0): reef.v1.0.0 to reef.v2.0.0: reefs.demo.com: {reason}"
    ]
    (path,) = json.loads(opm("index", "plan", "new", "--from", "old", "--output", "json"))["paths"]
    assert (path["outcome"], path["hops"], path["final"]) == ("crd", [], "reef.v1.0.0")
    assert path["reason"] == "OLM v0 refuses reef.v2.0.0 because of its CustomResourceDefinition reefs.demo.com"
    listed = opm("index", "plan", "new", "--from", "old", "--all").splitlines()
    assert listed[1].split()[:5] == ["reef", "stable", "reef.v1.0.0", "-", "0"]
    markdown = opm("index", "plan", "new", "--from", "old", "--output", "markdown")
    assert f"| `v0` | `reef` | `reef.v1.0.0 to reef.v2.0.0` | `reefs.demo.com` | `{reason}` |" in markdown
    junit = opm.attempt("index", "plan", "new", "--from", "old", "--output", "junit", "--fail-on", "crd").stdout
    assert [case.get("name") for case in ElementTree.fromstring(junit).iter("testcase")] == ["all rules", "PLAN-CRD"]
    v1 = opm("index", "plan", "new", "--from", "old", "--olm", "v1")
    assert "Refused by OLM v1: reef.v1.0.0 to reef.v2.0.0: reefs.demo.com: " in v1
    (update,) = json.loads(opm("index", "plan", "new", "--from", "old", "--output", "json"))["refused"]
    assert (update["definition"], update["reason"]) == ("reefs.demo.com", reason)
    assert opm.attempt("index", "plan", "old", "--from", "old", "--fail-on", "crd").returncode == 0
    against = opm.attempt("validate", "new", "--against", "old")
    assert against.returncode == 1
    assert f"OLM refuses the upgrade from reef.v1.0.0: reefs.demo.com: {reason}" in against.stdout + against.stderr


def test_refused_updates_name_version_and_path(opm: Opm) -> None:
    names = ("reef.v1.0.0", "reef.v1.1.0", "reef.v1.2.0")
    schemas = ({"type": "object"}, {"type": "object", "required": ["spec"], "maxProperties": 3}, {"type": "object"})
    embedded = {}
    for name, schema in zip(names, schemas, strict=True):
        value = definition("v1")
        value["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": schema}
        embedded[name] = [embeds(value)]
    write(opm.directory / "next", package("reef", {"stable": chain(*names)}, embedded))
    printed = opm("index", "plan", "next", "--from", "next", "--olm", "v1").splitlines()
    update = "Refused by OLM v1: reef.v1.0.0 to reef.v1.1.0: reefs.demo.com: v1: ^: "
    assert [line.startswith(update) for line in printed] == [True, True], printed
    found = json.loads(opm("index", "plan", "next", "--from", "next", "--olm", "v1", "--output", "json"))
    assert [(path["channel"], path["outcome"], path["hops"]) for path in found["paths"][:3]] == [
        ("", "crd", []),
        ("", "head", ["reef.v1.2.0"]),
        ("", "head", []),
    ]


def test_crds_of_bundle_images(opm_http: Opm, registry: Registry) -> None:
    opm, image = opm_http, f"{registry.host}/plan/lagoon"
    named = ("--package", "lagoon-operator", "--channels", "alpha")
    for number in ("0.1.0", "0.2.0"):
        directory = shutil.copytree(FIXTURES / "lagoon-operator" / number, opm.directory / number)
        if number == "0.2.0":
            path = directory / "manifests" / "lagoons.water.example.com.crd.yaml"
            path.write_text(path.read_text().replace("scope: Namespaced", "scope: Cluster"))
        opm("bundle", "build", "-d", f"{number}/manifests", *named, "-t", f"{image}:{number}", "--push")
    migrated = ("--migrate-level", "bundle-object-to-csv-metadata", "-o", "json")
    old, new = "lagoon-operator.v0.1.0", "lagoon-operator.v0.2.0"
    for name, bundles in (("old", (old,)), ("new", (old, new))):
        rendered = opm("render", *(f"{image}:{bundle[-5:]}" for bundle in bundles), *migrated)
        write(opm.directory / name, package("lagoon-operator", {"alpha": chain(*bundles)})[:2])
        with (opm.directory / name / "catalog.json").open("a") as file:
            file.write(rendered)
    refused = f'{old} to {new}: lagoons.water.example.com: scope changes from "Namespaced" to "Cluster"'

    plan = ("index", "plan", "new", "--from", "old", "--fail-on", "crd")
    assert opm.attempt(*plan).returncode == 0, "the catalogs do not contain the CRDs"
    done = opm.attempt(*plan, "--pull-bundles")
    assert done.returncode == 1, done.stderr
    assert f"Refused by OLM v0: {refused}\n" in done.stdout

    assert opm.attempt("validate", "new", "--against", "old").returncode == 0
    checked = opm.attempt("validate", "new", "--against", "old", "--pull-bundles")
    assert (checked.returncode, "OLM refuses" in checked.stdout + checked.stderr) == (1, True)

    assert "refuses" not in opm("index", "diff", "old", "new", "--fail-on", "refused-update")
    differs = opm.attempt("index", "diff", "old", "new", "--pull-bundles", "--fail-on", "refused-update")
    assert differs.returncode == 1
    assert f"! OLM v0 refuses the update from {refused}\n" in differs.stdout
    assert differs.stderr.startswith('refused update: package "lagoon-operator"')
    markdown = opm("index", "diff", "old", "new", "--pull-bundles", "--output", "markdown")
    assert "### Updates that OLM refuses" in markdown
    (update,) = json.loads(opm("index", "diff", "old", "new", "--pull-bundles", "--output", "json"))["refused"]
    assert (update["installed"], update["next"], update["olm"]) == (old, new, "v0")

    catalog = opm.directory / "new" / "catalog.json"
    catalog.write_text(catalog.read_text().replace(f"{image}:0.2.0", f"{image}:missing"))
    for command in (plan, ("validate", "new", "--against", "old"), ("index", "diff", "old", "new")):
        failed = opm.attempt(*command, "--pull-bundles")
        assert (failed.returncode, f"{image}:missing" in failed.stderr) == (1, True)
        assert "Traceback" not in failed.stderr


def test_a_namespace(site: Opm) -> None:
    needs = package("reef", {"stable": chain("reef.v1.0.0")}, {"reef.v1.0.0": [requires_package("acme")]})
    write(site.directory / "reef", needs)
    done = site("index", "plan", "reef=reef", "other=new", "--subscribe", "reef")
    assert done.splitlines() == [
        "STEP  INSTALLS     CHANNEL      CATALOG  REPLACES  REASON",
        "1     acme.v1.3.0  acme/stable  other    -         required by reef.v1.0.0",
        "1     reef.v1.0.0  reef/stable  reef     -         subscription",
    ]
    blocked = site.attempt("index", "plan", "reef", "--subscribe", "reef", "--fail-on", "blocked")
    assert blocked.returncode == 1
    assert blocked.stdout.splitlines() == [
        "Blocked: Subscription reef cannot be satisfied; nothing in the namespace changes",
        "  reef.v1.0.0 requires package acme in the range >=0.0.0, which neither a catalog nor the namespace has",
        "  Subscription reef accepts only reef.v1.0.0 (stable)",
        "  to change: add a catalog with package acme in the range >=0.0.0",
        "  to change: delete Subscription reef, or move it to another namespace",
    ]
    updated = json.loads(
        site("index", "plan", "old", "--subscribe", "acme", "--installed", "acme.v1.1.0", "--output", "json")
    )
    assert [[step["name"] for step in each["steps"]] for each in updated["resolutions"]] == [["acme.v1.2.0"]]
    assert updated["installed"] == ["acme.v1.2.0"]
    without = site.attempt("index", "plan", "old", "--installed", "acme.v1.1.0")
    assert (without.returncode, without.stdout) == (0, "OLM has nothing to do in the namespace\n")
    assert "pass --subscribe acme/CHANNEL" in without.stderr
    misspelled = site.attempt("index", "plan", "a=old", "b=old", "--installed", "acme.v1.1")
    assert "did you mean acme.v1.1.0 or acme.v1.2.0?" in misspelled.stderr


def test_olm_v1(site: Opm) -> None:
    reason = "stuck: no entry of {} replaces or skips acme.v1.2.0; let acme.v1.3.0 skip acme.v1.2.0"
    assert site("index", "plan", "new", "--from", "old", "--olm", "v1", "--all").splitlines() == [
        "PACKAGE  CHANNEL  INSTALLED    NEXT         HOPS  RESULT",
        "acme     (all)    acme.v1.1.0  acme.v1.3.0  1     acme.v1.3.0",
        f"acme     (all)    acme.v1.2.0  -            0     {reason.format('any channel')}",
        "acme     stable   acme.v1.1.0  acme.v1.3.0  1     acme.v1.3.0",
        f"acme     stable   acme.v1.2.0  -            0     {reason.format('stable')}",
    ]
    both = json.loads(site("index", "plan", "new", "--from", "old", "--olm", "both", "--output", "json"))
    assert [path["olm"] for path in both["paths"]] == ["v0", "v0", "v1", "v1", "v1", "v1"]
    assert site("index", "plan", "new", "--from", "old", "--olm", "both", "--all").startswith("OLM  PACKAGE")
    assert site("index", "plan", "new", "--from", "old", "--olm", "both").startswith(
        "OLM v0: acme/stable: acme.v1.2.0 "
    )


def test_an_extension(site: Opm) -> None:
    done = site("index", "plan", "new", "--extension", "acme/stable@<2", "--installed", "acme.v1.1.0")
    assert done.splitlines() == ["STEP  INSTALLS     CATALOG  REPLACES", "1     acme.v1.3.0  catalog  acme.v1.1.0"]
    arguments = ("index", "plan", "new", "--extension", "acme", "--installed", "acme.v1.2.0=1.2.0")
    blocked = site.attempt(*arguments, "--fail-on", "blocked")
    assert (blocked.returncode, blocked.stdout.splitlines()[0]) == (
        1,
        "Blocked: no entry of any channel replaces or skips acme.v1.2.0, and no catalog has its version",
    )
    assert "acme.v1.3.0" in site(*arguments, "--self-certified")
    found = json.loads(site(*arguments, "--output", "json"))
    assert (found["steps"], found["problem"][:8]) == ([], "no entry")
    markdown = site("index", "plan", "new", "--extension", "acme", "--output", "markdown")
    assert "| `1` | `acme.v1.3.0` | `catalog` | `-` |" in markdown
    two = ("index", "plan", "first=new", "second=old", "--extension", "acme")
    assert "several catalogs of the same priority" in site(*two)
    assert "acme.v1.2.0" in site(*two, "--priority", "second=1")


def test_a_cluster(site: Opm) -> None:
    objects = [
        catalog_source("prod", "olm", "quay.io/me/prod:1"),
        catalog_source("other", "elsewhere"),
        *(operator_group(name) for name in ("a", "b", "c")),
        subscription("a", "acme", "stable", installed="acme.v1.1.0", approval="Manual"),
        version("a", "acme.v1.1.0"),
        subscription("b", "acme", "beta"),
        subscription("c", "acme", "stable", installed="acme.v1.3.0"),
        version("c", "acme.v1.3.0"),
        subscription("d", "acme", "stable"),
    ]
    (site.directory / "state.json").write_text(json.dumps({"kind": "List", "items": objects}))
    arguments = ("index", "plan", "prod=new", "--cluster", "state.json")
    done = site.attempt(*arguments, "--fail-on", "blocked")
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "NAMESPACE  STEP  INSTALLS     CHANNEL      CATALOG  REPLACES     REASON",
        "a          1     acme.v1.3.0  acme/stable  prod     acme.v1.1.0  subscription",
        "Namespace a: Note: Subscription acme: each step waits for the approval of its InstallPlan",
        "Namespace b: Blocked: Subscription acme cannot be satisfied; nothing in the namespace changes",
        "Namespace b:   Subscription acme: package acme has no channel beta, only stable",
        "Namespace b:   to change: correct or delete Subscription acme",
        "Namespace c: OLM has nothing to do",
        "Namespace d: Blocked: it has 0 OperatorGroups instead of one, so that OLM resolves nothing",
    ]
    found = json.loads(site(*arguments, "--output", "json"))["namespaces"]
    assert [each["namespace"] for each in found] == ["a", "b", "c", "d"]
    assert [bool(each["problem"]) for each in found] == [False, False, False, True]
    markdown = site(*arguments, "--output", "markdown")
    assert "| `1` | `acme.v1.3.0` | `acme/stable` | `prod` | `acme.v1.1.0` | `subscription` |" in markdown
    assert "- `Blocked: it has 0 OperatorGroups" in markdown
    with (site.directory / "state.json").open("rb") as file:
        piped = subprocess.run(
            site.argv(*arguments[:-1], "-"), cwd=site.directory, env={**os.environ, **site.env}, stdin=file, check=False
        )
    assert piped.returncode == 0
    unknown = site.attempt("index", "plan", "prd=new", "--cluster", "state.json")
    assert (unknown.returncode, "CatalogSource 'prd' not found" in unknown.stderr) == (1, True)
    unnamed = site.attempt("index", "plan", "./new", "--cluster", "state.json")
    assert "./new: no CatalogSource is named" in unnamed.stderr
    assert "missing.json" in site.attempt("index", "plan", "prod=new", "--cluster", "missing.json").stderr


def test_the_cluster_of_a_context(site: Opm) -> None:
    with ApiServer(namespaces=("a", "b", "olm"), olm=True) as server:
        for each in (
            catalog_source("operatorhubio-catalog", "olm", "quay.io/me/prod:1"),
            operator_group("a"),
            subscription("a", "acme", "stable", installed="acme.v1.1.0", source="operatorhubio-catalog"),
            version("a", "acme.v1.1.0"),
            subscription("b", "acme", "stable", source="operatorhubio-catalog"),
        ):
            server.put(each)
        env = {"KUBECONFIG": str(server.kubeconfig(site.directory / "kubeconfig"))}
        done = replace(site, env=env).attempt("index", "plan", "operatorhubio-catalog=new", "--context", "test")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[1].split()[:5] == ["a", "1", "acme.v1.3.0", "acme/stable", "operatorhubio-catalog"]
    assert "Namespace b: Blocked: it has 0 OperatorGroups instead of one, so that OLM resolves nothing" in done.stdout


def test_versions_of_openshift(site: Opm) -> None:
    limit = [{"type": "olm.maxOpenShiftVersion", "value": "4.18"}]
    write(
        site.directory / "v18", package("acme", {"stable": chain("acme.v1.1.0", "acme.v1.2.0")}, {"acme.v1.1.0": limit})
    )
    platforms = ("index", "plan", "v4.18=v18", "v4.19=new", "--installed", "acme.v1.1.0")
    done = site.attempt(*platforms, "--fail-on", "stuck")
    assert done.returncode == 1
    assert [line.split()[:6] for line in done.stdout.splitlines()[1:]] == [
        ["4.18", "acme", "stable", "acme.v1.1.0", "acme.v1.2.0", "acme.v1.2.0"],
        ["4.19", "acme", "stable", "acme.v1.2.0", "-", "-"],
    ]
    assert STUCK in done.stdout
    found = json.loads(site(*platforms, "--output", "json"))["steps"]
    assert [(step["platform"], step["final"], step["needed"]) for step in found] == [
        ("4.18", "acme.v1.2.0", "acme.v1.2.0"),
        ("4.19", "acme.v1.2.0", ""),
    ]
    markdown = site(*platforms, "--output", "markdown").splitlines()
    assert markdown[0].startswith("| OPENSHIFT | PACKAGE |")
    assert markdown[1].startswith("| --- | --- |")
    assert any(line.startswith("| `4.18` | `acme` | `stable` |") for line in markdown)
    unknown = site.attempt("index", "plan", "v4.18=v18", "v4.19=new", "--installed", "acme.v9")
    assert "not found in the catalog of OpenShift 4.18" in unknown.stderr


@pytest.mark.parametrize(
    ("values", "blocked"),
    [
        (["4.22"], "works up to OpenShift 4.22, so that the cluster is not updated to 5.0"),
        ([4.22], "works up to OpenShift 4.22, so that the cluster is not updated to 5.0"),
        (["v4.23"], ""),
        ([4.23], ""),
        (["5.0.0"], ""),
        (["4.23.1"], "is invalid ('4.23.1' has more than major and minor version)"),
        (["next"], "is invalid ('next' is not a version such as 1.2.3, 1.2 or v1.2)"),
        (["4.23", "5.0"], "is invalid (it is given more than once)"),
        ([None], "is invalid"),
    ],
)
def test_the_last_version_of_openshift_as_olm_reads_it(opm: Opm, values: list[object], blocked: str) -> None:
    limits = [{"type": "olm.maxOpenShiftVersion", "value": value} for value in values]
    write(opm.directory / "next", package("acme", {"stable": chain("acme.v1.0.0")}, {"acme.v1.0.0": limits}))
    platforms = ("v4.22=next", "v5.0=next", "--installed", "acme.v1.0.0", "--fail-on", "blocked")
    done = opm.attempt("index", "plan", *platforms)
    assert (done.returncode, blocked in done.stdout) == (int(bool(blocked)), True)
    assert len(done.stdout.splitlines()) == (2 if blocked else 3)


def test_the_release_of_olm_that_takes_4_23_for_5_0_is_named(opm: Opm) -> None:
    limit = [{"type": "olm.maxOpenShiftVersion", "value": "5.0"}]
    write(opm.directory / "next", package("acme", {"stable": chain("acme.v1.0.0")}, {"acme.v1.0.0": limit}))
    printed = opm("index", "plan", "v4.23=next", "v5.0=next", "--installed", "acme.v1.0.0")
    assert printed.splitlines()[1].endswith(
        "blocked: works up to OpenShift 5.0, but OLM 0.42 and later takes 4.23 for 5.0 and requires 5.1, so that the "
        "cluster is not updated to 5.0; publish a version for OpenShift 5.1 in the catalog of 4.23"
    )


def test_labels_of_bundle_images(opm_http: Opm, registry: Registry) -> None:
    name = f"{registry.host}/plan/labelled:1"
    manifests = shutil.copytree(FIXTURES / "lagoon-operator" / "0.1.0", opm_http.directory / "bundle")
    (manifests / "bundle.Dockerfile").write_text(
        "FROM scratch\nLABEL com.redhat.openshift.versions=v4.12-v4.18\n"
        "COPY manifests /manifests/\nCOPY metadata /metadata/\n"
    )
    opm_http("bundle", "build", "-f", "bundle/bundle.Dockerfile", "bundle", "-t", name, "--push")
    documents = package("acme", {"stable": chain("acme.v1.0.0")})
    documents[-1]["image"] = name
    write(opm_http.directory / "catalog", documents)
    platforms = ("index", "plan", "v4.18=catalog", "v4.19=catalog", "--installed", "acme.v1.0.0")
    assert "excludes" not in opm_http(*platforms)
    done = opm_http.attempt(*platforms, "--pull-bundles", "--fail-on", "unsupported")
    assert done.returncode == 1
    reason = "its label com.redhat.openshift.versions (v4.12-v4.18) excludes OpenShift 4.19"
    assert [reason in line for line in done.stdout.splitlines()] == [False, False, True]


def test_fields_in_json_are_documented(site: Opm) -> None:
    write(
        site.directory / "reef",
        package("reef", {"stable": chain("reef.v1.0.0")}, {"reef.v1.0.0": [requires_package("x")]}),
    )
    text = (ROOT / "docs" / "plan.md").read_text()
    rows = text[text.index("## Output for programs") : text.index("## How long it takes")]
    for arguments in (
        ("new", "--from", "old"),
        ("new", "--subscribe", "acme"),
        ("reef", "--subscribe", "reef"),
        ("new", "--extension", "acme"),
        ("v4.18=old", "v4.19=new", "--installed", "acme.v1.1.0"),
    ):
        found = json.loads(site("index", "plan", *arguments, "--output", "json"))
        assert [name for name in _fields(found) if f"`{name}`" not in rows] == []


def _fields(value: object) -> Iterator[str]:
    """Yield the names of all fields, but the outcomes in ``counts``."""
    if isinstance(value, dict):
        for name, field in value.items():
            yield name
            yield from _fields(field) if name != "counts" else ()
    elif isinstance(value, list):
        for item in value:
            yield from _fields(item)


def test_junit(site: Opm) -> None:
    arguments = ("index", "plan", "new", "--from", "old", "--output", "junit")
    suites = ElementTree.fromstring(site(*arguments))
    assert (suites.get("name"), suites.get("failures")) == ("update plan", "0")
    failed = site.attempt(*arguments, "--fail-on", "stuck")
    (failure,) = ElementTree.fromstring(failed.stdout).iter("failure")
    assert (failed.returncode, failure.get("message")) == (
        1,
        f"acme.v1.2.0: {STUCK.partition(': ')[2].partition(';')[0]}",
    )
    blocked = site.attempt(
        "index", "plan", "new", "--subscribe", "acme/beta", "--output", "junit", "--fail-on", "blocked"
    )
    assert [case.get("name") for case in ElementTree.fromstring(blocked.stdout).iter("testcase")] == ["PLAN-BLOCKED"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("new",), "nothing to plan is given"),
        (("new", "--from", "old", "--subscribe", "acme"), "--from and --subscribe"),
        (("new", "--subscribe", "acme", "--olm", "v1"), "--subscribe and --olm"),
        (("new", "--subscribe", "acme", "--pull-bundles"), "--pull-bundles requires --from"),
        (("new", "--extension", "acme", "--package", "acme"), "--extension and --package"),
        (("new", "--extension", "acme@one"), "invalid version range 'one'"),
        (("new", "--extension", "acme", "--installed", "acme.v9"), "version of installed bundle 'acme.v9' is unknown"),
        (("new", "--extension", "acme", "--installed", "a,b"), "--extension takes one installed bundle"),
        (("new", "--extension", "acme", "--installed", "acme.v9=nine"), "invalid version 'nine'"),
        (("new", "--extension", "acme", "--priority", "other=1"), "catalog 'other' not found"),
        (("new", "old", "--from", "old"), "--from takes one index"),
        (("new", "--from", "old", "--fail-on", "sad"), "unknown kind 'sad' of --fail-on"),
        (("new", "old", "--subscribe", "acme"), "several catalogs are called catalog"),
        (("new", "--subscribe", "/stable"), "invalid Subscription '/stable'"),
        (("new", "--subscribe", "acme", "--priority", "catalog=high"), "invalid priority 'catalog=high'"),
        (("new", "--subscribe", "acme", "--priority", "other=1"), "catalog 'other' not found"),
        (("new", "--subscribe", "acme", "--installed", "acme.v9"), "installed bundle 'acme.v9' not found"),
        (("new", "--from", "old", "--package", "acne"), 'package "acne" not found'),
        (("missing", "--from", "old"), "missing"),
    ],
)
def test_errors(site: Opm, arguments: tuple[str, ...], message: str) -> None:
    done = site.attempt("index", "plan", *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_names_from_outside_are_escaped(opm: Opm) -> None:
    write(opm.directory / "old", package("acme", {"sta\x1b[31m|ble": chain("acme.v1.0.0")}))
    write(opm.directory / "new", package("acme", {"fa\x1bst": chain("acme.v1.0.0")}))
    for output in ("text", "json", "markdown"):
        done = opm.attempt("index", "plan", "new", "--from", "old", "--output", output)
        assert done.returncode == 0, done.stderr
        assert "has no channel" in done.stdout
        assert "\x1b" not in done.stdout + done.stderr
