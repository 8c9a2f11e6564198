"""``opm template``: edits of templates with the installed command."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.kit.faults import Answer, Fault, FaultProxy
from tests.kit.forkserver import Command
from tests.kit.opm import Opm

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.forkserver import ForkServer
    from tests.kit.registry import Registry

BUNDLE_020 = "./bundle-0.2.0=quay.io/me/lagoon:0.2.0"
ALPHA = ("--channel", "candidate")


TEMPLATE = """\
---
# the template
schema: olm.template.basic
entries:
  - schema: olm.package   # one package
    name: lagoon-operator
    defaultChannel: stable

  # for users
  - schema: olm.channel
    name: stable
    package: lagoon-operator
    entries:
      - name: lagoon-operator.v0.1.0   # first

  - schema: olm.channel
    name: candidate
    package: lagoon-operator
    entries:
      - {name: lagoon-operator.v0.1.0}

  # bundles
  - image: quay.io/me/lagoon:0.1.0
    schema: olm.bundle
# end
"""


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with the bundles 0.2.0 and 0.3.0, and their images."""
    directory = tmp_path_factory.mktemp("bundles")
    for version in ("0.2.0", "0.3.0"):
        Opm(directory).build_bundle(version, f"oci:bundles:{version}")
    return directory


@pytest.fixture
def site(opm: Opm, bundles: Path) -> Opm:
    """Return the command in a directory with bundles, and a template with 0.1.0 in two channels."""
    shutil.copytree(bundles, opm.directory, dirs_exist_ok=True)
    (opm.directory / "t.yaml").write_text(TEMPLATE)
    return opm


def text(opm: Opm) -> str:
    return (opm.directory / "t.yaml").read_text()


def test_a_bundle_is_added_promoted_and_deprecated(site: Opm) -> None:
    before = text(site)
    assert site("template", "add", "t.yaml", BUNDLE_020, *ALPHA) == (
        "t.yaml: channel candidate: lagoon-operator.v0.2.0 added (replaces lagoon-operator.v0.1.0)\n"
        "t.yaml: bundles: quay.io/me/lagoon:0.2.0 added\n"
    )
    done = site.attempt("template", "add", "t.yaml", "oci:bundles:0.3.0", *ALPHA, "--skip-range", "")
    assert "oci:bundles:0.3.0, which clusters cannot pull; name it as oci:bundles:0.3.0=REGISTRY/IMAGE" in done.stderr
    site("template", "promote", "t.yaml", "lagoon-operator.v0.3.0", "--from", "candidate", "--to", "stable")
    site("template", "deprecate", "t.yaml", "lagoon-operator.v0.1.0", "--channel", "candidate", "-m", "Old.")
    after = text(site)
    comments = [line.partition("#")[2] for line in before.splitlines() if "#" in line]
    assert [line.partition("#")[2] for line in after.splitlines() if "#" in line] == comments
    assert after.count("lagoon-operator.v0.3.0") == 2
    assert after.count("message: Old.") + after.count('message: "Old."') == 2
    for words in (
        ("add", "t.yaml", BUNDLE_020, *ALPHA),
        ("promote", "t.yaml", "lagoon-operator.v0.3.0", "--to", "stable"),
        ("deprecate", "t.yaml", "--channel", "candidate", "-m", "Old."),
    ):
        done = site.attempt("template", *words, "--check")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "t.yaml: nothing to change\n")
    site("template", "deprecate", "t.yaml", "lagoon-operator.v0.1.0", "--channel", "candidate", "--undo")
    assert "olm.deprecations" not in text(site)


def test_dry_run_and_check_write_nothing(site: Opm) -> None:
    before = text(site)
    words = ("template", "add", "t.yaml", BUNDLE_020, *ALPHA)
    diff = site(*words, "--dry-run")
    assert diff.startswith("--- a/t.yaml\n+++ b/t.yaml\n@@")
    assert "+      - name: lagoon-operator.v0.2.0\n" in diff
    done = site.attempt(*words, "--check")
    assert (done.returncode, done.stdout) == (1, diff)
    assert "Error: t.yaml: would change\n  hint: run the command without --check\n" in done.stderr
    done = site.attempt(*words, "--check", "--output", "json")
    (template,) = json.loads(done.stdout)["templates"]
    assert (done.returncode, template["changed"], template["diff"]) == (1, True, diff)
    assert template["changes"][0] == {
        "action": "add",
        "channel": "candidate",
        "bundle": "lagoon-operator.v0.2.0",
        "replaces": "lagoon-operator.v0.1.0",
    }
    assert text(site) == before


