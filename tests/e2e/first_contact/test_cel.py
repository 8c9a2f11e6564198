"""Rules of constraints in CEL are checked by the base install, and never pass unchecked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement

from tests.kit.opm import FIXTURES

if TYPE_CHECKING:
    from tests.kit.installed import InstalledOpm

CONSTRAINT = "dependencies:\n- type: olm.constraint\n  value: {{failureMessage: why, cel: {{rule: '{rule}'}}}}\n"


def build(newcomer: InstalledOpm, dependencies: str = "") -> str:
    """Build a bundle's directory and image; return the image."""
    manifests = str(FIXTURES / "lagoon-operator" / "0.1.0" / "manifests")
    flags = ("--package", "lagoon", "--channels", "alpha", "--default", "alpha", "--output-dir", "bundle")
    (newcomer.directory / "bundle" / "metadata").mkdir(parents=True)
    if dependencies:
        (newcomer.directory / "bundle" / "metadata" / "dependencies.yaml").write_text(dependencies)
    newcomer("bundle", "build", "--directory", manifests, *flags, "--tag", "oci:image:1")
    return "oci:image:1"


@pytest.mark.parametrize("rule", ["nonsense ==", "1 + 1"])
def test_invalid_rule_fails_validation(newcomer: InstalledOpm, rule: str) -> None:
    image = build(newcomer, CONSTRAINT.format(rule=rule))
    for arguments in (("bundle", "validate", "bundle"), ("alpha", "bundle", "validate", "--tag", image)):
        done = newcomer.attempt(*arguments)
        assert done.returncode == 1
        assert "error DEP-CEL-INVALID: invalid CEL rule: " in done.stdout


def test_cel_compiler_is_required_on_platforms_with_wheels(newcomer: InstalledOpm) -> None:
    (wheel,) = newcomer.bin.parent.glob("lib/python*/site-packages/opmkit-*.dist-info/METADATA")
    lines = [
        line.partition(": ")[2] for line in wheel.read_text().splitlines() if line.startswith("Requires-Dist: cel")
    ]
    (marker,) = [one.marker for one in map(Requirement, lines) if one.marker and "extra" not in str(one.marker)]
    cpython = {"implementation_name": "cpython", "python_version": "3.11"}
    for system, machine in (("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64"), ("darwin", "x86_64")):
        assert marker.evaluate({**cpython, "sys_platform": system, "platform_machine": machine})
    for system, machine in (("linux", "ppc64le"), ("linux", "s390x")):
        assert not marker.evaluate({**cpython, "sys_platform": system, "platform_machine": machine})


def test_rule_fails_without_the_cel_compiler(newcomer: InstalledOpm) -> None:
    image = build(newcomer, CONSTRAINT.format(rule="size(properties) > 0"))
    assert newcomer.attempt("bundle", "validate", "bundle").returncode == 0
    (newcomer.directory / "lib").mkdir()
    (newcomer.directory / "lib" / "cel_expr_python.py").write_text("raise ImportError('no wheel for musl')")
    bare = newcomer.with_env(PYTHONPATH=str(newcomer.directory / "lib"))
    for arguments in (("bundle", "validate", "bundle", "--no-cache"), ("alpha", "bundle", "validate", "--tag", image)):
        done = bare.attempt(*arguments)
        assert done.returncode == 1
        assert (
            "error DEP-CEL-INVALID: cannot check the CEL rule: cel-expr-python cannot be loaded: no wheel"
            in done.stdout
        )
        assert "hint: Install cel-expr-python" in done.stdout
    report = json.loads(bare.attempt("bundle", "validate", "bundle", "--no-cache", "--output", "json").stdout)
    assert report["passed"] is False


def test_bundles_without_rules_pass_without_the_cel_compiler(newcomer: InstalledOpm) -> None:
    build(newcomer)
    (newcomer.directory / "lib").mkdir()
    (newcomer.directory / "lib" / "cel_expr_python.py").write_text("raise ImportError('no wheel for musl')")
    newcomer.with_env(PYTHONPATH=str(newcomer.directory / "lib"))("bundle", "validate", "bundle")
