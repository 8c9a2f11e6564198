"""Bases of ClusterServiceVersions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from opmkit.author.project.base import encode_base, new_base, read_base
from opmkit.bundle.errors import InvalidProject

if TYPE_CHECKING:
    from pathlib import Path

CSV = "kind: ClusterServiceVersion\napiVersion: operators.coreos.com/v1alpha1\n"


def write(directory: Path, text: str) -> Path:
    file = directory / "base.yaml"
    file.write_text(text)
    return file


def test_encoding_has_all_required_fields_but_no_status(tmp_path: Path) -> None:
    text = f"{CSV}status: {{phase: Failed}}\nmetadata: {{name: a.v1.0.0, creationTimestamp: null, extra: 1}}\n"
    encoded = encode_base(read_base(write(tmp_path, text)))
    assert yaml.safe_load(encoded) == {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {"name": "a.v1.0.0", "extra": 1},
        "spec": {
            "apiservicedefinitions": {},
            "customresourcedefinitions": {},
            "displayName": "",
            "install": {"spec": {"deployments": None}, "strategy": ""},
            "provider": {},
            "version": "0.0.0",
        },
    }


def test_encoding_retains_cleanup(tmp_path: Path) -> None:
    csv = read_base(write(tmp_path, f"{CSV}spec: {{cleanup: {{enabled: true}}}}\n"))
    assert b"cleanup:\n    enabled: true\n" in encode_base(csv)


def test_new_base_is_read_back(tmp_path: Path) -> None:
    encoded = encode_base(new_base("my-operator"))
    assert encode_base(read_base(write(tmp_path, encoded.decode()))) == encoded


def test_base_is_found_among_other_documents(tmp_path: Path) -> None:
    file = write(tmp_path, f"# comment\n---\nkind: Other\n--- # next\n{CSV}metadata: {{name: a}}\n---\nkind: More\n")
    assert read_base(file)["metadata"] == {"name": "a"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "base.yaml: no ClusterServiceVersion found"),
        ("kind: Deployment\n", "base.yaml: no ClusterServiceVersion found"),
        ("kind: [\n", "base.yaml:2:"),
        (f"{CSV}spec:\n  keywords: x\n", "base.yaml:4:3: spec.keywords is a string, not a list"),
        (f"kind: A\n---\n{CSV}spec: []\n", "base.yaml:5:1: spec is a list, not a mapping"),
        (f"{CSV}metadata:\n  name: []\n", "base.yaml:4:3: metadata.name is a list, not a string"),
        (f"{CSV}spec:\n  version: one\n", "base.yaml:4:3: spec.version "),
        (f"{CSV}spec:\n  customresourcedefinitions:\n    owned:\n    - 3\n",
         "base.yaml:6:7: spec.customresourcedefinitions.owned[0] is a number, not a mapping"),
    ],
)  # fmt: skip
def test_invalid_bases_are_reported_with_their_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidProject) as raised:
        read_base(write(tmp_path, text))
    assert message in raised.value.message
    assert raised.value.hint
