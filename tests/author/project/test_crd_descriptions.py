"""Descriptions of owned CRDs from Go types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from opmkit.author.project import crd_descriptions
from opmkit.author.project.crd_descriptions import CrdDescription, describe_apis, merge_owned
from opmkit.author.project.go_source import load_packages
from opmkit.author.project.project_file import GroupVersionKind
from opmkit.bundle.errors import InvalidProject

if TYPE_CHECKING:
    from pathlib import Path

APP = GroupVersionKind("example.com", "v1", "App")
MARKER = "// +operator-sdk:csv:customresourcedefinitions:"
SPEC = f"{MARKER}type=spec"
API = """\
// +groupName=example.com
package v1

{comment}
type App struct {{
	Spec   AppSpec   `json:"spec"`
	Status AppStatus `json:"status"`
}}

type AppSpec struct {{
{spec}
}}

type AppStatus struct {{
{status}
}}

{types}
"""


def write_go(directory: Path, text: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / f"file{len(list(directory.iterdir()))}.go"
    file.write_text(text)
    return file


def describe(directory: Path, *, comment: str = "", spec: str = "", status: str = "", types: str = "") -> Any:
    write_go(directory / "v1", API.format(comment=comment, spec=spec, status=status, types=types))
    description = describe_apis(load_packages(directory), [APP])[APP]
    assert description is not None
    return description.value


def paths(value: Any) -> list[str]:
    return [descriptor["path"] for descriptor in value["specDescriptors"]]


def test_minimal_type(tmp_path: Path) -> None:
    assert describe(tmp_path) == {"displayName": "App", "kind": "App", "name": "apps.example.com", "version": "v1"}


def test_comment_and_markers_of_the_type(tmp_path: Path) -> None:
    comment = f"""// App runs.
// +kubebuilder:resource:path=applications,scope=Cluster
{MARKER}displayName="My App",resources={{{{Service,v1,b}},{{Pod,v1beta1,a}},{{Pod,v1,a}}}}
{MARKER}resources={{{{Job," v1 "}}}}"""
    assert describe(tmp_path, comment=comment) == {
        "description": "App runs.",
        "displayName": "My App",
        "kind": "App",
        "name": "applications.example.com",
        "resources": [
            {"kind": "Job", "name": "", "version": "v1"},
            {"kind": "Pod", "name": "a", "version": "v1"},
            {"kind": "Pod", "name": "a", "version": "v1beta1"},
            {"kind": "Service", "name": "b", "version": "v1"},
        ],
        "version": "v1",
    }


def test_descriptors(tmp_path: Path) -> None:
    spec = f"""
	// Size of it.
	{SPEC},displayName="Number",xDescriptors="urn:a"
	{SPEC},displayName="ignored",xDescriptors={{"urn:b","urn:c"}}
	Size int `json:"size"`
	{MARKER}type=status
	Other int `json:"other"`
	Unmarked int `json:"unmarked"`"""
    value = describe(tmp_path, spec=spec, status=f"{MARKER}type=status\nReadyReplicas int")
    assert value["specDescriptors"] == [
        {
            "description": "Size of it.",
            "displayName": "Number",
            "path": "size",
            "x-descriptors": ["urn:a", "urn:b", "urn:c"],
        }
    ]
    assert value["statusDescriptors"] == [{"displayName": "Ready Replicas", "path": "ReadyReplicas"}]


def test_order_of_descriptors(tmp_path: Path) -> None:
    spec = "\n".join(
        f'{SPEC}{order}\nF{name} int `json:"{name}"`'
        for name, order in (("d", ""), ("c", ""), ("b", ",order=2"), ("a", ",order=2"), ("e", ",order=1"))
    )
    assert paths(describe(tmp_path, spec=spec)) == ["e", "a", "b", "c", "d"]


def test_paths_of_nested_fields(tmp_path: Path) -> None:
    spec = f"""
	{SPEC}
	Items []Item `json:"items"`
	{SPEC}
	Base `json:",inline"`
	Inline Base2 `json:",inline"`
	Named map[string]*Item `json:"named"`
	Hidden Item `json:"-"`
	Dash Item `json:"-,"`
	private Item"""
    types = f"""
