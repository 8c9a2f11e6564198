"""The PROJECT file of operator projects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opmkit.author.project.project_file import GroupVersionKind, OperatorType, Project, read_project
from opmkit.bundle.errors import InvalidProject

if TYPE_CHECKING:
    from pathlib import Path

PROJECT = """\
domain: example.com
layout:
- go.kubebuilder.io/v4
multigroup: true
plugins:
  manifests.sdk.operatorframework.io/v2: {}
projectName: harbor-operator
repo: example.com/harbor-operator
resources:
- api:
    crdVersion: v1
  domain: example.com
  group: ships
  kind: Harbor
  version: v1
- group: old
  kind: Dock
  version: v1
- core: true
  group: apps
  kind: Deployment
  version: v1
- external: true
  group: certificates
  kind: Certificate
  version: v1
version: "3"
"""


def read(directory: Path, content: str) -> Project:
    (directory / "PROJECT").write_text(content)
    return read_project(directory)


def test_name_layout_and_resources_are_read(tmp_path: Path) -> None:
    assert read(tmp_path, PROJECT) == Project(
        name="harbor-operator",
        domain="example.com",
        layout=("go.kubebuilder.io/v4",),
        multigroup=True,
        resources=(GroupVersionKind("ships.example.com", "v1", "Harbor"), GroupVersionKind("old", "v1", "Dock")),
        plugins=frozenset({"manifests.sdk.operatorframework.io/v2"}),
    )


@pytest.mark.parametrize(
    ("layout", "kind"),
    [
        ("go.kubebuilder.io/v3", OperatorType.GO),
        ("[helm.sdk.operatorframework.io/v1]", OperatorType.HELM),
        ("[kustomize.common.kubebuilder.io/v1, ansible.sdk.operatorframework.io/v1]", OperatorType.ANSIBLE),
        ("[quarkus.javaoperatorsdk.io/v1-beta]", OperatorType.UNKNOWN),
        ("[]", OperatorType.UNKNOWN),
    ],
)
def test_operator_type_follows_the_layout(tmp_path: Path, layout: str, kind: OperatorType) -> None:
    assert read(tmp_path, f'version: "3"\nlayout: {layout}\n').operator_type is kind


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("version: [\n", "PROJECT:2:1: "),
        ("- 1\n", "PROJECT:1:1: the document is a list, not a mapping"),
        ("projectName: x\n", 'PROJECT:1:1: version is not "3"'),
        ('a: 1\nversion: "2"\n', 'PROJECT:2:1: version is not "3"'),
        ('version: "3"\nprojectName: 7\n', "PROJECT:2:1: projectName is a number, not a string"),
        ('version: "3"\nmultigroup: "no"\n', "PROJECT:2:1: multigroup is a string, not a boolean"),
        ('version: "3"\nlayout: {}\n', "PROJECT:2:1: layout is a mapping, not a list"),
        ('version: "3"\nlayout:\n- 1\n', "PROJECT:3:3: layout[0] is a number, not a string"),
        ('version: "3"\nresources:\n- kind: [x]\n', "PROJECT:3:3: resources[0].kind is a list, not a string"),
        ('version: "3"\nresources:\n- x\n', "PROJECT:3:3: resources[0] is a string, not a mapping"),
        ('version: "3"\nplugins: 3\n', "PROJECT:2:1: plugins is a number, not a mapping"),
    ],
)
def test_invalid_files_are_reported_with_their_line(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(InvalidProject) as raised:
        read(tmp_path, content)
    assert message in raised.value.message
    assert raised.value.hint


def test_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InvalidProject, match="PROJECT: no such file"):
        read_project(tmp_path)
