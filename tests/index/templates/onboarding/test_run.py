"""Operator directories are onboarded from one catalog after the other; problems of one do not stop the others."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from opmkit.bundle.validation.openshift import OpenShiftVersion
from opmkit.core.errors import OpmkitError
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.write import sort_blobs, to_yaml
from opmkit.index.templates.onboarding.run import (
    OnboardingOptions,
    default_catalogs,
    onboard,
    parse_catalogs,
)
from tests.index.templates.samples import catalog, render, render_images
from tests.kit.template_repository import mapped, tree

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit.index.templates.onboarding.result import Onboarding

V16, V17 = OpenShiftVersion(4, 16), OpenShiftVersion(4, 17)


def publish(root: Path, version: str, *versions: str) -> str:
    """Write a catalog with the package ``reef``, and return its path."""
    path = root / "published" / version
    path.mkdir(parents=True)
    entries = [
        {"schema": "olm.bundle", "image": f"quay.io/example/reef:{document['name'].removeprefix('reef.v')}"}
        if document["schema"] == "olm.bundle"
        else document
        for document in catalog(*versions)
    ]
    blobs = render({"schema": "olm.template.basic", "entries": entries})
    (path / "catalog.yaml").write_bytes(to_yaml(sort_blobs(blobs)))
    return str(path)


def operator(root: Path, name: str, ci: Any = None, packages: tuple[str, ...] = ()) -> Path:
    directory = root / "operators" / name
    directory.mkdir(parents=True)
    (directory / "ci.yaml").write_text(yaml.safe_dump(ci or {"reviewers": ["me"]}))
    for number, package in enumerate(packages):
        (directory / f"{number}.0.0" / "manifests").mkdir(parents=True)
        (directory / f"{number}.0.0" / "metadata").mkdir()
        annotations = {"annotations": {"operators.operatorframework.io.bundle.package.v1": package}}
        (directory / f"{number}.0.0" / "metadata" / "annotations.yaml").write_text(yaml.safe_dump(annotations))
    return directory


def no_tool() -> Any:
    raise AssertionError("no image is read")


def run(path: Path, *catalogs: str, **options: bool) -> Onboarding:
    return onboard(no_tool, path, OnboardingOptions(catalogs, **options), render_images)


def test_versions_with_the_same_content_share_a_template(tmp_path: Path) -> None:
    directory = operator(tmp_path, "reef")
    catalogs = [publish(tmp_path, "v4.16", "1.0.0"), publish(tmp_path, "v4.15", "1.0.0")]
    result = run(directory, *catalogs)
    (done,) = result.operators
    assert (done.status.value, done.versions, done.problems) == ("written", "v4.15-v4.16", ())
    assert [(template.name, template.catalogs) for template in done.templates] == [("basic.yaml", ("v4.15", "v4.16"))]
    assert json.loads(json.dumps(result.to_dict())) == result.to_dict()
    assert not result.needs_person
    (again,) = run(directory, *catalogs, check=True).operators
    assert (again.status.value, again.problems, again.files) == ("onboarded", (), ())


def test_check_of_existing_templates_names_catalogs_that_differ(tmp_path: Path) -> None:
    directory = operator(tmp_path, "reef")
    older, newer = publish(tmp_path, "v4.15", "1.0.0"), publish(tmp_path, "v4.16", "1.0.0", "1.1.0")
    run(directory, older)
    before = tree(directory)
    (unmapped,) = run(directory, older, newer, check=True).operators
    assert unmapped.problems == (
        "v4.16: published, but not in the catalog_mapping (add it to the mapping of a template)",
    )
    (changed,) = run(directory, f"v4.15={newer}", check=True).operators
    assert changed.problems[0].startswith("v4.15: the rendered catalog differs from the published one: ")
    assert [each.catalog for each in changed.differences] == ["v4.15"]
    empty = tmp_path / "empty"
    empty.mkdir()
    (gone,) = run(directory, f"v4.15={empty}", check=True).operators
    assert gone.problems == ("in the catalog_mapping, but not published: v4.15",)
    assert tree(directory) == before


def test_package_is_that_of_the_bundles(tmp_path: Path) -> None:
    published = publish(tmp_path, "v4.16", "1.0.0")
    (done,) = run(operator(tmp_path, "lagoon", packages=("reef", "reef")), published).operators
    assert (done.package, done.status.value) == ("reef", "written")


@pytest.mark.parametrize(
    ("ci", "packages", "problem"),
    [
        ({"fbc": {"catalog_mapping": [mapped("a.yaml", "v4.16", schema="olm.composite")]}}, (), "unsupported type"),
        ({"fbc": 1}, (), "fbc is"),
        (None, ("reef", "kelp"), "the bundles belong to several packages: kelp, reef"),
        (None, ("kelp",), "not published in any of the catalogs"),
    ],
)
def test_operator_that_needs_a_person_is_not_written(
    tmp_path: Path, ci: Any, packages: tuple[str, ...], problem: str
) -> None:
    directory = operator(tmp_path, "reef", ci, packages)
    before = tree(directory)
    (failed,) = run(directory, publish(tmp_path, "v4.16", "1.0.0")).operators
    assert failed.status.value == "failed"
    assert problem in failed.problems[0]
    assert tree(directory) == before


def test_operators_that_share_a_package_need_a_person(tmp_path: Path) -> None:
    for name in ("reef", "reef-2"):
        operator(tmp_path, name, packages=("reef",))
    operators = run(tmp_path, publish(tmp_path, "v4.16", "1.0.0")).operators
    assert [each.problems for each in operators] == [
        ("package reef also belongs to reef-2",),
        ("package reef also belongs to reef",),
    ]
    assert [each.status.value for each in operators] == ["failed", "failed"]


def test_disabled_catalogs_are_not_onboarded(tmp_path: Path) -> None:
    ci = {"fbc": {"enabled": False, "catalog_mapping": [mapped("old.yaml", "v4.10")]}}
    directory = operator(tmp_path, "reef", ci)
    (done,) = run(directory, publish(tmp_path, "v4.16", "1.0.0")).operators
    assert done.status.value == "written"
    assert yaml.safe_load((directory / "ci.yaml").read_text())["fbc"] == {
        "enabled": True,
        "catalog_mapping": [mapped("basic.yaml", "v4.16")],
    }


def test_names_of_catalogs_contain_the_version_or_are_preceded_by_it() -> None:
    assert parse_catalogs(["quay.io/me/index:v4.16", "4.17=./catalog"]) == {
        V16: "quay.io/me/index:v4.16",
        V17: "./catalog",
    }
    assert parse_catalogs(["/a=b/v4.16"]) == {V16: "/a=b/v4.16"}
    for invalid in (["./catalog"], ["v4.16="], ["x:v4.16", "v4.16=y"], ["quay.io/me/index:latest"]):
        with pytest.raises(CatalogError) as raised:
            parse_catalogs(invalid)
        assert raised.value.hint


@pytest.mark.parametrize(
    ("config", "versions"),
    [
        (None, ["v4.16"]),
        ({}, ["v4.16"]),
        ({"index_image": 1}, ["v4.16"]),
        ({"index_image": {"public_repository_mirror": 1}}, ["v4.16"]),
        ({"index_image": {"public_repository_mirror": "quay.io/me/index"}}, ["other"]),
        ([], ["v4.16"]),
    ],
)
def test_repository_without_index_images_is_an_error(tmp_path: Path, config: Any, versions: list[str]) -> None:
    directory = operator(tmp_path, "reef")
    if config is not None:
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    for version in versions:
        (tmp_path / "catalogs" / version).mkdir(parents=True)
    with pytest.raises(OpmkitError) as raised:
        default_catalogs(directory)
    assert raised.value.hint


def test_default_catalogs_are_the_index_images_of_the_repository(tmp_path: Path) -> None:
    directory = operator(tmp_path, "reef")
    images = {"repository": "quay.io/me/private", "public_repository_mirror": "quay.io/me/index"}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"index_image": images}))
    for version in ("v4.16", "v4.17", "x"):
        (tmp_path / "catalogs" / version).mkdir(parents=True)
    assert default_catalogs(directory) == {V16: "quay.io/me/index:v4.16", V17: "quay.io/me/index:v4.17"}
