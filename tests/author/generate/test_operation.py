"""Writing of bundles: annotations, Dockerfiles, and files that are up to date."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from opmkit.author.generate.bundle import BundleSettings, generate_manifests
from opmkit.author.generate.metadata import BundleLabels, annotations_yaml, dockerfile
from opmkit.author.generate.operation import existing_channels, stage_manifests, stage_metadata
from opmkit.bundle import InvalidBundle
from opmkit.core.errors import DiskError
from opmkit.core.files import write_trees
from opmkit.documents import go_yaml

from .inputs import BASE, CRD, DEPLOYMENT, read

if TYPE_CHECKING:
    from opmkit.author.generate.bundle import GeneratedManifests
    from opmkit.author.generate.operation import StagedFiles, WrittenFiles

PREFIX = "operators.operatorframework.io.bundle."
LABELS = BundleLabels("boat", "alpha")
BUNDLE = Path("bundle")
CSV = BUNDLE / "manifests/boat.clusterserviceversion.yaml"
ANNOTATIONS = BUNDLE / "metadata/annotations.yaml"
EPOCH = "SOURCE_DATE_EPOCH"


@pytest.fixture(autouse=True)
def _working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def generate(version: str = "1.0.0") -> GeneratedManifests:
    return generate_manifests(read(BASE, DEPLOYMENT, CRD), BundleSettings("boat", version))


def write(staged: StagedFiles) -> WrittenFiles:
    write_trees(staged.trees)
    return staged.result


def write_manifests(*arguments: Any) -> WrittenFiles:
    return write(stage_manifests(*arguments))


def write_metadata(*arguments: Any, **options: Any) -> WrittenFiles:
    return write(stage_metadata(*arguments, **options))


def test_unchanged_manifests_are_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(EPOCH, "86400")
    files = (CSV, BUNDLE / "manifests/example.com_boats.yaml")
    assert write_manifests(generate(), BUNDLE).written == files
    assert '    createdAt: "1970-01-02T00:00:00Z"\n' in CSV.read_text()
    monkeypatch.delenv(EPOCH)
    assert write_manifests(generate(), BUNDLE).unchanged == files
    assert write_manifests(generate("1.1.0"), BUNDLE).written == files[:1]
    assert "1970" not in CSV.read_text()
    monkeypatch.setenv(EPOCH, "86400")
    assert write_manifests(generate("1.1.0"), BUNDLE).written == files[:1]


def test_manifests_can_be_transformed() -> None:
    result = write_manifests(generate(), BUNDLE, lambda files: dict.fromkeys(files, b""))
    assert {path.read_bytes() for path in result.written} == {b""}


def test_other_manifests_are_reported() -> None:
    write_manifests(generate(), BUNDLE)
    (CSV.parent / "old.yaml").touch()
    assert write_manifests(generate(), BUNDLE).leftover == (CSV.parent / "old.yaml",)


def test_metadata_depend_on_the_scorecard_configuration() -> None:
    assert write_metadata(LABELS, BUNDLE).written == (Path("bundle.Dockerfile"), ANNOTATIONS)
    assert "scorecard" not in ANNOTATIONS.read_text() + Path("bundle.Dockerfile").read_text()
    (BUNDLE / "tests/scorecard").mkdir(parents=True)
    (BUNDLE / "tests/scorecard/config.yaml").touch()
    write_metadata(LABELS, BUNDLE)
    assert "COPY bundle/tests/scorecard /tests/scorecard/\n" in Path("bundle.Dockerfile").read_text()
    assert "operators.operatorframework.io.test.config.v1: tests/scorecard/\n" in ANNOTATIONS.read_text()


def test_other_annotations_are_retained() -> None:
    write_metadata(LABELS, BUNDLE)
    text = ANNOTATIONS.read_text() + "  com.redhat.openshift.versions: v4.12  # and later\n"
    ANNOTATIONS.write_text(text)
    assert ANNOTATIONS in write_metadata(LABELS, BUNDLE).unchanged
    assert ANNOTATIONS.read_text() == text
    assert "com.redhat.openshift.versions" not in Path("bundle.Dockerfile").read_text()
    write_metadata(BundleLabels("boat", "beta,alpha", "beta", "go"), BUNDLE)
    annotations = go_yaml.load(ANNOTATIONS.read_bytes())
    assert isinstance(annotations, dict)
    assert isinstance(annotations["annotations"], dict)
    assert annotations["annotations"]["com.redhat.openshift.versions"] == "v4.12"
    assert existing_channels(BUNDLE) == ("beta,alpha", "beta")
    write_metadata(LABELS, BUNDLE)
    assert existing_channels(BUNDLE) == ("alpha", "")


def test_duplicate_annotations_are_merged() -> None:
    write_metadata(LABELS, BUNDLE)
    lines = ANNOTATIONS.read_text().count("\n")
    with ANNOTATIONS.open("a") as file:
        file.write("  team: red\n  team: blue\n  team: green\n")
    warned = write_metadata(LABELS, BUNDLE)
    assert warned.warnings == tuple(
        f"bundle/metadata/annotations.yaml:{lines + number}: duplicate key 'team': retained the last value"
        for number in (2, 3)
    )
    assert ANNOTATIONS.read_text().endswith("\n\n  # Other annotations.\n  team: green\n")
    assert not write_metadata(LABELS, BUNDLE).warnings


def test_other_annotations_can_be_dropped() -> None:
    write_metadata(LABELS, BUNDLE)
    text = ANNOTATIONS.read_text()
    ANNOTATIONS.write_text(f"{text}  team: red\n  team: blue\n")
    assert not write_metadata(LABELS, BUNDLE, retain=False).warnings
    assert ANNOTATIONS.read_text() == text


def test_existing_metadata_can_be_left() -> None:
    write_metadata(LABELS, BUNDLE)
    Path("bundle.Dockerfile").unlink()
    assert write_metadata(BundleLabels("boat", "beta"), BUNDLE, overwrite=False).unchanged == (ANNOTATIONS,)
    assert not Path("bundle.Dockerfile").exists()


def test_values_are_quoted() -> None:
    labels = BundleLabels("boat", "a b,$x", others={"k": 'v"'})
    assert f'LABEL {PREFIX}channels.v1="a b,\\$x"\n' in dockerfile(labels, "my dir")
    assert 'COPY ["my dir/manifests", "/manifests/"]\n' in dockerfile(labels, "my dir")
    assert go_yaml.load(annotations_yaml(labels).encode()) == {"annotations": labels.all()}
    with pytest.raises(InvalidBundle, match="control characters"):
        write_metadata(BundleLabels("boat", "a\nUSER root"), BUNDLE)


def test_invalid_annotations_are_not_replaced() -> None:
    ANNOTATIONS.parent.mkdir(parents=True)
    ANNOTATIONS.write_text("a: b: c")
    with pytest.raises(InvalidBundle, match=r"annotations.yaml:1"):
        write_metadata(LABELS, BUNDLE)


def test_unwritable_directories() -> None:
    BUNDLE.touch()
    with pytest.raises(DiskError, match="bundle"):
        write_manifests(generate(), BUNDLE)


@pytest.mark.parametrize("name", ["manifests", "metadata"])
def test_nothing_is_written_through_links_out_of_the_bundle(name: str, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    BUNDLE.mkdir()
    (BUNDLE / name).symlink_to("../outside")
    write = {
        "manifests": lambda: write_manifests(generate(), BUNDLE),
        "metadata": lambda: write_metadata(LABELS, BUNDLE),
    }
    with pytest.raises((DiskError, InvalidBundle), match=f"{name}: refusing to follow a symbolic link"):
        write[name]()
    assert not list((tmp_path / "outside").iterdir())
