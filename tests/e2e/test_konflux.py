"""``opm validate --profile konflux`` with images in a registry."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.kit.bundles import push_image
from tests.kit.images import member
from tests.kit.konflux import METADATA, OBJECT, VARIANTS, VERSION_LABEL, Variant, catalog
from tests.kit.opm import PROGRAM

if TYPE_CHECKING:
    from pathlib import Path
    from subprocess import CompletedProcess

    from tests.kit.opm import Opm
    from tests.kit.registry import Registry

BROKEN = Variant(files={"reef/catalog.json": catalog([METADATA], [OBJECT], image="quay.io/a/b:1")}, bottom=())


def push(registry: Registry, name: str, variant: Variant, scratch: Path) -> str:
    directory = scratch / f"image-{name}"
    directory.mkdir()
    return push_image(f"{registry.host}/konflux/{name}:1", variant.build(directory))


def attempt(opm: Opm, target: str, *flags: str) -> CompletedProcess[str]:
    return opm.attempt("validate", target, "--profile", "konflux", *flags)


@pytest.mark.parametrize("name", ["valid-4.17", "valid-4.16", "valid-5.0", "valid-index", "version-label"])
def test_valid_images_pass(opm_http: Opm, registry: Registry, name: str, tmp_path: Path) -> None:
    done = attempt(opm_http, push(registry, name, VARIANTS[name], tmp_path))
    assert done.returncode == 0, done.stderr
    warned = name == "version-label"
    assert ("KONFLUX-UNKNOWN-VERSION" in done.stderr) == warned
    assert bool(done.stderr) == warned


def test_findings_are_reported_together(opm_http: Opm, registry: Registry, tmp_path: Path) -> None:
    image = push(registry, "broken", BROKEN, tmp_path)
    done = attempt(opm_http, image)
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[0] == "error: the image does not contain grpc_health_probe [KONFLUX-HEALTH-PROBE]"
    assert lines[1] == "  hint: build on an image that contains it; allowed base images do"
    assert lines[2] == (
        'reef/catalog.json:3: error: package "reef", bundle "reef.v1.0.0": '
        "image quay.io/a/b:1 has no digest [KONFLUX-DIGEST]"
    )
    assert sum("KONFLUX-METADATA-FORMAT" in line for line in lines) == 2
    (run,) = json.loads(attempt(opm_http, image, "--output", "sarif").stdout)["runs"]
    assert {result["ruleId"] for result in run["results"]} == {
        "KONFLUX-HEALTH-PROBE",
        "KONFLUX-DIGEST",
        "KONFLUX-REGISTRY",
        "KONFLUX-METADATA-FORMAT",
    }


def test_policy_file_sets_the_profile(opm_http: Opm, registry: Registry, tmp_path: Path) -> None:
    image = push(registry, "policy", BROKEN, tmp_path)
    assert opm_http.attempt("validate", image).returncode == 0
    policy = opm_http.directory / ".opm-validate.yaml"
    policy.write_text("catalog: {profile: konflux}\n")
    assert opm_http.attempt("validate", image).returncode == 1
    policy.write_text("catalog: {profile: konflux}\nignore: [{rule: KONFLUX-*, reason: not released}]\n")
    done = opm_http.attempt("validate", image)
    assert (done.returncode, done.stderr.count("reason: not released")) == (0, 7)
    policy.write_text("catalog: {profile: community}\n")
    done = opm_http.attempt("validate", image)
    assert done.stderr.startswith("Error: .opm-validate.yaml:1:11: catalog.profile is not a known profile")


def test_entries_of_the_policy_for_images_do_not_count_for_directories(opm: Opm) -> None:
    (opm.directory / "catalog/reef").mkdir(parents=True)
    (opm.directory / "catalog/reef/catalog.json").write_bytes(catalog([METADATA]))
    policy = "catalog: {profile: konflux}\nfail-on: warning\nignore: [{rule: KONFLUX-HEALTH-PROBE, reason: later}]\n"
    (opm.directory / ".opm-validate.yaml").write_text(policy)
    done = opm.attempt("validate", "catalog")
    assert (done.returncode, done.stdout) == (0, "")
    assert (
        done.stderr == "Warning: catalog: not an image: its base image, labels and grpc_health_probe are not checked\n"
    )


def test_missing_catalogs_are_findings(opm_http: Opm, registry: Registry, tmp_path: Path) -> None:
    for name in ("configs-no-label", "configs-empty", "architecture"):
        done = attempt(opm_http, push(registry, name, VARIANTS[name], tmp_path), "--output", "json")
        report = json.loads(done.stdout)
        (rule,) = VARIANTS[name].rules
        assert (done.returncode, [finding["rule"] for finding in report["findings"]]) == (1, [rule])


def test_unknown_profiles_and_images_are_errors(opm_http: Opm, registry: Registry) -> None:
    done = opm_http.attempt("validate", ".", "--profile", "preflight")
    assert (done.returncode, done.stderr) == (1, 'Error: unknown profile "preflight"\n  hint: use konflux\n')
    done = attempt(opm_http, f"{registry.host}/konflux/none:1")
    assert done.returncode == 1
    assert "not found" in done.stderr
    assert "Traceback" not in done.stderr


def test_hostile_labels_are_escaped(opm_http: Opm, registry: Registry, tmp_path: Path) -> None:
    variant = Variant(labels={VERSION_LABEL: "\x1b[31m["}, configs="/\x1b[31m", base="\x1b[31m")
    done = attempt(opm_http, push(registry, "hostile", variant, tmp_path))
    assert done.returncode == 1
    assert "\x1b" not in done.stderr
    for rule in ("KONFLUX-OPENSHIFT-VERSION", "KONFLUX-CONFIGS", "KONFLUX-BASE-IMAGE"):
        assert rule in done.stderr


def test_rules_are_explained(opm: Opm) -> None:
    assert "validate-fbc" in opm("bundle", "rules", "KONFLUX-BASE-IMAGE")


def test_memory_does_not_grow_with_the_image(registry: Registry, tmp_path: Path) -> None:
    """A layer of 600 MB is read in less than 250 MB."""
    large = Variant(bottom=(*VARIANTS["valid-4.17"].bottom, member("data", bytes(600 << 20))))
    image = push(registry, "large", large, tmp_path)
    program = (
        "import resource, subprocess, sys; code = subprocess.call(sys.argv[1:]); "
        "print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    argv = [str(PROGRAM), "validate", image, "--profile", "konflux", "--use-http"]
    done = subprocess.run([sys.executable, "-c", program, *argv], capture_output=True, text=True, check=True)
    status, kilobytes = map(int, done.stdout.split())
    assert status == 0, done.stderr
    assert kilobytes * 1024 < 250 << 20, kilobytes