@pytest.mark.parametrize(
    ("words", "problem", "hint"),
    [
        (("add", "t.yaml", "./bundle-0.2.0"), "a template lists images", "pass ./bundle-0.2.0=IMAGE"),
        (("add", "t.yaml", BUNDLE_020), "no channel given", "pass --channel candidate,stable"),
        (("add", "t.yaml", BUNDLE_020, "--channel", "beta"), 'channel "beta" not found', "--create-channel"),
        (("add", "t.yaml", BUNDLE_020, *ALPHA, "--replaces", "x"), "x is not in the channel", "omit --replaces"),
        (("add", "t.yaml", BUNDLE_020, *ALPHA, "--after", "a", "--by-version"), "mutually exclusive", "--help"),
        (("add", "t.yaml", BUNDLE_020, *ALPHA, "--base", "x"), "unsupported: base", "omit --base"),
        (("add", "missing.yaml", BUNDLE_020), "no such file", "pass a template file"),
        (("add", "catalog", BUNDLE_020), "catalog: is a directory", "pass a template file"),
        (("promote", "t.yaml", "x"), '"to-channel" not set', "--help"),
        (("deprecate", "t.yaml", "-m", "x"), "nothing to deprecate", "--help"),
        (("deprecate", "t.yaml", "--package"), "either --message or --undo", "--help"),
        (("deprecate", "t.yaml", "x", "-m", "y"), "t.yaml:3: bundle x not found", "lagoon-operator.v0.1.0"),
        (("release", "bundle-0.2.0", "--image", "quay.io/me/x:1"), "release-config.yaml: no such file", "write"),
        (("release", "bundle-0.2.0"), '"image" not set', "--help"),
    ],
)
def test_errors_are_short_and_have_a_hint(site: Opm, words: tuple[str, ...], problem: str, hint: str) -> None:
    (site.directory / "catalog").mkdir()
    before = text(site)
    done = site.attempt("template", *words)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: ")
    assert problem in done.stderr
    assert hint in done.stderr.split("  hint: ")[1]
    assert text(site) == before


def test_release_edits_all_templates_or_none(site: Opm) -> None:
    operator = site.directory / "operators" / "lagoon"
    (operator / "catalog-templates").mkdir(parents=True)
    (site.directory / "bundle-0.3.0").rename(operator / "0.3.0")
    (site.directory / "t.yaml").rename(operator / "catalog-templates" / "basic.yaml")
    config = (
        "catalog_templates:\n"
        "- template_name: basic.yaml\n"
        "  channels: [stable, new]\n"
        "  skips: [lagoon-operator.v0.2.0]\n"
    )
    semver = "- template_name: semver.yaml\n  channels: [Fast]\n"
    release = ("template", "release", "operators/lagoon/0.3.0", "--image", "quay.io/me/lagoon:0.3.0")
    before = listing(operator / "catalog-templates")
    (operator / "0.3.0" / "release-config.yaml").write_text(config + semver)
    done = site.attempt(*release)
    assert (
        "release-config.yaml:5: template operators/lagoon/catalog-templates/semver.yaml does not exist" in done.stderr
    )
    assert listing(operator / "catalog-templates") == before
    mapping = "fbc: {catalog_mapping: [{template_name: semver.yaml, type: olm.semver, catalog_names: [v4.20]}]}\n"
    (operator / "ci.yaml").write_text(mapping)
    diff = site(*release, "--dry-run")
    assert listing(operator / "catalog-templates") == before
    assert "+  - image: quay.io/me/lagoon:0.3.0" in diff
    site(*release)
    after = listing(operator / "catalog-templates")
    assert "replaces: lagoon-operator.v0.1.0" in after["basic.yaml"]
    assert after["semver.yaml"].endswith("fast:\n  bundles:\n  - image: quay.io/me/lagoon:0.3.0\n")
    assert site.attempt(*release, "--check").returncode == 0


def listing(directory: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in directory.glob("*.yaml")}


