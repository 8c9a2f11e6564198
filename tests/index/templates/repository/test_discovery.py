"""Finding templates, and the catalogs that are rendered from them."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from opmkit.bundle.validation.openshift import OpenShiftVersion
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.csv_metadata import MigrationLevel
from opmkit.index.templates.render import TemplateType
from opmkit.index.templates.repository import discovery
from opmkit.index.templates.repository.discovery import find_templates
from opmkit.index.templates.repository.plan import CatalogPath, CatalogTarget, FileFormat, Plan, PlanOptions, version_in
from tests.kit.template_repository import basic_template, mapped, semver_template, write_operator

if TYPE_CHECKING:
    from pathlib import Path

IMAGE = "quay.io/example/reef:1.0.0"
BASIC = basic_template({"1.0.0": IMAGE})
SEMVER = semver_template([IMAGE])


def find(root: Path, *paths: Path, **options: Any) -> Plan:
    return find_templates(paths or (root,), PlanOptions(root / "catalogs", **options))


def targets(plan: Plan, root: Path) -> dict[str, list[str]]:
    """Return the catalogs of each template, relative to the output directory; PKG is the package of the catalog."""
    options = PlanOptions(root / "catalogs")
    assert [error.message for error in plan.errors] == []
    return {
        job.path.relative_to(root).as_posix(): [
            f"{(target.path(options, 'PKG') or root).relative_to(options.output_dir)} {target.level}"
            for target in job.targets
        ]
        for job in plan.jobs
    }


def write(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else yaml.safe_dump(value))
    return path


def messages(plan: Plan) -> str:
    return "\n".join(error.message for error in plan.errors)


def test_mapped_templates_are_rendered_to_the_directory_of_the_operator(tmp_path: Path) -> None:
    write_operator(
        tmp_path / "operators" / "lagoon",
        {"basic.yaml": BASIC, "semver.yaml": SEMVER, "unused.yaml": SEMVER},
        [mapped("basic.yaml", "v4.16", "v4.17"), mapped("semver.yaml", "preview", schema="olm.semver")],
    )
    templates = "operators/lagoon/catalog-templates"
    assert targets(find(tmp_path), tmp_path) == {
        f"{templates}/basic.yaml": [
            "v4.16/lagoon/catalog.yaml none",
            "v4.17/lagoon/catalog.yaml bundle-object-to-csv-metadata",
        ],
        f"{templates}/semver.yaml": ["preview/lagoon/catalog.yaml none"],
    }
    only = find(tmp_path, versions=(OpenShiftVersion(4, 17),), level=MigrationLevel.NONE)
    assert targets(only, tmp_path) == {f"{templates}/basic.yaml": ["v4.17/lagoon/catalog.yaml none"]}


def test_catalogs_that_are_not_mapped_any_more_are_a_warning(tmp_path: Path) -> None:
    write_operator(tmp_path / "lagoon", {"a.yaml": BASIC}, [mapped("a.yaml", "v4.16", "v4.17")])
    for path in ("v4.15/lagoon", "v4.16/lagoon", "v4.15/lagoon-2", "v4.14/other/lagoon"):
        (tmp_path / "catalogs" / path).mkdir(parents=True)
    assert find(tmp_path, versions=(OpenShiftVersion(4, 17),)).warnings == [
        f"{tmp_path}/catalogs/v4.15/lagoon: no template is mapped to the catalog v4.15; remove it if it is obsolete"
    ]


@pytest.mark.parametrize(
    ("text", "catalog", "path"),
    [
        ("{{.Catalog}}/{{.Package}}/catalog", "v4.17", "v4.17/reef/catalog.yaml"),
        ("{{.Catalog}}/{{.Package}}/catalog", "", "reef/catalog.yaml"),
        ("{{.Catalog}}/catalog/{{ .Package }}/catalog.json", "v4.17", "v4.17/catalog/reef/catalog.json"),
        ("{{.Package}}-{{.Catalog}}.yml", "v4.17", "reef-v4.17.yml"),
    ],
)
def test_path_templates(text: str, catalog: str, path: str) -> None:
    assert str(CatalogPath.parse(text).path(catalog, "reef", FileFormat.YAML)) == path


@pytest.mark.parametrize("text", ["", "/x", "../x", "a/../../x", "{{.Name}}", "{{.Catalog", "a\nb", "."])
def test_invalid_path_templates(text: str) -> None:
    with pytest.raises(CatalogError, match="invalid path template"):
        CatalogPath.parse(text)


def test_operators_without_file_based_catalogs_are_skipped(tmp_path: Path) -> None:
    directory = write_operator(tmp_path / "lagoon", {"v4.17.yaml": BASIC}, None)
    write(directory / "ci.yaml", {"fbc": {"enabled": False}})
    assert messages(find(tmp_path)) == f"{tmp_path}: no templates found"
    for configuration in ("", "reviewers: [me]\n", "fbc: {enabled: true}\n", "fbc:\n"):
        write(directory / "ci.yaml", configuration)
        assert len(find(tmp_path).jobs) == 1


def test_plain_templates_name_their_version(tmp_path: Path) -> None:
    for name in ("templates/v4.16.yaml", "catalog-template-4-17.yaml", "v4.18/deep/catalog-template.yml"):
        write(tmp_path / name, BASIC)
    write(tmp_path / "v4.19" / "template.json", json.dumps(SEMVER))
    write(tmp_path / "reef.yaml", SEMVER)
    write(tmp_path / ".hidden" / "v4.20.yaml", BASIC)
    write(tmp_path / "catalogs" / "v4.16" / "reef" / "catalog.yaml", BASIC)
    write(tmp_path / "values.yaml", "a: 1\n")
    (tmp_path / "1.0.0" / "metadata").mkdir(parents=True)
    write(tmp_path / "1.0.0" / "manifests" / "v4.17.yaml", BASIC)
    write(tmp_path / "broken.yaml", "a: [\n")
    metadata = "bundle-object-to-csv-metadata"
    expected = {
        "catalog-template-4-17.yaml": [f"v4.17/PKG/catalog.yaml {metadata}"],
        "reef.yaml": ["PKG/catalog.yaml none"],
        "templates/v4.16.yaml": ["v4.16/PKG/catalog.yaml none"],
        "v4.18/deep/catalog-template.yml": [f"v4.18/PKG/catalog.yaml {metadata}"],
        "v4.19/template.json": [f"v4.19/PKG/catalog.yaml {metadata}"],
    }
    assert targets(find(tmp_path), tmp_path) == expected
    assert targets(find(tmp_path, tmp_path / "v4.19" / "template.json"), tmp_path) == {
        "v4.19/template.json": expected["v4.19/template.json"]
    }
    selected = find(tmp_path, versions=(OpenShiftVersion(4, 16), OpenShiftVersion(4, 19)))
    assert targets(selected, tmp_path) == {
        "reef.yaml": ["v4.16/PKG/catalog.yaml none", f"v4.19/PKG/catalog.yaml {metadata}"],
        "templates/v4.16.yaml": expected["templates/v4.16.yaml"],
        "v4.19/template.json": expected["v4.19/template.json"],
    }


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("v4.17", (4, 17)),
        ("4.9", (4, 9)),
        ("lagoon-4-14-template", (4, 14)),
        ("lagoon_v4.20", (4, 20)),
        ("v5.0", (5, 0)),
        ("v1.2", None),
        ("v4.170", None),
        ("lagoon4.17x", None),
        ("stable", None),
    ],
)
def test_versions_in_names(name: str, version: tuple[int, int] | None) -> None:
    assert version_in(name) == version


def test_catalogs_in_the_template_directory_are_copied_or_old_basic_templates(tmp_path: Path) -> None:
    documents = BASIC["entries"]
    templates = tmp_path / "catalog-templates"
    write(templates / "old.yaml", yaml.safe_dump_all(documents))
    rendered = {**documents[2], "name": "reef.v1.0.0", "package": "reef", "properties": [{"type": "x", "value": 1}]}
    write(templates / "raw.yaml", yaml.safe_dump_all([*documents[:2], rendered]))
    write(tmp_path / "catalog.yaml", yaml.safe_dump_all([*documents[:2], rendered]))
    types = {job.path.name: job.type for job in find(tmp_path).jobs}
    assert types == {"old.yaml": TemplateType.BASIC, "raw.yaml": None}
    assert [job.type for job in find(tmp_path, tmp_path / "catalog.yaml").jobs] == [None]


@pytest.mark.parametrize(
    ("fbc", "problem"),
    [
        ("fbc: 1", "ci.yaml:1: fbc is a number, not a mapping"),
        ("[]", "ci.yaml:1: the document is a list, not a mapping"),
        ("fbc: {enabled: maybe}", "ci.yaml:1: fbc.enabled is a string, not a boolean"),
        ("fbc:\n  catalog_mapping: {a: b}", "ci.yaml:2: fbc.catalog_mapping is a mapping, not a list"),
        ("fbc:\n  catalog_mapping:\n  - x", r"ci.yaml:3: fbc.catalog_mapping\[0\] is a string, not a mapping"),
        ("fbc: {catalog_mapping: [{template_name: 1}]}", "template_name is a number, not a string"),
        ("fbc: {catalog_mapping: [{template_name: ../../etc/passwd}]}", "invalid template_name '../../etc/passwd'"),
        ("fbc: {catalog_mapping: [{template_name: a.yaml, type: olm.raw}]}", "unsupported type 'olm.raw'"),
        ("fbc: {catalog_mapping: [{template_name: a.yaml, catalog_names: [../x]}]}", "invalid catalog name '../x'"),
        ("fbc: {catalog_mapping: [{template_name: a.yaml, catalog_names: [4.17]}]}", "invalid catalog name 4.17"),
        ("fbc: {catalog_mapping: [{template_name: a.yaml, catalog_names: [..]}]}", "invalid catalog name '..'"),
        ('fbc: {catalog_mapping: [{template_name: a.yaml, catalog_names: ["a\\nb"]}]}', "invalid catalog name 'a.nb'"),
        (
            "fbc: {catalog_mapping: [{template_name: a.yaml, catalogs_names: [v4.17]}]}",
            "unknown field .*catalogs_names",
        ),
        ("fbc: {catalog_mapping: [{template_name: a.yaml, type: olm.semver}]}", "no catalog_names"),
        ("fbc: {catalog_mapping: [{template_name: a.yaml, type: olm.semver, catalog_names: [x]}]}", "does not exist"),
        ("fbc: [", "invalid YAML"),
        ("fbc: {}\nfbc: {}", "ci.yaml:2: duplicate key 'fbc'"),
    ],
)
def test_invalid_configurations_are_reported_with_lines(tmp_path: Path, fbc: str, problem: str) -> None:
    write(tmp_path / "lagoon" / "ci.yaml", fbc)
    write(tmp_path / "reef.yaml", SEMVER)
    plan = find(tmp_path)
    assert [job.path.name for job in plan.jobs] == ["reef.yaml"]
    with pytest.raises(AssertionError, match=problem):
        raise AssertionError(messages(plan))


def test_links_out_of_the_directory_and_special_files_are_not_read(tmp_path: Path) -> None:
    root = tmp_path / "repository"
    secret = write(tmp_path / "secret.yaml", BASIC)
    directory = write_operator(root / "lagoon", {"own.yaml": BASIC}, [mapped("link.yaml", "v4.17")])
    (directory / "catalog-templates" / "link.yaml").symlink_to(secret)
    (root / "link.yaml").symlink_to(secret)
    (root / "loop").symlink_to(root)
    os.mkfifo(root / "pipe.yaml")
    plan = find(root)
    assert plan.jobs == []
    assert messages(plan).endswith("ci.yaml:3: template link.yaml does not exist in catalog-templates")
    assert "not a regular file" in messages(find(root, root / "pipe.yaml"))
    assert "no such file or directory" in messages(find(root, root / "missing"))


def test_invalid_templates_are_errors_and_do_not_hide_others(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", "schema: olm.semver\nstable: [\n")
    write(tmp_path / "b.yaml", SEMVER)
    write(tmp_path / "note.yaml", "schema: other\n")
    plan = find(tmp_path)
    assert [job.path.name for job in plan.jobs] == ["b.yaml"]
    assert "a.yaml:" in messages(plan)
    assert messages(find(tmp_path, tmp_path / "note.yaml")) == f"{tmp_path}/note.yaml: not a template"


def test_directories_are_nested_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "MAX_DEPTH", 3)
    write(tmp_path / "a" / "b" / "c" / "d" / "v4.17.yaml", BASIC)
    write(tmp_path / "v4.17.yaml", BASIC)
    plan = find(tmp_path)
    assert len(plan.jobs) == 1
    assert "directories are nested too deeply" in messages(plan)


def component(builder: str, config: dict[str, Any], name: str = "v4.17", path: str = "lagoon") -> dict[str, Any]:
    template = {"schema": f"olm.builder.{builder}", "config": config}
    return {"name": name, "destination": {"path": path}, "strategy": {"name": builder, "template": template}}


def composite(root: Path, *components: dict[str, Any]) -> Path:
    builders = [f"olm.builder.{builder}" for builder in ("basic", "semver", "raw", "custom")]
    catalogs = [
        {"name": name, "destination": {"workingDir": f"catalogs/{name}"}, "builders": builders}
        for name in ("v4.16", "v4.17")
    ]
    write(root / "catalogs.yaml", {"schema": "olm.composite.catalogs", "catalogs": catalogs})
    return write(root / "catalog" / "config.yaml", {"schema": "olm.composite", "components": list(components)})


def test_composite_templates_are_relative_to_their_catalogs_file(tmp_path: Path) -> None:
    write(tmp_path / "basic.txt", BASIC)
    config = {"input": "basic.txt", "output": "catalog.json"}
    composite(tmp_path, component("basic", config), component("raw", config, name="v4.16"))
    plan = find(tmp_path)
    assert [(job.path.name, job.type) for job in plan.jobs] == [("basic.txt", TemplateType.BASIC), ("basic.txt", None)]
    assert [job.targets[0].level for job in plan.jobs] == [MigrationLevel.CSV_METADATA, MigrationLevel.NONE]
    target: CatalogTarget = plan.jobs[0].targets[0]
    assert target.path(PlanOptions(tmp_path)) == tmp_path / "catalogs" / "v4.17" / "lagoon" / "catalog.json"
    assert len(find(tmp_path, versions=(OpenShiftVersion(4, 16),)).jobs) == 1


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (component("custom", {"command": "sh", "output": "x"}), "config.yaml:2: refusing to run program 'sh'"),
        (component("basic", {"input": "../secret", "output": "x"}), "'../secret' is not a file below"),
        (component("basic", {"input": "missing", "output": "x"}), "'missing' is not a file below"),
        (component("basic", {"input": "x", "output": "../../../x"}), "refusing to write"),
        (component("basic", {"input": "x", "output": "x"}, name="other"), "catalog 'other' not found"),
    ],
)
def test_invalid_composite_templates(tmp_path: Path, value: dict[str, Any], problem: str) -> None:
    root = tmp_path / "repository"
    write(tmp_path / "secret", BASIC)
    composite(root, value)
    plan = find(root)
    assert plan.jobs == []
    assert problem in messages(plan)


def test_composite_template_needs_one_catalogs_file(tmp_path: Path) -> None:
    composite(tmp_path)
    (tmp_path / "more.yml").write_text((tmp_path / "catalogs.yaml").read_text())
    assert "several catalogs files" in messages(find(tmp_path))
    (tmp_path / "more.yml").unlink()
    (tmp_path / "catalogs.yaml").unlink()
    assert "no file with the schema olm.composite.catalogs" in messages(find(tmp_path))
