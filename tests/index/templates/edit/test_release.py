"""Releases of a bundle to the templates in its release configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opmkit.index.templates.edit.release import plan_release, read_release_config
from opmkit.index.templates.edit.template import TemplateBundle
from tests.index.templates.samples import bundle

from .samples import BASIC, failure, no_render, result
from .test_semver import SEMVER

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit.index.templates.edit.release import ReleasePlan


def operator(root: Path, config: str) -> Path:
    """Write an operator with two templates; return the directory of its version 1.3.0."""
    (root / "catalog-templates").mkdir()
    (root / "catalog-templates" / "basic.yaml").write_text(BASIC)
    (root / "catalog-templates" / "semver.yaml").write_text(SEMVER)
    (root / "1.3.0").mkdir()
    (root / "1.3.0" / "release-config.yaml").write_text(config)
    return root / "1.3.0"


def plan(directory: Path) -> ReleasePlan:
    return plan_release(directory, TemplateBundle.from_blob(bundle("1.3.0")), no_render)


def test_edges_of_the_configuration_are_used(tmp_path: Path) -> None:
    config = (
        "---\nmerge: false\ncatalog_templates:\n- template_name: basic.yaml\n  channels: [candidate]\n"
        "  replaces: reef.v1.1.0\n  skips: [reef.v1.2.0]\n  skipRange: '>=1.0.0 <1.3.0'\n"
    )
    ((name, path),) = plan(operator(tmp_path, config)).paths.items()
    edit = plan(tmp_path / "1.3.0").edit(name, path.read_bytes())
    assert [str(change) for change in edit.changes] == [
        "channel candidate: reef.v1.3.0 added (replaces reef.v1.1.0; skips reef.v1.2.0; skipRange >=1.0.0 <1.3.0)",
        "bundles: quay.io/example/reef:1.3.0 added",
    ]


def test_edges_are_rejected_in_semver_templates(tmp_path: Path) -> None:
    config = "catalog_templates:\n- {template_name: semver.yaml, channels: [Fast], replaces: reef.v1.2.0}\n"
    ((name, path),) = plan(operator(tmp_path, config)).paths.items()
    assert "unsupported: replaces in a template of type semver" in failure(
        lambda: plan(tmp_path / "1.3.0").edit(name, path.read_bytes())
    )


HEAD = "catalog_templates:\n- template_name: "


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ("", "empty document"),
        ("[]\n", "1: the document is a list, not a mapping"),
        ("merge: true\n", "1: catalog_templates is missing or empty"),
        ("catalog_templates: x\n", "1: catalog_templates is a string, not a list"),
        ("catalog_templates:\n- x\n", "2: catalog_templates[0] is a string, not a mapping"),
        ("catalog_templates:\n- template_name: a.yaml\n", "2: template_name and channels are required"),
        ("catalog_templates:\n- template_name: ../a\n  channels: [a]\n", "2: invalid template_name '../a'"),
        (
            "catalog_templates:\n- template_name: a\n  channels: [1]\n",
            "3: catalog_templates[0].channels[0] is a number",
        ),
        (
            "catalog_templates:\n- template_name: a\n  channels: [a]\n  defaultChannel: b\n",
            "4: defaultChannel 'b' is not one of the channels: a",
        ),
        ("a: [\n", "invalid YAML or JSON"),
    ],
)
def test_invalid_configurations_are_located(config: str, expected: str, tmp_path: Path) -> None:
    directory = operator(tmp_path, config)
    message = failure(lambda: read_release_config(directory / "release-config.yaml"))
    assert expected in message
    assert message.startswith(f"{directory}/release-config.yaml")


def test_unknown_fields_are_warnings(tmp_path: Path) -> None:
    config = "catalog_templates:\n- {template_name: basic.yaml, channels: [candidate], skip: x}\n"
    (warning,) = plan(operator(tmp_path, config)).warnings
    assert "release-config.yaml:2: unknown field catalog_templates[0].skip" in warning


def test_the_default_channel_is_that_of_new_templates(tmp_path: Path) -> None:
    entries = "".join(
        f"- {{template_name: {name}.yaml, channels: [stable, candidate], defaultChannel: candidate}}\n"
        for name in ("new", "basic")
    )
    directory = operator(tmp_path, f"catalog_templates:\n{entries}")
    mapping = "fbc: {catalog_mapping: [{template_name: new.yaml, type: olm.template.basic, catalog_names: [v4.20]}]}\n"
    (tmp_path / "ci.yaml").write_text(mapping)
    found = plan(directory)
    new, existing = (
        result(found.edit(name, path.read_bytes() if path.exists() else b"")) for name, path in found.paths.items()
    )
    assert "  defaultChannel: candidate\n" in new
    assert "  defaultChannel: candidate\n" not in existing


def test_templates_that_do_not_exist_must_be_mapped(tmp_path: Path) -> None:
    config = "catalog_templates:\n- {template_name: new.yaml, channels: [a]}\n"
    directory = operator(tmp_path, config)
    assert "release-config.yaml:2: template " in failure(lambda: plan(directory))
    mapping = "fbc:\n  catalog_mapping:\n  - {template_name: new.yaml, type: TYPE, catalog_names: [v4.20]}\n"
    (tmp_path / "ci.yaml").write_text(mapping.replace("TYPE", "olm.template.substitutes"))
    assert "does not exist, and ci.yaml does not give its type" in failure(lambda: plan(directory))
    (tmp_path / "ci.yaml").write_text(mapping.replace("TYPE", "olm.template.basic"))
    ((name, path),) = plan(directory).paths.items()
    edit = plan(directory).edit(name, b"")
    assert result(edit).startswith("---\nschema: olm.template.basic\nentries:\n- schema: olm.package\n  name: reef\n")
    assert not path.exists()
    (tmp_path / "ci.yaml").write_text("fbc: [\n")
    assert f"{tmp_path}/ci.yaml" in failure(lambda: plan(directory))
