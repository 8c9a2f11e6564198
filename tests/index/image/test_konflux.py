"""The checks of Konflux's task validate-fbc."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from opmkit import CatalogError, IndexRequirements, Opm
from opmkit.bundle.finding import Severity
from opmkit.bundle.policy import CatalogSettings, Policy
from opmkit.core.errors import LimitExceeded
from opmkit.index.image.konflux import BASE_REPOSITORIES, BaseImage, CatalogVersion
from tests.kit.bundles import push_image
from tests.kit.images import directory, member, symlink
from tests.kit.konflux import (
    BASE_4,
    BASE_NAME,
    METADATA,
    OBJECT,
    VARIANTS,
    VERSION_LABEL,
    Variant,
    catalog,
)

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit import CatalogResult

KONFLUX = IndexRequirements(profile="konflux")


def validate(tmp_path: Path, variant: Variant, policy: Policy | None = None) -> CatalogResult:
    name = push_image(f"oci:{tmp_path}/layout:1", variant.build(tmp_path))
    return Opm(store=tmp_path / "store").validate_index(name, KONFLUX, policy=policy)


@pytest.mark.parametrize("name", VARIANTS)
def test_rules_of_errors(name: str, tmp_path: Path) -> None:
    result = validate(tmp_path, VARIANTS[name])
    assert {finding.rule for finding in result.errors} == VARIANTS[name].rules
    for finding in result.findings:
        if finding.rule.startswith("KONFLUX-"):
            assert finding.hint.endswith(".") or ": " in finding.hint
            has_place = finding.rule in {"KONFLUX-METADATA-FORMAT", "KONFLUX-DIGEST", "KONFLUX-REGISTRY"}
            assert bool(finding.location) == has_place


def test_findings_have_file_and_line(tmp_path: Path) -> None:
    files = {"reef/catalog.json": catalog([METADATA], [OBJECT], image="quay.io/a/b:1")}
    result = validate(tmp_path, Variant(files=files))
    assert [(str(finding.location), finding.rule) for finding in result.findings] == [
        ("reef/catalog.json:3", "KONFLUX-DIGEST"),
        ("reef/catalog.json:3", "KONFLUX-REGISTRY"),
        ("reef/catalog.json:4", "KONFLUX-METADATA-FORMAT"),
        ("reef/catalog.json:4", "KONFLUX-METADATA-FORMAT"),
        ("reef/catalog.json:4", "KONFLUX-DIGEST"),
        ("reef/catalog.json:4", "KONFLUX-REGISTRY"),
    ]
    unsupported, required = (str(finding) for finding in result.findings[2:4])
    assert unsupported.endswith("OpenShift v4.17 does not support the property olm.bundle.object")
    assert required.endswith("OpenShift v4.17 requires the property olm.csv.metadata")


@pytest.mark.parametrize(
    ("labels", "base"), [({VERSION_LABEL: '["v4.17"]'}, f"{BASE_4}:v4.17"), ({}, f"{BASE_4}:latest")]
)
def test_unchecked_metadata_is_a_warning(labels: dict[str, str], base: str, tmp_path: Path) -> None:
    (finding,) = validate(tmp_path, Variant(labels=labels, base=base)).findings
    assert (finding.rule, finding.severity) == ("KONFLUX-UNKNOWN-VERSION", Severity.WARNING)


@pytest.mark.parametrize("repository", BASE_REPOSITORIES)
def test_allowed_base_images(repository: str) -> None:
    for name in (f"{repository}:v4.17", repository, f"{repository}@sha256:{'a' * 64}"):
        assert list(BaseImage(name).check()) == []
    for name in (
        f"{repository}x:v4.17",
        f"x/{repository}",
        f"{repository}:a:b",
        f"{repository}@a@b",
        f"{repository}:a b",
    ):
        assert list(BaseImage(name).check())


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("v4.16", OBJECT),
        ("v4.17", METADATA),
        ("4.20", METADATA),
        ("v5.0", METADATA),
        ("v3.99", OBJECT),
        ("5", METADATA),
        ("v5", ""),
        ("v4.17-1", ""),
        ("v08.1", OBJECT),
        ("v4.08", OBJECT),
        ("v5.08", METADATA),
        ("v4.021", METADATA),
        ("v", ""),
        ("_4.17", ""),
        ("v4.٤", ""),
    ],
)
def test_versions_of_tags(tag: str, expected: str) -> None:
    assert CatalogVersion.from_tag(tag) == CatalogVersion(tag, expected)
    assert CatalogVersion.from_tag("4." + "9" * 19).problem


@pytest.mark.parametrize(
    "label",
    [
        "[" * 100_000,
        '["4.17"',
        '{"4.17": 1}',
        "[[]]",
        '[["4.17"]]',
        '["vv4.17"]',
        '["4.17\\u0000"]',
        '["\\ud800"]',
        "[NaN]",
        "[true]",
        '["4.١٧"]',
        '[" "]',
        f"[{'9' * 10_000}]",
    ],
)
def test_hostile_labels_are_errors(label: str, tmp_path: Path) -> None:
    (finding,) = validate(tmp_path, Variant(labels={VERSION_LABEL: label})).findings
    assert finding.rule == "KONFLUX-OPENSHIFT-VERSION"


@pytest.mark.parametrize(
    "label",
    ["/../etc", "/configs/../../etc", "../configs", "/", "", "/.", "/configs\0", "/con figs", "/configs\n", "$HOME"],
)
def test_hostile_paths_are_errors(label: str, tmp_path: Path) -> None:
    (finding,) = validate(tmp_path, Variant(configs=label)).findings
    assert finding.rule == "KONFLUX-CONFIGS"


@pytest.mark.parametrize(
    "entries",
    [
        (symlink("configs", "/etc"),),
        (symlink("configs", "../../../../../../etc"),),
        (member("configs", b"x"),),
        (symlink("configs", "configs"),),
    ],
)
def test_hostile_directories_are_errors(entries: tuple, tmp_path: Path) -> None:  # type: ignore[type-arg]
    (finding,) = validate(tmp_path, Variant(top=(entries,))).findings
    assert finding.rule == "KONFLUX-CONFIGS"


def test_links_are_no_package_directories(tmp_path: Path) -> None:
    links = (symlink("configs/kelp", "../../../../etc"), symlink("configs/weed", "reef"))
    assert validate(tmp_path, Variant(top=(links,))).findings == ()
    names = (directory("configs/a\nb"), member("configs/a\nb/c.json"))
    assert {finding.rule for finding in validate(tmp_path, Variant(top=(names,))).errors} == {
        "KONFLUX-PACKAGE-DIRECTORY"
    }


def peak_memory(directory: Path, files: int) -> int:
    """Return the bytes that Python holds at most while it validates an image with this number of further files."""
    directory.mkdir()
    many = tuple(member(f"data/{number}") for number in range(files))
    name = push_image(f"oci:{directory}/layout:1", Variant(top=(many,)).build(directory))
    tracemalloc.start()
    try:
        assert Opm(store=directory / "store").validate_index(name, KONFLUX).passed
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_huge_lists_of_files_are_bounded(tmp_path: Path) -> None:
    few, many = peak_memory(tmp_path / "few", 1), peak_memory(tmp_path / "many", 20_000)
    assert many < few + (1 << 20)
    probes = tuple(member(f"{number}/grpc_health_probe") for number in range(101))
    with pytest.raises(LimitExceeded, match="more than 100 files are named grpc_health_probe"):
        validate(tmp_path, Variant(top=(probes,)))


def test_annotations_of_other_lines_are_ambiguous(tmp_path: Path) -> None:
    result = validate(tmp_path, Variant(annotations={"note": f"a\n{BASE_NAME}=quay.io/a/b:v4.17"}))
    assert "KONFLUX-BASE-IMAGE" in {finding.rule for finding in result.errors}


def test_last_amd64_image_counts(tmp_path: Path) -> None:
    variant = Variant(platforms=("linux/arm64", "linux/amd64"))
    assert validate(tmp_path, variant).passed


def test_content_of_directories_is_checked(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    api = Opm(store=tmp_path / "store")
    (tmp_path / "catalog/reef").mkdir(parents=True)
    (tmp_path / "catalog/kelp").mkdir()
    (tmp_path / "catalog/reef/catalog.json").write_bytes(catalog([OBJECT], image="quay.io/a/b:1"))
    result = api.validate_index(str(tmp_path / "catalog"), KONFLUX)
    assert [finding.rule.removeprefix("KONFLUX-") for finding in result.findings] == [
        "PACKAGE-DIRECTORY",
        "DIGEST",
        "REGISTRY",
    ]
    assert "its base image, labels and grpc_health_probe are not checked" in caplog.text
    result = api.validate_index(str(tmp_path / "catalog"), replace(KONFLUX, openshift_version="4.17"))
    assert "GATE-METADATA-FORMAT" in {finding.rule for finding in result.findings}


def test_databases_are_errors(tmp_path: Path) -> None:
    (tmp_path / "index.db").write_bytes(b"")
    with pytest.raises(CatalogError, match="unsupported: it is an index database"):
        Opm().validate_index(str(tmp_path / "index.db"), KONFLUX)
    with pytest.raises(CatalogError, match='unknown profile "x"'):
        Opm().validate_index(str(tmp_path), IndexRequirements(profile="x"))


def test_policy_sets_the_profile_and_allows_findings(tmp_path: Path) -> None:
    files = {"reef/catalog.json": catalog([METADATA], image="quay.io/a/b:1")}
    name = push_image(f"oci:{tmp_path}/layout:1", Variant(files=files).build(tmp_path))
    policy = Policy(catalog=CatalogSettings(profile="konflux"))
    api = Opm(store=tmp_path / "store")
    assert len(api.validate_index(name, policy=policy).errors) == 2
    result = api.validate_index(name, policy=policy.with_ignored(["KONFLUX-DIGEST"], ["KONFLUX-DIGEST"]))
    assert [finding.rule for finding in result.errors] == ["KONFLUX-REGISTRY"]
    assert json.loads(json.dumps(result.to_sarif()))["runs"][0]["results"]
    assert api.validate_index(name).passed
