"""``opm bundle validate --profile preflight``: the checks of openshift-preflight."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.kit.broken import BROKEN

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.opm import Opm
    from tests.kit.registry import Registry

FLAGS = ("--profile", "preflight", "--output", "preflight")
CSV = "manifests/demo.clusterserviceversion.yaml"


@pytest.fixture
def bundle(opm: Opm) -> Path:
    """Return a bundle that passes all checks."""
    return shutil.copytree(BROKEN / "base", opm.directory / "bundle")


def test_results_of_a_directory_and_an_image(opm: Opm, bundle: Path, registry: Registry) -> None:
    name = f"{registry.host}/preflight/demo:1"
    opm("bundle", "build", "-d", f"{bundle}/manifests", "-t", name, "--push", "--use-http")
    for target, flags in ((str(bundle), ()), (name, ("--use-http",))):
        results = json.loads(opm("bundle", "validate", target, *FLAGS, *flags))
        assert (results["image"], results["passed"]) == (target, True)
        assert [check["name"] for check in results["results"]["passed"]] == [
            "ValidateOperatorBundle",
            "RequiredAnnotations",
        ]
        assert (results["results"]["failed"], results["results"]["errors"]) == ([], [])
        assert results["not_run"] == ["DeployableByOLM"]


def test_failed_checks(opm: Opm, bundle: Path) -> None:
    csv = bundle / CSV
    invalid = csv.read_text().replace("proxy-aware: 'false'", 'proxy-aware: "\\e[1mno"')
    csv.write_text(invalid.replace("  - type: AllNamespaces", "  - type: Everywhere"))
    done = opm.attempt("bundle", "validate", str(bundle), *FLAGS)
    assert done.returncode == 1
    assert "\x1b" not in done.stdout + done.stderr
    results = json.loads(done.stdout)
    valid, annotations = results["results"]["failed"]
    assert not results["passed"]
    assert (valid["name"], annotations["name"]) == ("ValidateOperatorBundle", "RequiredAnnotations")
    assert "proxy-aware" in annotations["help"]
    assert annotations["suggestion"]


def test_checks_that_end_with_an_error(opm: Opm, bundle: Path) -> None:
    (bundle / "metadata/annotations.yaml").write_text("annotations: {com.redhat.openshift.versions: v4.14-}\n")
    (bundle / "manifests/notes.yaml").write_text("[]\n")
    done = opm.attempt("bundle", "validate", str(bundle), *FLAGS)
    results = json.loads(done.stdout)["results"]
    assert done.returncode == 1
    assert [check["name"] for check in results["errors"]] == ["ValidateOperatorBundle", "RequiredAnnotations"]


def test_an_unreadable_bundle_passes_no_check(opm: Opm, registry: Registry) -> None:
    done = opm.attempt("bundle", "validate", "./absent", *FLAGS)
    assert (done.returncode, done.stdout) == (1, "")
    assert "./absent: no such directory" in done.stderr
    done = opm.attempt("bundle", "validate", f"{registry.host}/preflight/absent:1", *FLAGS, "--use-http")
    results = json.loads(done.stdout)["results"]
    assert (done.returncode, results["passed"], len(results["errors"])) == (1, [], 2)


def test_text_names_the_rules(opm: Opm, bundle: Path) -> None:
    csv = bundle / CSV
    csv.write_text(csv.read_text().replace("    features.operators.openshift.io/proxy-aware: 'false'\n", ""))
    done = opm.attempt("bundle", "validate", str(bundle), "--profile", "preflight")
    assert done.returncode == 1
    assert "error PREFLIGHT-ANNOTATIONS: the annotation features.operators.openshift.io/proxy-aware" in done.stdout
    policy = "ignore: [{rule: PREFLIGHT-ANNOTATIONS, reason: later}]\nprofile: preflight\n"
    (opm.directory / ".opm-validate.yaml").write_text(policy)
    assert json.loads(opm("bundle", "validate", str(bundle), "--output", "preflight"))["passed"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("a", "--output", "preflight"), "--output preflight requires --profile preflight"),
        (("a", "b", *FLAGS), "preflight: unsupported for several bundles"),
        (("a", *FLAGS, "--shard", "1/2"), "preflight: unsupported with --shard"),
    ],
)
def test_flags_that_do_not_fit(opm: Opm, flags: tuple[str, ...], message: str) -> None:
    done = opm.attempt("bundle", "validate", *flags)
    assert (done.returncode, done.stdout) == (1, "")
    assert message in done.stderr
