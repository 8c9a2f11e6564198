"""Validation of files that are not manifests and directories that are not bundles."""

from __future__ import annotations

import gzip
import os
from typing import TYPE_CHECKING, cast

import pytest

from opmkit.bundle.validation.compat import Compat, Options
from opmkit.bundle.validation.parallel_validator import ValidatorConfig
from opmkit.bundle.validation.profiles import profile_named
from opmkit.bundle.validation.run import ProfileValidator
from opmkit.bundle.validation.sources import Source
from opmkit.bundle.validation.validator import BundleValidator
from opmkit.documents import MAX_BYTES
from tests.kit.broken import BASE
from tests.kit.demo import ANNOTATIONS, CRD, CSV

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from opmkit.bundle.validation.result import ValidationResult
    from opmkit.bundle.validation.sources import GetTool

BOMB = b"a: &a [x, x]\n" + b"".join(
    b"%c: &%c [%s]\n" % (n + 1, n + 1, b", ".join([b"*%c" % n] * 9)) for n in range(97, 117)
)
KIND = b"kind: ConfigMap\n"

# Content in place of the ClusterServiceVersion, and the line that LOAD-DECODE reports.
UNREADABLE = {
    "broken YAML": (b"kind: X\nspec:\n  a: b: c\n", 3),
    "tabs": (b"kind: X\nspec:\n\ta: b\n", 3),
    "broken JSON": (b'{"kind": "X",\n"spec": {]}', 2),
    "cut JSON": (b'{"kind": "ClusterServiceVersion"', 1),
    "list": (b"- kind: ClusterServiceVersion\n", 1),
    "text": (b"ClusterServiceVersion\n", 1),
    "number": (b"1\n", 1),
    "nothing": (b"", 0),
    "separators alone": (b"---\n---\n---\n", 2),
    "no kind": (b"spec: {}\n", 1),
    "kind of a list": (b"kind: [ClusterServiceVersion]\n", 1),
    "value that holds itself": (KIND + b"data: &a {b: [*a]}\n", 2),
    "merge of itself": (KIND + b"data: &a\n  <<: *a\n", 3),
    "unknown alias": (KIND + b"data: *a\n", 2),
    "alias bomb": (KIND + BOMB, 9),
    "deep YAML": (KIND + b"data: " + b"[" * 100_000, 2),
    "deep and whole YAML": (KIND + b"data: " + b"[" * 5_000 + b"]" * 5_000, 2),
    "deep JSON": (b'{"kind": "X", "data": ' + b"[" * 200_000, 0),
    "deep and whole JSON": (b'{"kind": "X", "data": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", 0),
    "latin-1": (KIND + "data: {a: é}\n".encode("latin-1"), 2),
    "UTF-16 without mark": (KIND.decode().encode("utf-16-le"), 1),
    "UTF-32": (KIND.decode().encode("utf-32"), 1),
    "EBCDIC": (KIND.decode().encode("cp037"), 1),
    "PNG": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 1),
    "gzip": (gzip.compress(BASE[CSV]), 1),
    "zeros": (bytes(100_000), 1),
    "long number": (b'{"kind": "X", "data": ' + b"9" * 100_000 + b"}", 0),
}


def validate(root: Path) -> ValidationResult:
    """Validate a directory with the profile ``all``."""
    config = ValidatorConfig(ProfileValidator(profile_named("all")), Compat.OPMKIT, Options())
    validator = BundleValidator(cast("GetTool", None), config)
    (result,) = validator.run([Source(str(root), root)])
    return result


def write_bundle(root: Path, files: Mapping[str, bytes]) -> Path:
    """Write the valid bundle with these files to a directory."""
    for path, raw in {**BASE, **files}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(raw)
    return root


def locate(result: ValidationResult) -> set[tuple[str, str, int]]:
    assert not result.error
    return {(finding.rule, finding.file, finding.line) for finding in result.findings}


@pytest.mark.parametrize("path", [CSV, CRD])
@pytest.mark.parametrize("case", UNREADABLE)
def test_unreadable_manifests(case: str, path: str, tmp_path: Path) -> None:
    raw, line = UNREADABLE[case]
    assert ("LOAD-DECODE", path, line) in locate(validate(write_bundle(tmp_path, {path: raw})))


