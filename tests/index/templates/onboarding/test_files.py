"""Templates, ``ci.yaml`` and ``Makefile`` of an operator: all are written or none, and other content is retained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from opmkit.bundle.validation.openshift import OpenShiftVersion
from opmkit.core.errors import DiskError, OpmkitError
from opmkit.index.errors import CatalogError
from opmkit.index.templates.ci_config import read_catalog_mapping
from opmkit.index.templates.onboarding.derive import PlannedTemplate
from opmkit.index.templates.onboarding.files import edit_config, plan_files, write_onboarding
from opmkit.index.templates.render import TemplateType
from tests.kit.template_repository import tree

if TYPE_CHECKING:
    from pathlib import Path

MAPPING: list[Any] = [{"template_name": "basic.yaml", "catalog_names": ["v4.12"], "type": "olm.template.basic"}]
FBC = {"enabled": True, "catalog_mapping": MAPPING}
BASIC = PlannedTemplate("basic.yaml", TemplateType.BASIC, b"---\nbasic\n", (OpenShiftVersion(4, 12),))
SEMVER = PlannedTemplate(
    "v4.13.yaml", TemplateType.SEMVER, b"---\nsemver\n", (OpenShiftVersion(4, 13), OpenShiftVersion(4, 14))
)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "---\nfbc:\n  catalog_mapping:\n  - catalog_names:\n    - v4.12\n"),
        ("---\n# nothing yet\n", "---\n# nothing yet\nfbc:\n"),
        (
            "---\n# Use `replaces-mode` or `semver-mode`. There is no way back.\nupdateGraph: replaces-mode\n"
            "# Reviewers\nreviewers:\n  - me  # the author\n",
            "---\n# Reviewers\nreviewers:\n  - me  # the author\nfbc:\n",
        ),
        ("# license\n\nupdateGraph: semver-mode\nreviewers: [me]\n", "# license\n\nreviewers: [me]\nfbc:\n"),
        ("# license\nupdateGraph: semver-mode # graph\n\n# last", "fbc:\n  enabled: true\n"),
        ("reviewers:\r\n- me\r\n", "fbc:\r\n  enabled: true\r\n"),
        ("addReviewers: true\nmerge: false\nzone: 1\n", "addReviewers: true\nfbc:\n"),
        ("reviewers: [me]\nfbc:\n  enabled: false\n", "reviewers: [me]\nfbc:\n  catalog_mapping:\n"),
        ("reviewers: [me]\nfbc:\n", "reviewers: [me]\nfbc:\n  enabled: true\n"),
        ("fbc: {}\n", "fbc:\n  enabled: true\n"),
        (
            "fbc:\n  catalog_mapping:\n  - {template_name: x.yaml, catalog_names: [v4.1], type: olm.semver}\n# end\n",
            "fbc:\n  catalog_mapping:\n",
        ),
        ('{"reviewers": ["me"], "updateGraph": "semver-mode"}', '{"reviewers": ["me"], "fbc": {'),
    ],
)
def test_config_is_edited_and_retains_everything_else(before: str, after: str) -> None:
    result = edit_config(before.encode(), "ci.yaml", MAPPING).decode()
    assert result.startswith(after)
    loaded, old = yaml.safe_load(result), yaml.safe_load(before) or {}
    old.pop("updateGraph", None)
    assert loaded == {**old, "fbc": FBC}
    assert "-mode" not in result
    for comment in ("# the author", "# license", "# nothing yet", "# end"):
        assert (comment in result) is (comment in before)


@pytest.mark.parametrize(
    "before", ["- a\n", "text", "{}\n", "a: 1\na: 2\n", "a: [\n", "a: 1\n---\nb: 2\n", "fbc: [1]\n"]
)
def test_config_that_cannot_be_edited_is_an_error_with_a_hint(before: str) -> None:
    with pytest.raises(OpmkitError, match=r"^ci\.yaml") as raised:
        edit_config(before.encode(), "ci.yaml", MAPPING)
    assert raised.value.hint


def test_new_operator_gets_templates_config_and_makefile(tmp_path: Path) -> None:
    files = plan_files(tmp_path, [BASIC, SEMVER])
    assert [file.path for file in files][-1] == "ci.yaml"
    assert tree(tmp_path) == {}
    write_onboarding(tmp_path, files)
    written = tree(tmp_path)
    assert written["catalog-templates/basic.yaml"] == BASIC.content
    assert b"catalogs:" in written["Makefile"]
    mapped = read_catalog_mapping(tmp_path / "ci.yaml")
    assert [(each.name, each.type.value, tuple(dict(each.catalogs))) for each in mapped.templates] == [
        ("basic.yaml", "basic", ("v4.12",)),
        ("v4.13.yaml", "semver", ("v4.13", "v4.14")),
    ]
    again = plan_files(tmp_path, [BASIC, SEMVER])
    assert not any(file.is_changed for file in again)


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("Makefile", "all:\n\ttrue\n", "all:\n\ttrue\n\n# The catalogs"),
        ("GNUmakefile", "all:", "all:\n\n# The catalogs"),
        ("Makefile", "catalogs: x\n\ttrue\n", None),
        ("makefile", "a:\ncatalogs : x\n", None),
        ("Makefile", "catalogs := 1\n", "catalogs := 1\n\n# The catalogs"),
    ],
)
def test_makefile_is_extended_unless_it_has_the_target(
    tmp_path: Path, name: str, content: str, expected: str | None
) -> None:
    (tmp_path / name).write_text(content)
    write_onboarding(tmp_path, plan_files(tmp_path, [BASIC]))
    text = (tmp_path / name).read_text()
    assert text == content if expected is None else text.startswith(expected)
    assert len([path for path in tree(tmp_path) if path.lower().endswith("makefile")]) == 1


def test_other_templates_are_not_replaced_without_force(tmp_path: Path) -> None:
    template = tmp_path / "catalog-templates" / "basic.yaml"
    template.parent.mkdir()
    template.write_text("mine")
    with pytest.raises(CatalogError, match=r"basic\.yaml: already exists with other content"):
        plan_files(tmp_path, [BASIC])
    write_onboarding(tmp_path, plan_files(tmp_path, [BASIC], force=True))
    assert template.read_bytes() == BASIC.content


@pytest.mark.parametrize("name", ["ci.yaml", "Makefile", "catalog-templates", "catalog-templates/basic.yaml"])
@pytest.mark.parametrize("force", [False, True])
def test_symbolic_links_are_refused(tmp_path: Path, name: str, force: bool) -> None:
    outside, operator = tmp_path / "outside", tmp_path / "operator"
    (operator / "catalog-templates").mkdir(parents=True)
    if name == "catalog-templates":
        (operator / name).rmdir()
        outside.mkdir()
    else:
        outside.write_bytes(BASIC.content)
    (operator / name).symlink_to(outside)
    with pytest.raises(DiskError, match="refusing to follow a symbolic link"):
        plan_files(operator, [BASIC], force=force)


def test_directory_in_the_place_of_a_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "Makefile").mkdir()
    with pytest.raises(DiskError):
        plan_files(tmp_path, [BASIC])
    assert list(tmp_path.iterdir()) == [tmp_path / "Makefile"]


def test_file_that_changes_in_the_meantime_stops_all(tmp_path: Path) -> None:
    files = plan_files(tmp_path, [BASIC])
    (tmp_path / "ci.yaml").write_text("reviewers: [me]\n")
    with pytest.raises(CatalogError, match=r"ci\.yaml: changed by another program"):
        write_onboarding(tmp_path, files)
    assert tree(tmp_path) == {"ci.yaml": b"reviewers: [me]\n"}


def test_file_in_the_place_of_the_templates_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "catalog-templates").write_text("a file")
    with pytest.raises(OpmkitError) as raised:
        write_onboarding(tmp_path, plan_files(tmp_path, [BASIC]))
    assert raised.value.message
    assert tree(tmp_path) == {"catalog-templates": b"a file"}
