"""External validators."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.validation.external import (
    ExternalValidatorError,
    bundle_directory,
    run_external_validators,
)


def program(directory: Path, code: str) -> str:
    """Write an executable Python program and return its path."""
    path = directory / "check"
    path.write_text(f"#!{sys.executable}\nimport json, sys\n{code}\n")
    path.chmod(0o755)
    return str(path)


def test_findings_of_programs(tmp_path: Path) -> None:
    result = """{
        "Name": sys.argv[1],
        "Errors": [{"Type": "ParseError", "Level": "Error", "Field": "spec.x", "BadValue": 7, "Detail": "too low"}],
        "warnings": [{"Detail": "odd", "BadValue": "y"}, {"Type": "ValidationFailed"}, {}],
    }"""
    first = program(tmp_path, f"print(json.dumps({result}))")
    findings = run_external_validators([first, first], Path("demo"))
    assert findings[:4] == (
        Finding("spec.x: too low", subject="spec.x", rule="EXTERNAL", validator="check"),
        Finding("odd", subject="y", severity=Severity.WARNING, rule="EXTERNAL", validator="check"),
        Finding("ValidationFailed", severity=Severity.WARNING, rule="EXTERNAL", validator="check"),
        Finding("no message", severity=Severity.WARNING, rule="EXTERNAL", validator="check"),
    )
    assert findings[4:] == findings[:4]


def test_a_program_gets_the_directory(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    code = 'print(json.dumps({"Name": "", "Errors": [{"Detail": repr(sys.argv[1:])}], "Warnings": None}))'
    (finding,) = run_external_validators([program(tmp_path, code)], tmp_path / "a b")
    assert finding.message == repr([str(tmp_path / "a b")])


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("sys.exit(3)", "exited with code 3"),
        ("", "invalid result"),
        ("print('[]')", "invalid result: not a JSON object"),
        ("print('{} {}')", "invalid result"),
        ("print('{\"Problems\": []}')", "unknown field 'Problems'"),
        ("print('{\"Errors\": [1]}')", "invalid entry in errors: not a JSON object"),
        ('print(\'{"Errors": [{"Line": 1}]}\')', "unknown field 'Line'"),
    ],
)
def test_failures_of_programs(code: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ExternalValidatorError, match=message) as raised:
        run_external_validators([program(tmp_path, code)], tmp_path)
    assert raised.value.hint


@pytest.mark.parametrize("name", ["", "gone", "plain"])
def test_programs_that_cannot_be_run(name: str, tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("not executable")
    with pytest.raises(ExternalValidatorError, match="cannot be run"):
        run_external_validators([str(tmp_path / name)], tmp_path)


def test_files_of_an_image_are_written_below_a_temporary_directory(tmp_path: Path) -> None:
    files = {"manifests/a.yaml": b"a", f"../{tmp_path.name}-outside": b"b", "/etc/opm-outside": b"c"}
    with bundle_directory("quay.io/me/demo:1", files) as directory:
        assert [path.relative_to(directory).as_posix() for path in directory.rglob("*.yaml")] == ["manifests/a.yaml"]
        assert not (directory.parent / f"{tmp_path.name}-outside").exists()
    assert not directory.exists()
    assert not Path("/etc/opm-outside").exists()
    with bundle_directory(tmp_path, files) as directory:
        assert directory == tmp_path
