"""Generation of annotations and Dockerfiles."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from opmkit.bundle import InvalidBundle
from opmkit.bundle.generate import AnnotationsInput, annotations_yaml, bundle_annotations, generate
from opmkit.core.errors import DiskError
from opmkit.documents import go_yaml
from tests.bundle.samples import FIXTURE, LABEL, crd, csv

if TYPE_CHECKING:
    from collections.abc import Mapping

GIVEN = AnnotationsInput("op", "alpha,beta", "beta")
DOCKERFILE = f"""\
FROM scratch

LABEL {LABEL}mediatype.v1=registry+v1
LABEL {LABEL}manifests.v1=manifests/
LABEL {LABEL}metadata.v1=metadata/
LABEL {LABEL}package.v1=op
LABEL {LABEL}channels.v1=alpha,beta
LABEL {LABEL}channel.default.v1=beta

COPY op/manifests /manifests/
COPY op/metadata /metadata/
"""
ANNOTATIONS = f"""\
annotations:
  {LABEL}channel.default.v1: beta
  {LABEL}channels.v1: alpha,beta
  {LABEL}manifests.v1: manifests/
  {LABEL}mediatype.v1: registry+v1
  {LABEL}metadata.v1: metadata/
  {LABEL}package.v1: op
"""


@pytest.fixture
def manifests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory of manifests, ``op/manifests`` in the working directory."""
    monkeypatch.chdir(tmp_path)
    directory = Path("op/manifests")
    directory.mkdir(parents=True)
    (directory / "op.csv.yaml").write_bytes(csv())
    return directory


def file_texts(directory: Path = Path()) -> dict[str, str]:
    return {path.relative_to(directory).as_posix(): path.read_text() for path in directory.rglob("*") if path.is_file()}


def test_annotations_and_dockerfile_are_written(manifests: Path) -> None:
    generated = generate(manifests, GIVEN)

    assert Path("bundle.Dockerfile").read_text() == DOCKERFILE
    assert Path("op/metadata/annotations.yaml").read_text() == ANNOTATIONS
    assert generated.manifests == manifests.absolute()
    assert generated.metadata == Path("op/metadata").absolute()
    assert generated.annotations == yaml.safe_load(ANNOTATIONS)["annotations"]
    assert generated.warnings == ()
    assert len(file_texts()) == 3


def test_without_a_default_channel(manifests: Path) -> None:
    generate(manifests, AnnotationsInput("op", "alpha"), base_image="example.com/base:1")

    lines = Path("bundle.Dockerfile").read_text().splitlines()
    assert lines[0] == "FROM example.com/base:1"
    assert lines[-3:] == [
        f"LABEL {LABEL}channels.v1=alpha",
        "COPY op/manifests /manifests/",
        "COPY op/metadata /metadata/",
    ]
    assert "default" not in Path("op/metadata/annotations.yaml").read_text()


def test_manifests_are_copied_to_the_output_directory(manifests: Path) -> None:
    (manifests / "sub").mkdir()
    (manifests / "sub" / "nested.yaml").write_text("kind: Nested\n")
    (manifests / "op.csv.yaml").chmod(0o444)

    for _ in range(2):  # the second run replaces read-only files
        generated = generate(manifests, GIVEN, output=Path("out"))

    assert generated.manifests == Path("out/manifests").absolute()
    assert file_texts(Path("out")) == {
        "manifests/op.csv.yaml": csv().decode(),
        "manifests/manifests/nested.yaml": "kind: Nested\n",
        "metadata/annotations.yaml": ANNOTATIONS,
    }
    assert Path("out/manifests/op.csv.yaml").stat().st_mode & 0o777 == 0o444
    assert (
        Path("bundle.Dockerfile").read_text().endswith("COPY out/manifests /manifests/\nCOPY out/metadata /metadata/\n")
    )
    assert not Path("op/metadata").exists()


def test_output_directory_can_be_that_of_the_manifests(manifests: Path) -> None:
    before = file_texts(manifests)
    generate(manifests, GIVEN, output=Path("op"))
    assert file_texts(manifests) == before


def test_output_directory_in_the_manifests_is_rejected(manifests: Path) -> None:
    before = file_texts()
    with pytest.raises(InvalidBundle, match="into itself"):
        generate(manifests, GIVEN, output=manifests / "out")
    assert file_texts() == before


def test_paths_are_normalized(manifests: Path) -> None:
    generate(manifests / "sub" / "..", GIVEN)
    assert Path("op/metadata/annotations.yaml").exists()


