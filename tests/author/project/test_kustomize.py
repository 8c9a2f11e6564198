"""Generation of config/manifests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from opmkit.author.project.base import Maintainer, UserInterfaceMetadata
from opmkit.author.project.kustomize import KustomizeOptions, generate_kustomize_manifests
from opmkit.author.project.project_file import GroupVersionKind, Project
from opmkit.bundle.errors import InvalidProject

GO = Project("my-operator", layout=("go.kubebuilder.io/v4",), resources=(GroupVersionKind("example.com", "v1", "App"),))
HELM = Project("my-operator", layout=("helm.sdk.operatorframework.io/v1",), resources=GO.resources)
BASE = Path("config/manifests/bases/my-operator.clusterserviceversion.yaml")
KUSTOMIZATION = Path("config/manifests/kustomization.yaml")
TYPES = "// +groupName=example.com\npackage v1\n\n// App runs.\ntype App struct {}\n"
OLD_BASE = """\
# Written by hand.
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata:
    name: my-operator.v0.0.0
spec:
    displayName: Mine # really
    vendorField: 1
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("api/v1").mkdir(parents=True)
    Path("api/v1/types.go").write_text(TYPES)


def base(file: Path = BASE) -> Any:
    return yaml.safe_load(file.read_text())


def owned(file: Path = BASE) -> Any:
    return base(file)["spec"]["customresourcedefinitions"].get("owned")


def test_new_project() -> None:
    result = generate_kustomize_manifests(KustomizeOptions(), GO)
    assert result.written == (BASE, KUSTOMIZATION)
    assert not result.warnings
    assert base()["spec"]["displayName"] == "My Operator"
    assert owned() == [
        {"description": "App runs.", "displayName": "App", "kind": "App", "name": "apps.example.com", "version": "v1"}
    ]
    assert "#patches:" in KUSTOMIZATION.read_text()


def test_second_run_changes_nothing() -> None:
    generate_kustomize_manifests(KustomizeOptions(), GO)
    result = generate_kustomize_manifests(KustomizeOptions(), GO)
    assert (result.written, result.unchanged) == ((), (BASE,))


def test_kustomization_has_the_directories_of_the_project() -> None:
    Path("config/samples").mkdir(parents=True)
    generate_kustomize_manifests(KustomizeOptions(), HELM)
    assert yaml.safe_load(KUSTOMIZATION.read_text()) == {
        "resources": ["bases/my-operator.clusterserviceversion.yaml", "../default", "../samples"]
    }
    assert "patches" not in KUSTOMIZATION.read_text()


def test_existing_kustomization_is_retained() -> None:
    KUSTOMIZATION.parent.mkdir(parents=True)
    KUSTOMIZATION.write_text("resources: []\n")
    assert generate_kustomize_manifests(KustomizeOptions(), GO).written == (BASE,)
    assert KUSTOMIZATION.read_text() == "resources: []\n"


def test_fields_of_an_existing_base_are_retained() -> None:
    BASE.parent.mkdir(parents=True)
    BASE.write_text(OLD_BASE)
    generate_kustomize_manifests(KustomizeOptions(), GO)
    spec = base()["spec"]
    assert (spec["displayName"], spec["vendorField"]) == ("Mine", 1)
    assert "maturity" not in spec
    assert [crd["kind"] for crd in owned()] == ["App"]
    assert "# Written by hand." in BASE.read_text()


def test_base_without_changes_retains_its_comments() -> None:
    BASE.parent.mkdir(parents=True)
    BASE.write_text(OLD_BASE)
    assert BASE in generate_kustomize_manifests(KustomizeOptions(), HELM).unchanged
    assert BASE.read_text() == OLD_BASE


def test_placeholder_in_the_name_is_replaced() -> None:
    BASE.parent.mkdir(parents=True)
    BASE.write_text(OLD_BASE.replace("v0.0.0", "vX.Y.Z") + "    version: 1.2.3\n")
    generate_kustomize_manifests(KustomizeOptions(), HELM)
    assert base()["metadata"]["name"] == "my-operator.v1.2.3"


def test_metadata_replaces_fields() -> None:
    metadata = UserInterfaceMetadata(
        "Mine", "Runs apps.", "Me", "", ("app", "run"), (Maintainer("A", "a@example.com"),)
    )
    generate_kustomize_manifests(KustomizeOptions(), HELM, metadata)
    spec = base()["spec"]
    assert spec["displayName"] == "Mine"
    assert spec["description"] == "Runs apps."
    assert spec["provider"] == {"name": "Me"}
    assert spec["keywords"] == ["app", "run"]
    assert spec["maintainers"] == [{"name": "A", "email": "a@example.com"}]


def test_other_directories_and_package_name() -> None:
    Path("in/bases").mkdir(parents=True)
    Path("in/bases/other.clusterserviceversion.yaml").write_text(OLD_BASE)
    Path("api").rename("apis")
    options = KustomizeOptions("other", Path("in"), Path("out"), Path("apis"))
    generate_kustomize_manifests(options, GO)
    target = Path("out/bases/other.clusterserviceversion.yaml")
    assert base(target)["spec"]["displayName"] == "Mine"
    assert len(owned(target)) == 1
    assert Path("in/bases/other.clusterserviceversion.yaml").read_text() == OLD_BASE


def test_missing_types_are_warnings() -> None:
    other = GroupVersionKind("apps", "v1", "Deployment")
    project = Project("my-operator", layout=GO.layout, resources=(other,))
    (warning,) = generate_kustomize_manifests(KustomizeOptions(), project).warnings
    assert warning == "Deployment.v1.apps: no Go type found in api"
    options = KustomizeOptions(apis_directory=Path("none"))
    (warning,) = generate_kustomize_manifests(options, GO).warnings
    assert warning == "none: no such directory: the owned CRDs are not updated"


def test_name_of_the_directory_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "My-Op").mkdir()
    monkeypatch.chdir(tmp_path / "My-Op")
    result = generate_kustomize_manifests(KustomizeOptions(), Project())
    assert result.written[0].name == "my-op.clusterserviceversion.yaml"
    (tmp_path / "my op").mkdir()
    monkeypatch.chdir(tmp_path / "my op")
    with pytest.raises(InvalidProject, match="'my op': invalid package name"):
        generate_kustomize_manifests(KustomizeOptions(), Project())


@pytest.mark.parametrize("name", ["../x", "a/b", ".x", "a\0b"])
def test_names_that_are_no_file_names_are_rejected(name: str) -> None:
    with pytest.raises(InvalidProject, match="invalid package name"):
        generate_kustomize_manifests(KustomizeOptions(), Project(name))
