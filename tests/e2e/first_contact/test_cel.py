"""Rules of constraints in CEL are checked with the extra ``cel``, and never pass unchecked."""

from __future__ import annotations

import json
from importlib import metadata
from typing import TYPE_CHECKING

import pytest

from tests.kit.opm import FIXTURES

if TYPE_CHECKING:
    from tests.kit.installed import InstalledOpm

VALIDATE_TAG = ("alpha", "bundle", "validate", "--output", "text", "--tag")
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


def with_compiler(newcomer: InstalledOpm, code: str = "") -> InstalledOpm:
    """Add the CEL compiler of this environment, as the extra ``cel`` would, or a module with other code."""
    library = newcomer.home / "lib"  # not in the working directory, which is not searched
    library.mkdir()
    distribution = metadata.distribution("cel-expr-python")
    for name in {path.parts[0] for path in distribution.files or () if path.parts[0].startswith("cel")}:
        (library / name).symlink_to(str(distribution.locate_file(name)))
    if code:
        (library / "cel_expr_python").unlink()
        (library / "cel_expr_python.py").write_text(code)
    return newcomer.with_env(PYTHONPATH=str(library))


@pytest.mark.parametrize("rule", ["nonsense ==", "1 + 1"])
def test_invalid_rule_fails_validation(newcomer: InstalledOpm, rule: str) -> None:
    image = build(newcomer, CONSTRAINT.format(rule=rule))
    newcomer = with_compiler(newcomer)
    for arguments in (
        ("bundle", "validate", "bundle"),
        ("alpha", "bundle", "validate", "--tag", image, "--output", "text"),
    ):
        done = newcomer.attempt(*arguments)
        assert done.returncode == 1
        assert "error DEP-CEL-INVALID: invalid CEL rule: " in done.stdout


def test_rule_fails_without_the_cel_compiler(newcomer: InstalledOpm) -> None:
    image = build(newcomer, CONSTRAINT.format(rule="size(properties) > 0"))
    assert with_compiler(newcomer).attempt("bundle", "validate", "bundle", "--no-cache").returncode == 0
    for arguments in (
        ("bundle", "validate", "bundle", "--no-cache"),
        ("alpha", "bundle", "validate", "--tag", image, "--output", "text"),
    ):
        done = newcomer.attempt(*arguments)
        assert done.returncode == 1
        assert "error DEP-CEL-INVALID: cannot check the CEL rule: cel-expr-python is not installed" in done.stdout
        assert "hint: Install the extra in a checkout of opmkit: pip install '.[cel]'. " in done.stdout
    report = json.loads(newcomer.attempt("bundle", "validate", "bundle", "--no-cache", "--output", "json").stdout)
    assert report["passed"] is False


def test_broken_compiler_is_reported(newcomer: InstalledOpm) -> None:
    build(newcomer, CONSTRAINT.format(rule="size(properties) > 0"))
    broken = with_compiler(newcomer, "raise ImportError('no wheel for musl')")
    done = broken.attempt("bundle", "validate", "bundle", "--no-cache")
    assert "cannot check the CEL rule: cel-expr-python cannot be loaded: no wheel" in done.stdout


def test_bundles_without_rules_pass_without_the_cel_compiler(newcomer: InstalledOpm) -> None:
    build(newcomer)
    newcomer("bundle", "validate", "bundle")
