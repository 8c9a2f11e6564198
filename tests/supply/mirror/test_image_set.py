"""Parsing of an ImageSetConfiguration: both versions, and messages with file and line for what is not mirrored."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from opmkit.core.errors import DiskError
from opmkit.supply.mirror.catalog import CatalogSelection
from opmkit.supply.mirror.image_set import BlockedImages, ImageSet, InvalidImageSet

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "apiVersion: mirror.openshift.io/{}\nkind: ImageSetConfiguration\n"
HEX = "ab" * 32


def parse(mirror: str, version: str = "v2alpha1") -> ImageSet:
    """Parse a configuration whose ``mirror`` begins in line 3."""
    return ImageSet.parse(f"{HEAD.format(version)}{mirror}".encode(), "set.yaml")


def operator(*lines: str) -> str:
    """Return the content of ``mirror`` with one catalog in line 5."""
    return "mirror:\n  operators:\n  - catalog: quay.io/me/catalog:1\n" + "".join(f"    {line}\n" for line in lines)


def chart(first: str, *lines: str) -> str:
    """Return the content of ``mirror`` with one chart in line 6."""
    return f"mirror:\n  helm:\n    local:\n    - {first}\n" + "".join(f"      {line}\n" for line in lines)


def test_catalogs_and_images_get_their_names_in_the_target() -> None:
    found = parse(f"""\
mirror:
  operators:
  - catalog: docker://quay.io/me/catalog:1
    full: true
  - catalog: quay.io/me/catalog:2
    targetCatalog: mine/all
    targetTag: v2
    packages:
    - name: dock
  - catalog: quay.io/me/other@sha256:{HEX}
    targetCatalog: mine/other
  - catalog: oci:///srv/Catalogs/tide
  additionalImages:
  - name: quay.io/me/tool
  - name: quay.io/me/tool:1@sha256:{HEX}
    targetRepo: tools/tool
  - name: quay.io/me/tool@sha256:{HEX}
    targetTag: two
  blockedImages:
  - name: .*old.*