@pytest.mark.parametrize(
    ("extra", "media_type"),
    [
        ({}, "registry+v1"),
        ({"Chart.yaml": "name: chart\n"}, "helm"),
        ({"Chart.yaml": "name: ''\n"}, "registry+v1"),
        ({"Chart.yaml": "a: b: c\n"}, "registry+v1"),
        ({"op.csv.yaml": "kind: Secret\n"}, "plain"),
    ],
)
def test_media_type(manifests: Path, extra: dict[str, str], media_type: str) -> None:
    for name, text in extra.items():
        (manifests / name).write_text(text)
    assert generate(manifests, GIVEN).annotations[LABEL + "mediatype.v1"] == media_type


def test_invalid_csv_is_a_warning(manifests: Path) -> None:
    (manifests / "op.csv.yaml").write_text("kind: ClusterServiceVersion\nspec: [\n")
    first, second = generate(manifests, GIVEN).warnings
    assert "the media type is plain" in first
    assert second.startswith(f"ignored {(manifests / 'op.csv.yaml').absolute()}:3:1: ")


def test_existing_files_are_replaced(manifests: Path) -> None:
    Path("op/metadata").mkdir()
    for path in (Path("bundle.Dockerfile"), Path("op/metadata/annotations.yaml")):
        path.write_text("old")
    generate(manifests, GIVEN)
    assert Path("bundle.Dockerfile").read_text() == DOCKERFILE
    assert Path("op/metadata/annotations.yaml").read_text() == ANNOTATIONS


def test_without_overwrite_existing_files_are_kept(manifests: Path) -> None:
    annotations = ANNOTATIONS + "  more: kept\n"
    Path("op/metadata").mkdir()
    Path("op/metadata/annotations.yaml").write_text(annotations)
    Path("bundle.Dockerfile").write_text("FROM mine\n")

    generate(manifests, GIVEN, overwrite=False)

    assert Path("op/metadata/annotations.yaml").read_text() == annotations
    assert Path("bundle.Dockerfile").read_text() == "FROM mine\n"


def test_without_overwrite_missing_files_are_written(manifests: Path) -> None:
    generate(manifests, GIVEN, overwrite=False)
    assert Path("op/metadata/annotations.yaml").read_text() == ANNOTATIONS
    assert Path("bundle.Dockerfile").read_text() == DOCKERFILE


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ANNOTATIONS.replace("package.v1: op", "package.v1: other"), "package.v1 is 'other', not 'op'"),
        (ANNOTATIONS.replace(f"  {LABEL}package.v1: op\n", ""), "package.v1 is missing"),
        ("a: b: c\n", r"annotations.yaml:1:5: "),
        ("annotations: []\n", "annotations is a list"),
    ],
)
def test_without_overwrite_conflicting_annotations_are_rejected(manifests: Path, text: str, message: str) -> None:
    Path("op/metadata").mkdir()
    Path("op/metadata/annotations.yaml").write_text(text)
    with pytest.raises(InvalidBundle, match=message):
        generate(manifests, GIVEN, overwrite=False)
    assert not Path("bundle.Dockerfile").exists()


def write_annotations(manifests: Path, **values: str) -> Path:
    """Write an annotations file next to the manifests, with a package, channels and one other annotation."""
    values = {"package": "demo", "channels": "alpha,stable", "channel.default": "stable", **values}
    lines = [f"  {LABEL}{name}.v1: {value}\n" for name, value in values.items() if value]
    path = manifests.absolute().parent / "metadata" / "annotations.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f'annotations:\n{"".join(lines)}  com.example/range: v4.9-v4."12 $x\n')
    return path


def package_and_channels(annotations: Mapping[str, str]) -> tuple[str | None, ...]:
    names = ("package", "channels", "channel.default")
    return tuple(annotations.get(f"{LABEL}{name}.v1") for name in names)


@pytest.mark.parametrize(
    ("given_values", "expected"),
    [
        (AnnotationsInput(), ("demo", "alpha,stable", "stable")),
        (AnnotationsInput(package="other"), ("other", "alpha,stable", "stable")),
        (AnnotationsInput(channels="stable,beta"), ("demo", "stable,beta", "stable")),
        (AnnotationsInput(channels="beta"), ("demo", "beta", None)),
        (AnnotationsInput(default_channel="alpha"), ("demo", "alpha,stable", "alpha")),
        (AnnotationsInput("other", "beta"), ("other", "beta", None)),
    ],
)
def test_given_values_take_precedence_over_existing_annotations(
    manifests: Path, given_values: AnnotationsInput, expected: tuple[str | None, ...]
) -> None:
    path = write_annotations(manifests)
    generated = generate(manifests, given_values)
    assert package_and_channels(generated.annotations) == expected
    assert package_and_channels(yaml.safe_load(path.read_text())["annotations"]) == expected