type Item struct {{
	{SPEC}
	Name string `json:"name"`
}}
type Base struct {{
	{SPEC}
	B string `json:"b"`
}}
type Base2 struct {{
	{SPEC}
	C string `json:"c"`
}}"""
    assert paths(describe(tmp_path, spec=spec, types=types)) == [
        "-.name",
        "b",
        "c",
        "items",
        "items[0].name",
        "named.name",
    ]


def test_types_in_other_files_and_packages(tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text("module example.com/op\n")
    write_go(tmp_path / "api" / "common", f'package common\ntype Shared struct {{\n{SPEC}\nA string `json:"a"`\n}}')
    write_go(
        tmp_path / "api" / "v1",
        f'package v1\nimport alias "example.com/op/api/common"\n'
        f'type Local struct {{\n{SPEC}\nB string `json:"b"`\nS alias.Shared `json:"s"`\n}}',
    )
    spec = 'Local Local `json:"local"`\nPod corev1.Local `json:"pod"`'
    assert paths(describe(tmp_path / "api", spec=spec)) == ["local.b", "local.s.a"]


def test_recursive_types_end_at_their_repetition(tmp_path: Path) -> None:
    types = f'type Node struct {{\n{SPEC}\nName string `json:"name"`\nNext *Node `json:"next"`\n}}'
    assert paths(describe(tmp_path, spec='Node Node `json:"node"`', types=types)) == ["node.name"]


def test_exploding_types_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crd_descriptions, "MAX_FIELDS", 1000)
    types = "\n".join(f"type T{n} struct {{ A, B T{n + 1} }}" for n in range(40))
    with pytest.raises(InvalidProject, match=r"v1/file0\.go: more than 1000 fields below Spec"):
        describe(tmp_path, spec="T T0", types=types)


def test_resources_without_version_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(InvalidProject, match=r"file0\.go: type App: invalid marker .*: \['Pod'\] has no version"):
        describe(tmp_path, comment=f"{MARKER}resources={{{{Pod}}}}")


def test_types_without_spec_have_no_descriptors(tmp_path: Path) -> None:
    write_go(tmp_path / "v1", "// +groupName=example.com\npackage v1\n\n// App.\ntype App struct{}\n")
    description = describe_apis(load_packages(tmp_path), [APP])[APP]
    assert description is not None
    assert "specDescriptors" not in description.value


def test_unknown_apis_have_no_description(tmp_path: Path) -> None:
    api = GroupVersionKind("apps", "v1", "Deployment")
    assert describe_apis(load_packages(tmp_path), [api]) == {api: None}


def describe_order(name: str, order: float, version: str = "v1") -> CrdDescription:
    api = GroupVersionKind("example.com", version, "App")
    return CrdDescription(api, {"name": name, "kind": "App", "version": version}, order)


def test_owned_crds_are_merged() -> None:
    inf = float("inf")
    owned: list[Any] = [
        {"name": "others.example.com", "version": "v1", "kind": "Other"},
        {"name": "apps.example.com", "version": "v1", "kind": "App", "description": "old"},
        {"name": "more.example.com", "version": "v1", "kind": "More"},
        "not a mapping",
    ]
    new = [
        describe_order("b.example.com", inf, "v1alpha1"),
        describe_order("b.example.com", inf, "v2"),
        describe_order("a.example.com", inf, "v1"),
        describe_order("apps.example.com", 1),
    ]
    merged: list[Any] = merge_owned(owned, new)
    assert [(item["name"], item["version"]) if isinstance(item, dict) else item for item in merged] == [
        ("others.example.com", "v1"),
        ("apps.example.com", "v1"),
        ("more.example.com", "v1"),
        "not a mapping",
        ("a.example.com", "v1"),
        ("b.example.com", "v2"),
        ("b.example.com", "v1alpha1"),
    ]
    assert "description" not in merged[1]