def test_a_document_with_only_comments_is_an_object_without_kind(tmp_path: Path) -> None:
    assert locate(validate(write_bundle(tmp_path, {"manifests/x.yaml": b"# none\n\n"}))) == {
        ("KIND-UNSUPPORTED", "manifests/x.yaml", 0)
    }


@pytest.mark.parametrize("case", UNREADABLE)
def test_unreadable_annotations(case: str, tmp_path: Path) -> None:
    rules = {rule for rule, _, _ in locate(validate(write_bundle(tmp_path, {ANNOTATIONS: UNREADABLE[case][0]})))}
    assert "FMT-NO-ANNOTATIONS" in rules


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_encodings_of_yaml(encoding: str, tmp_path: Path) -> None:
    files = {path: raw.decode().encode(encoding) for path, raw in BASE.items()}
    result = validate(write_bundle(tmp_path, files))
    assert locate(result) == {("FILE-ENCODING", path, 1) for path in files}
    assert result.findings[0].excerpt == "apiVersion: policy/v1"


def test_an_alias_bomb_below_the_limit(tmp_path: Path) -> None:
    raw = (
        BASE[CSV]
        + b"  bomb: &a [x, x, x, x, x, x, x, x, x, x]\n"
        + b"".join(
            b"  bomb%c: &%c [%s]\n" % (number + 1, number + 1, b", ".join([b"*%c" % number] * 10))
            for number in range(97, 102)
        )
    )
    rules = {rule for rule, _, _ in locate(validate(write_bundle(tmp_path, {CSV: raw})))}
    assert rules == {"CSV-UNKNOWN-FIELD"}


def test_findings_of_one_schema_are_limited(tmp_path: Path) -> None:
    levels = ["&l0 {minimum: 1}"] + [
        f"&l{level} {{type: object, properties: {{{', '.join(f'{name}: *l{level - 1}' for name in 'abcdefgh')}}}}}"
        for level in range(1, 6)
    ]
    schema = b"anchors: [" + ", ".join(levels).encode() + b"]\n"
    raw = schema + BASE[CRD].replace(b"size: {type: integer}", b"size: *l5")
    found = [one.rule for one in validate(write_bundle(tmp_path, {CRD: raw})).findings]
    assert set(found) == {"CRD-STRUCTURAL-TYPE"}
    assert 1_000 < len(found) < 1_100


def test_file_names_that_are_not_utf8(tmp_path: Path) -> None:
    name = os.fsdecode(b"manifests/\xff\n.yaml")
    (finding,) = validate(write_bundle(tmp_path, {name: b"[]"})).findings
    assert (finding.rule, finding.file) == ("LOAD-DECODE", "manifests/\\udcff\n.yaml")


@pytest.mark.parametrize("target", [None, "nowhere", "special.yaml", "/etc/hostname"])
def test_special_files_are_errors(tmp_path: Path, target: str | None) -> None:
    root = write_bundle(tmp_path, {"metadata/dir.yaml/x": b""})
    path = root / "manifests/special.yaml"
    if target is None:
        os.mkfifo(path)
    else:
        path.symlink_to(target)
    assert f"{path}: " in validate(root).error


@pytest.mark.slow
@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "no bundle found"),
        ({"src/main.go": b"package main"}, "no bundle found"),
        ({"manifests/huge.yaml": bytes(MAX_BYTES + 1)}, "huge.yaml is larger than"),
        ({f"manifests/{'x/' * 40}y.yaml": b""}, "path"),
        ({f"manifests/{number}.yaml": b"" for number in range(10_001)}, "exceeds the limit of 10000 entries"),
    ],
)
def test_directories_that_are_not_bundles(files: dict[str, bytes], message: str, tmp_path: Path) -> None:
    for path, raw in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(raw)
    result = validate(tmp_path)
    assert message in result.error
    assert str(result.hint)
    assert not result.findings


def test_a_file_without_read_permission(tmp_path: Path) -> None:
    root = write_bundle(tmp_path, {})
    (root / CRD).chmod(0)
    if os.access(root / CRD, os.R_OK):
        pytest.skip("root can read every file")
    assert CRD in validate(root).error