def test_other_annotations_are_kept_and_become_labels(manifests: Path) -> None:
    path = write_annotations(manifests)
    generate(manifests, AnnotationsInput())
    assert yaml.safe_load(path.read_text())["annotations"]["com.example/range"] == 'v4.9-v4."12 $x'
    assert r'LABEL "com.example/range"="v4.9-v4.\"12 \$x"' in Path("bundle.Dockerfile").read_text()
    path.write_text(f"# by hand\n{path.read_text()}")
    generate(manifests, AnnotationsInput())
    assert path.read_text().startswith("# by hand\n")


def test_annotations_next_to_the_manifests_are_used_with_an_output_directory(manifests: Path) -> None:
    write_annotations(manifests)
    generated = generate(manifests, AnnotationsInput(), output=Path("out"))
    assert (
        package_and_channels(yaml.safe_load(Path("out/metadata/annotations.yaml").read_text())["annotations"])[0]
        == "demo"
    )
    assert generated.metadata == Path("out/metadata").absolute()


@pytest.mark.parametrize("missing", ["package", "channels"])
def test_error_about_incomplete_annotations_names_the_setting(manifests: Path, missing: str) -> None:
    path = write_annotations(manifests, **{missing: ""})
    with pytest.raises(InvalidBundle, match=rf"bundle\.{missing}\.v1 is missing") as failure:
        generate(manifests, AnnotationsInput())
    assert failure.value.message.startswith(f"{path}: ")
    assert f"pass {missing}" in str(failure.value.hint)


@pytest.mark.parametrize(("name", "message"), [("nothing", "no such directory"), ("op", "no files found")])
def test_manifests_are_required(manifests: Path, name: str, message: str) -> None:
    with pytest.raises(InvalidBundle, match=message):
        generate(Path(name), GIVEN)
    assert file_texts() == {"op/manifests/op.csv.yaml": csv().decode()}


def test_control_characters_in_other_annotations_are_rejected(manifests: Path) -> None:
    path = write_annotations(manifests)
    path.write_text(path.read_text() + '  other: "a\\nb"\n')
    with pytest.raises(InvalidBundle, match=f"^{path}: invalid annotation 'other': control characters"):
        generate(manifests, AnnotationsInput())


def test_control_characters_are_rejected(manifests: Path) -> None:
    with pytest.raises(InvalidBundle, match="control characters"):
        generate(manifests, AnnotationsInput("op", "alpha\nRUN x"))
    assert not Path("bundle.Dockerfile").exists()


def test_write_errors(manifests: Path) -> None:
    Path("op/metadata").write_text("a file")
    with pytest.raises(DiskError):
        generate(manifests, GIVEN)


@given(st.text(st.characters(codec="utf-8", exclude_categories=["C", "Zl", "Zp"]), min_size=1))
def test_values_survive_a_round_trip(value: str) -> None:
    if not value.isprintable():
        return
    text = annotations_yaml(bundle_annotations(value, AnnotationsInput(value, value, value)))

    decoded: Any
    for decoded in (yaml.safe_load(text), go_yaml.load(text.encode())):
        assert decoded["annotations"][LABEL + "package.v1"] == value