def test_bundles_in_a_registry_and_its_faults(site: Opm, registry: Registry) -> None:
    opm = replace(site, flags=("--use-http",))
    name = f"{registry.host}/template-edit/lagoon-operator"
    for version in ("0.2.0", "0.3.0"):
        opm("image", "copy", f"oci:bundles:{version}", f"{name}:{version}")
    semver = "schema: olm.semver\nstable:\n  bundles:\n"
    (site.directory / "t.yaml").write_text(f"{semver}  - image: {name}:0.2.0 # first\n")
    opm("template", "add", "t.yaml", f"{name}:0.3.0")
    assert text(site) == f"{semver}  - image: {name}:0.2.0 # first\n  - image: {name}:0.3.0\n"
    opm("template", "promote", "t.yaml", "0.2.0", "--to", "fast")
    assert f"schema: olm.semver\nfast:\n  bundles:\n  - image: {name}:0.2.0\nstable:\n" in text(site)
    opm("bundle", "pin", "t.yaml")
    before = text(site)
    assert f"{name}@sha256:" in before
    assert opm.attempt("template", "add", "t.yaml", f"{name}:0.3.0", "--channel", "stable", "--check").returncode == 0
    done = opm.attempt("template", "add", "t.yaml", f"{name}:missing", "--channel", "stable")
    assert (done.returncode, text(site)) == (1, before)
    assert done.stderr.startswith("Error: ")
    assert "missing" in done.stderr
    (site.directory / "t.yaml").write_text(f"{semver}  - image: {name}:gone\n")
    done = opm.attempt("template", "add", "t.yaml", f"{name}:0.3.0")
    assert done.returncode == 0
    assert "Warning: t.yaml: the versions of the other bundles are not checked: " in done.stderr
    before = text(site)
    with FaultProxy(registry.host, Fault("GET|HEAD", ".*/manifests/", Answer(404), times=1000)) as proxy:
        image = f"{proxy.host}/template-edit/lagoon-operator:0.2.0"
        done = opm.attempt("template", "add", "t.yaml", image)
    assert (done.returncode, text(site)) == (1, before)
    assert image in done.stderr


def test_edits_plan_the_updates_of_installed_versions(site: Opm, registry: Registry) -> None:
    opm = replace(site, flags=("--use-http",))
    name = f"{registry.host}/template-plan/lagoon-operator"
    opm("image", "copy", "oci:bundles:0.2.0", f"{name}:0.2.0")
    (site.directory / "t.yaml").write_text(f"schema: olm.semver\nstable:\n  bundles:\n  - image: {name}:0.2.0\n")
    added = opm(
        "template", "add", "t.yaml", f"./bundle-0.3.0={name}:0.3.0", "--channel", "fast", "--plan", "-o", "json"
    )
    (template,) = json.loads(added)["templates"]
    assert [(path["channel"], path["outcome"]) for path in template["plan"]["paths"]] == [("stable-v0.2", "head")]
    before = text(site)
    promote = ("template", "promote", "t.yaml", "0.3.0", "--from", "fast", "--to", "stable", "--plan")
    failed = opm.attempt(*promote)
    assert (failed.returncode, text(site)) == (1, before), "the new bundle is not in the registry yet"
    assert f"{name}:0.3.0" in failed.stderr
    opm("image", "copy", "oci:bundles:0.3.0", f"{name}:0.3.0")
    dry = opm.attempt(*promote, "--dry-run")
    assert dry.stderr == "2 installed versions: 2 reach the head\n"
    assert "--- a/t.yaml" in dry.stdout
    done = opm.attempt(*promote)
    assert done.stderr == dry.stderr
    assert done.stdout.startswith("t.yaml: ")


def test_concurrent_edits_of_a_template_are_all_made(site: Opm, forkserver: ForkServer) -> None:
    words = [["add", "t.yaml", BUNDLE_020, *ALPHA], ["deprecate", "t.yaml", "--package", "-m", "Old."]]
    words += [["promote", "t.yaml", "lagoon-operator.v0.1.0", "--to", f"new{n}", "--create-channel"] for n in range(3)]
    done = forkserver.run([Command(["template", *more], directory=site.directory) for more in words])
    assert [result.stderr for result in done if result.status] == []
    after = text(site)
    assert "lagoon-operator.v0.2.0" in after
    assert "message: " in after
    assert [f"name: new{n}\n" in after for n in range(3)] == [True, True, True]
    for more in words:
        assert site.attempt("template", *more, "--check").returncode == 0


def test_a_killed_release_leaves_complete_files_and_can_be_repeated(site: Opm, forkserver: ForkServer) -> None:
    operator = site.directory / "lagoon"
    templates = operator / "catalog-templates"
    templates.mkdir(parents=True)
    (site.directory / "bundle-0.3.0").rename(operator / "0.3.0")
    config = "".join(f"- {{template_name: {name}.yaml, channels: [stable]}}\n" for name in "ab")
    (operator / "0.3.0" / "release-config.yaml").write_text(f"catalog_templates:\n{config}")
    release = ["template", "release", "lagoon/0.3.0", "--image", "quay.io/me/lagoon:0.3.0"]
    at, seen = 0, set()
    while True:
        at += 1
        for name in "ab":
            (templates / f"{name}.yaml").write_text(TEMPLATE)
        (killed,) = forkserver.run([Command(release, directory=site.directory, killed_at=("os.replace", at))])
        if killed.status == 0:
            break
        seen.add(sum("v0.3.0" in content for content in listing(templates).values()))
        site(*release)
        assert {content.count("- name: lagoon-operator.v0.3.0") for content in listing(templates).values()} == {1}
    assert seen == {0, 1}
    assert [path.name for path in sorted(templates.iterdir())] == ["a.yaml", "b.yaml"]