""")
    assert [(entry.index, str(entry.name or ""), entry.tag) for entry in found.catalogs] == [
        ("quay.io/me/catalog:1", "", "1"),
        ("quay.io/me/catalog:2", "quay.io/mine/all", "v2"),
        (f"quay.io/me/other@sha256:{HEX}", "quay.io/mine/other", ""),
        ("oci:/srv/Catalogs/tide", "localhost/tide", "latest"),
    ]
    assert [entry.selection is None for entry in found.catalogs] == [True, False, False, False]
    assert [(str(image.reference), str(image.name or ""), image.tag) for image in found.images] == [
        ("quay.io/me/tool:latest", "", ""),
        (f"quay.io/me/tool:1@sha256:{HEX}", "quay.io/tools/tool", ""),
        (f"quay.io/me/tool:1@sha256:{HEX}", "quay.io/tools/tool", "1"),
        (f"quay.io/me/tool@sha256:{HEX}", "", ""),
        (f"quay.io/me/tool@sha256:{HEX}", "", "two"),
    ]
    assert found.images[1].needed_by == ("additionalImages of set.yaml:17",)
    assert found.blocked == BlockedImages((".*old.*",))
    selections = dict(found.selections(CatalogSelection(binary_image="scratch")))
    assert {selection.binary_image for selection in selections.values()} == {"scratch"}


def test_old_version_has_its_own_keys() -> None:
    found = parse(
        "storageConfig:\n  local: {path: /srv}\narchiveSize: 4\n"
        + operator("targetName: mine", "targetTag: '3'", "skipDependencies: true"),
        "v1alpha2",
    )
    assert str(found.catalogs[0].name) == "quay.io/me/mine"
    assert found.warnings == (
        "set.yaml:3: storageConfig has no effect: the target is the only state",
        "set.yaml:5: archiveSize has no effect: archives are not split",
    )
    with pytest.raises(InvalidImageSet, match=r"set\.yaml:6: .*targetName is an unknown key"):
        parse(operator("targetName: mine"))


@pytest.mark.parametrize(
    ("mirror", "message", "hint"),
    [
        (
            operator("package: []"),
            "set.yaml:6: mirror.operators[0].package is an unknown key",
            "did you mean packages?",
        ),
        (operator("packages: [{nam: x}]"), "set.yaml:6: mirror.operators[0].packages[0].nam is an unknown", "did you"),
        (operator("packages: {name: x}"), "set.yaml:6: mirror.operators[0].packages is \"{'name': 'x'}\"", "dash"),
        (operator("packages: [x]"), "set.yaml:6: mirror.operators[0].packages[0] is 'x', not a mapping", "keys"),
        (operator("packages: [{channels: []}]"), "mirror.operators[0].packages[0] has no name", "add name"),
        (operator("full: 'yes'"), "set.yaml:6: mirror.operators[0].full is 'yes', not a boolean", "true or false"),
        (operator("packages: [{name: x, minVersion: 1.2}]"), "minVersion is 1.2, not a string", "quotes"),
        (operator("packages: [{name: x, minVersion: new}]"), "minVersion is not a version such as", "1.2.3"),
        (operator("packages: [{name: x}, {name: x}]"), "packages[1] is a duplicate of package x", "merge"),
        (operator("packages:", "- name: x", "  channels: [{name: a}, {name: a}]"), "set.yaml:8: ", "merge"),
        (operator("packages: [{name: x, bundles: [{name: b}], selectedBundles: []}]"), "same as bundles", "keep one"),
        (operator("packages: [{name: x, minBundle: b}]"), "minBundle is an unknown key", "did you mean"),
        (operator("targetCatalog: ../../etc"), "targetCatalog is not a valid repository: '../../etc'", "lower case"),
        (operator("targetCatalog: a/b:1"), "targetCatalog is not a valid repository", "no tag"),
        (operator("targetTag: ../x"), "targetTag is not a valid image", ""),
        (operator("platforms: [{os: linux}]"), "platforms is unsupported", "select the platforms"),
        ("mirror:\n  operators:\n  - catalog: 'oci://'\n", "catalog has no directory", "oci://DIR"),
        ("mirror:\n  operators:\n  - catalog: oci:///\n", "is not a valid repository", "set targetCatalog"),
        ("mirror:\n  operators:\n  - catalog: Q/UP:1\n", "set.yaml:5: mirror.operators[0].catalog is not a valid", ""),
        (
            operator() + "  - catalog: quay.io/me/catalog:1\n",
            "operators[1] is a duplicate of catalog me/catalog:1",
            "merge",
        ),
        ("mirror:\n  platform:\n    graph: true\n", "set.yaml:4: mirror.platform cannot be mirrored", "oc adm release"),
        (chart("name: x"), "set.yaml:6: mirror.helm.local[0] has no path", "add path"),
        (chart("path: x", "platforms: [{os: linux}]"), "set.yaml:7: mirror.helm.local[0].platforms is unsup", "select"),
        (chart("path: x", "paths: []"), "set.yaml:7: mirror.helm.local[0].paths is an unknown key", "did you mean"),
        (chart("path: x", "imagePaths: '{.a}'"), "set.yaml:7: mirror.helm.local[0].imagePaths is '{.a}', not", "dash"),
        (chart("path: x", "imagePaths:", "- {.a: }"), "set.yaml:8: mirror.helm.local[0].imagePaths[0] is", "quotes"),
        (
            chart("path: x", "imagePaths:", "- '{.a}'", "- '{.a[?(@.b)]}'"),
            "set.yaml:9: mirror.helm.local[0].imagePaths[1] is not a supported JSONPath: "
            "'[?(@.b)]' is not a field, wildcard or index: '{.a[?(@.b)]}'",
            "in braces, such as '{.spec.images[*].name}'",
        ),
        (
            "mirror:\n  helm:\n    repositories: [{name: x}]\n",
            "set.yaml:5: mirror.helm.repositories is unsupported",
            "download the charts with 'helm pull', and list the files under mirror.helm.local",
        ),
        ("mirror:\n  samples: [{name: x}]\n", "mirror.samples cannot be mirrored", "additionalImages"),
        ("mirror:\n  platforms: []\n", "mirror.platforms is an unknown key", "did you mean platform"),
        ("mirror: {}\n", "mirror has nothing to mirror", "add operators"),
        ("mirror:\n", "mirror is None, not a mapping", "keys"),
        ("delete: {}\n", "delete is an unknown key", "use one of"),
        ("archiveSize: 4\n", "the document has no mirror", "add mirror"),
        ("mirror:\n  additionalImages: [{name: 'oci:///srv/image'}]\n", "is a directory", "copy the image"),
        ("mirror:\n  additionalImages: [{name: x, targetRepo: /x}]\n", "targetRepo is not a valid", "lower case"),
        ("mirror:\n  additionalImages: [quay.io/x]\n", "additionalImages[0] is 'quay.io/x', not a mapping", ""),
        ("mirror:\n  blockedImages: [{name: '(a'}]\n", "is not a valid regular expression", "escape"),
        ("mirror:\n  blockedImages: [{name: '(?=a)'}]\n", "is an unsupported regular expression", "groups"),
        ("mirror:\n  blockedImages: [{name: '((a{9}){99}){99}'}]\n", "regular expression: too large", "fewer"),
        (f"mirror:\n  blockedImages: [{{name: '{'a' * 2001}'}}]\n", "regular expression: too large", "several"),
        (f"mirror:\n  blockedImages: [{{name: '{'a' * 2000}'}}, {{}}]\n", "blockedImages[1] has no name", ""),
        ("mirror:\n  blockedImages: [{name: '(?x)a'}]\n", "unsupported regular expression: flags", "no flag but i"),
        ("mirror: {}\nmirror: {}\n", "set.yaml:4:1: duplicate key 'mirror'", "each setting once"),
        ("mirror: {}\n---\nmirror: {}\n", "several documents", "into one YAML document"),
        ("mirror: [\n", "set.yaml:", ""),
        ("mirror: " + "[" * 5000 + "\n", "set.yaml", ""),
    ],
)
def test_mistakes_are_reported_with_file_and_line(mirror: str, message: str, hint: str) -> None:
    with pytest.raises(InvalidImageSet) as caught:
        parse(mirror)
    assert message in caught.value.message
    assert hint in str(caught.value.hint)


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ("kind: DeleteImageSet\n", "kind is 'DeleteImageSet', not ImageSetConfiguration"),
        ("kind: ImageSetConfiguration\n", "apiVersion is unsupported: None"),
        ("kind: ImageSetConfiguration\napiVersion: mirror.openshift.io/v1alpha1\n", "set.yaml:2: apiVersion"),
        ("- 1\n", "the document is not a mapping"),
        ("", "set.yaml"),
        ("\x00", "set.yaml"),
    ],
)
def test_kind_and_version_are_checked(head: str, message: str) -> None:
    with pytest.raises(InvalidImageSet, match=re.escape(message)):
        ImageSet.parse(head.encode(), "set.yaml")


def test_charts_have_paths_of_images() -> None:
    found = parse(chart("path: charts/tide-1.0.0.tgz", "imagePaths: ['{.spec.image}', '{..tool}']", "platforms: []"))
    (tide,) = found.charts
    assert (tide.name, tide.path, tide.location) == ("charts/tide-1.0.0.tgz", "charts/tide-1.0.0.tgz", "set.yaml:6")
    assert [path.text for path in tide.image_paths] == ["{.spec.image}", "{..tool}"]
    (tide,) = parse(chart("name: tide", "path: ./tide", "version: 1.0.0"), "v1alpha2").charts
    assert str(tide) == "helm chart tide of set.yaml:6"
    assert parse(chart("path: ./tide", "version: 1.0.0")).warnings == (
        "set.yaml:7: version has no effect: the chart at path is used",
    )


def test_empty_sections_of_what_is_not_mirrored_are_accepted() -> None:
    assert len(parse(operator() + "  helm: {}\n  platform:\n  samples: []\n").catalogs) == 1


def test_file_is_read_up_to_a_limit(tmp_path: Path) -> None:
    with pytest.raises(DiskError):
        ImageSet.read(tmp_path / "absent.yaml")
    with pytest.raises(DiskError):
        ImageSet.read(tmp_path)
    path = tmp_path / "set.yaml"
    path.write_text(HEAD.format("v2alpha1") + operator())
    assert ImageSet.read(path).file == str(path)


@pytest.mark.parametrize(
    "pattern", [".*", "(a|b)?c+", "[)(+*]+x", r"\(a+\)+", "^quay.io/(?:me|you)/.*$", "(?:ab)+", "a{2,3}", "(ab)+"]
)
def test_usual_patterns_are_accepted(pattern: str) -> None:
    set_ = parse(operator() + f"  blockedImages:\n  - name: '{pattern}'\n")
    assert set_.blocked.patterns == (pattern,)


def test_patterns_match_any_part_of_the_source_or_the_target() -> None:
    blocked = BlockedImages(("/fish", "^quay.io/me/kelp:1$"))
    assert blocked.matches("quay.io/team/fish:1", "")
    assert blocked.matches("x", "registry.example.com/mirror/fish:1")
    assert blocked.matches("quay.io/me/kelp:1", "")
    assert not blocked.matches("quay.io/me/kelp:11", "registry.example.com/me/kelp:11")


DELETE = "apiVersion: mirror.openshift.io/v2alpha1\nkind: DeleteImageSetConfiguration\n"


def test_images_to_delete() -> None:
    operators = "operators: [{catalog: quay.io/o/c:1, packages: [{name: a}]}]"
    text = f"delete: {{{operators}, additionalImages: [{{name: quay.io/o/i}}]}}"
    read = ImageSet.parse((DELETE + text).encode(), "delete.yaml")
    assert (read.is_deletion, [entry.index for entry in read.catalogs]) == (True, ["quay.io/o/c:1"])
    assert [str(request.reference) for request in read.images] == ["quay.io/o/i:latest"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mirror: {operators: []}", "delete.yaml:3: mirror is an unknown key"),
        ("{}", "delete.yaml"),
        ("delete: {}", "delete.yaml:3: delete has nothing to delete"),
        ("delete: {blockedImages: [{name: x}]}", "delete.yaml:3: delete.blockedImages is an unknown key"),
        ("delete: {platform: {graph: true}}", "delete.yaml:3: delete.platform cannot be mirrored"),
    ],
)
def test_images_to_delete_are_checked(text: str, message: str) -> None:
    with pytest.raises(InvalidImageSet, match=re.escape(message)):
        ImageSet.parse((DELETE + text).encode(), "delete.yaml")


def test_all_mistakes_are_reported_at_once() -> None:
    with pytest.raises(InvalidImageSet) as caught:
        parse(
            operator("packages:", "- name: x", "  minVersion: new", "- {channels: []}", "full: 'yes'")
            + "  - catalog: quay.io/me/other:1\n    package: []\n    targetTag: ../x\n"
            + "  additionalImages: [{name: Q/UP}]\n  blockedImages: [{name: '['}]\n  samples: [{name: x}]\n"
        )
    lines = [line.partition(" ")[0] for line in caught.value.lines]
    assert lines == [f"set.yaml:{number}:" for number in (8, 9, 10, 12, 13, 14, 15, 16)]
    assert caught.value.line == 8


def test_many_mistakes_are_counted() -> None:
    with pytest.raises(InvalidImageSet) as caught:
        parse("mirror:\n  additionalImages:\n" + "  - {}\n" * 150)
    assert len(caught.value.lines) == 102
    assert caught.value.lines[-1] == "and 49 more errors"