@pytest.mark.parametrize(
    "value", ["yes", "1.0", "4.12", "0x1", "null", "~", "2020-01-01", "1:30", "a: b", "#a", " a", "-", "="]
)
def test_ambiguous_values_are_quoted(value: str) -> None:
    text = annotations_yaml({"a": value})
    assert yaml.safe_load(text) == {"annotations": {"a": value}}
    assert go_yaml.load(text.encode()) == {"annotations": {"a": value}}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a package manifest directory: v1 and v2 in alpha, v2 also in beta, v0 in no channel."""
    monkeypatch.chdir(tmp_path)
    directory = Path("package")
    versions = {"v0": {}, "v1": {"skips": ["op.gone"]}, "v2": {"replaces": "op.v1"}, "v3": {"replaces": "op.gone"}}
    for name, spec in versions.items():
        (directory / name).mkdir(parents=True)
        (directory / name / "op.yaml").write_bytes(csv(spec, name=f"op.{name}"))
        (directory / name / "crd.yaml").write_bytes(crd("v1"))
    (directory / "README.md").write_text("A package: with a remark\n")
    (directory / "op.package.yaml").write_text(
        "packageName: op\ndefaultChannel: alpha\nchannels:\n"
        "- {name: alpha, currentCSV: op.v2}\n- {name: beta, currentCSV: op.v2}\n- {name: old, currentCSV: op.v1}\n"
    )
    return directory


@pytest.mark.parametrize(
    ("version", "values", "expected"),
    [
        ("v2", AnnotationsInput(), ("op", "alpha,beta", "alpha")),
        ("v1", AnnotationsInput(), ("op", "alpha,beta,old", "alpha")),
        ("v1", AnnotationsInput(package="other"), ("other", "alpha,beta,old", "alpha")),
        ("v0", AnnotationsInput(channels="x", default_channel="y"), None),
        ("v2", AnnotationsInput(channels="x", default_channel="y"), ("op", "x", "y")),
    ],
)
def test_package_and_channels_are_inferred_from_the_package_directory(
    package: Path, version: str, values: AnnotationsInput, expected: tuple[str, str, str] | None
) -> None:
    if expected is None:
        with pytest.raises(InvalidBundle, match=r"no channel contains op\.v0"):
            generate(package / version, values)
        return
    annotations = generate(package / version, values).annotations
    names = ("package.v1", "channels.v1", "channel.default.v1")
    assert tuple(annotations[LABEL + name] for name in names) == expected


def test_second_run_infers_the_same(package: Path) -> None:
    first = generate(package / "v1", AnnotationsInput()).annotations
    assert generate(package / "v1", AnnotationsInput()).annotations == first


def test_single_channel_is_the_default(package: Path) -> None:
    (package / "op.package.yaml").write_text("packageName: op\nchannels: [{name: only, currentCSV: op.v1}]\n")
    assert generate(package / "v1", AnnotationsInput()).annotations[LABEL + "channel.default.v1"] == "only"


@pytest.mark.parametrize(
    ("path", "content", "message"),
    [
        ("op.package.yaml", b"packageName: ''\n", "no package manifest"),
        ("op.package.yaml", b"packageName: op\nchannels: x\n", "channels is a string, not a list"),
        ("v0/second.yaml", csv(name="second"), "more than one ClusterServiceVersion in .*v0: op.yaml, second.yaml"),
        ("v1/op.yaml", b"kind: Secret\n", "no ClusterServiceVersion found in .*v1"),
    ],
)
def test_errors_in_the_package_directory(package: Path, path: str, content: bytes, message: str) -> None:
    (package / path).write_bytes(content)
    with pytest.raises(InvalidBundle, match=message) as raised:
        generate(package / "v1", AnnotationsInput())
    assert "channels" in str(raised.value.hint)
    assert not Path("bundle.Dockerfile").exists()


def test_a_manifest_that_is_a_link_out_is_not_counted_as_absent(package: Path, tmp_path: Path) -> None:
    csv_file = package / "v1" / "op.yaml"
    csv_file.symlink_to(csv_file.rename(tmp_path / "elsewhere.yaml"))
    with pytest.raises(InvalidBundle, match=r"v1/op\.yaml: refusing to follow a symbolic link"):
        generate(package / "v1", AnnotationsInput())


def test_sample_operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    generated = generate(
        FIXTURE / "0.3.0" / "manifests", AnnotationsInput("lagoon-operator", "alpha,stable"), output=tmp_path / "out"
    )
    assert generated.annotations[LABEL + "mediatype.v1"] == "registry+v1"
    assert generated.warnings == ()


@pytest.mark.parametrize("link", ["op/metadata", "new/metadata", "new/manifests", "new/manifests/manifests"])
def test_nothing_is_written_through_links_out_of_the_bundle(manifests: Path, link: str) -> None:
    """Even if they stay in the working directory."""
    (manifests / "sub").mkdir()
    (manifests / "sub" / "a.yaml").write_text("a: 1")
    Path("outside").mkdir()
    Path(link).parent.mkdir(parents=True, exist_ok=True)
    Path(link).symlink_to(Path("outside").absolute())
    with pytest.raises((DiskError, InvalidBundle), match=f"{link}: refusing to follow a symbolic link"):
        generate(manifests, GIVEN, output=Path("new") if link.startswith("new") else None)
    assert not file_texts(Path("outside"))
