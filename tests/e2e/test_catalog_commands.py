"""``opm validate``, ``opm init``, ``opm generate dockerfile`` and lists of file-based catalogs."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from subprocess import CompletedProcess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from opmkit.bundle.labels import INDEX_CONFIGS
from opmkit.imagetools.copy import copy_image
from opmkit.imagetools.image import Image
from opmkit.imagetools.layer import LayerFile, write_layer
from opmkit.imagetools.spec import ConfigChanges
from opmkit.imagetools.store import LayoutRepository
from opmkit.index.errors import CatalogError
from opmkit.index.image.dockerfile import CatalogDockerfile
from tests.kit.engines import Engine
from tests.kit.opm import FIXTURES, Opm, run

if TYPE_CHECKING:
    from pathlib import Path

CATALOGS = FIXTURES / "catalogs"
VALID, INVALID = CATALOGS / "valid", CATALOGS / "invalid"
SVG = b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"/>\n'
EMPTY_REPORT = {"passed": True, "findings": [], "allowed": [], "notices": []}
PNG = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class InProcessOpm:
    """The command, run in this process because that is quicker."""

    capsys: pytest.CaptureFixture[str]

    def attempt(self, *arguments: str) -> CompletedProcess[str]:
        """Run the command and return its result, whether it succeeds or fails."""
        status = run(list(arguments))
        printed = self.capsys.readouterr()
        return CompletedProcess(arguments, status, printed.out, printed.err)

    def __call__(self, *arguments: str) -> str:
        """Run a command that must succeed and return its stdout."""
        done = self.attempt(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def opm(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> InProcessOpm:
    monkeypatch.chdir(tmp_path)
    return InProcessOpm(capsys)


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """Return a catalog with one error and one warning on line 9."""
    directory = tmp_path / "broken"
    directory.mkdir()
    (directory / "demo.yaml").write_bytes((INVALID / "cycle.yaml").read_bytes())
    return directory


def test_valid_catalog_has_no_output(tmp_path: Path) -> None:
    done = Opm(tmp_path).attempt("validate", str(VALID))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_findings_have_the_format_of_compilers(opm: InProcessOpm, broken: Path) -> None:
    done = opm.attempt("validate", "broken", "--output", "text")
    assert (done.returncode, done.stdout) == (1, "")
    error, hint, warning, _, last = done.stderr.splitlines()
    assert error.startswith(
        'broken/demo.yaml:9: error: package "demo", channel "alpha": detected cycle in replaces chain of upgrade '
        "graph: demo.v1.1.0 -> demo.v1.0.0 -> demo.v1.1.0 "
    )
    assert hint.startswith("  hint: remove one of these")
    assert warning.startswith('broken/demo.yaml:9: warning: package "demo", channel "alpha", bundle "demo.v1.0.0": ')
    assert last.startswith(
        'Error: broken: invalid catalog: demo.yaml:9: package "demo", channel "alpha": detected cycle'
    )
    assert last.endswith(" (1 error, 1 warning)")


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_report_contains_the_fields_of_go_opm_and_all_findings(opm: InProcessOpm, broken: Path, form: str) -> None:
    done = opm.attempt("validate", str(broken), "-o", form)
    assert (done.returncode, done.stderr) == (1, "")
    report: dict[str, Any] = json.loads(done.stdout) if form == "json" else yaml.safe_load(done.stdout)
    assert report["passed"] is False
    assert report["error"]["message"].startswith('demo.yaml:9: package "demo", channel "alpha": detected cycle')
    error, warning = report["findings"]
    assert (error["severity"], error["file"], error["line"]) == ("error", "demo.yaml", 9)
    assert (error["package"], error["channel"], error["bundle"]) == ("demo", "alpha", "")
    assert error["hint"].startswith("Remove")
    assert (warning["severity"], warning["bundle"]) == ("warning", "demo.v1.0.0")


def test_report_of_a_valid_catalog(opm: InProcessOpm) -> None:
    assert json.loads(opm("validate", str(VALID), "--output", "json")) == EMPTY_REPORT


def test_compat_selects_the_rules_of_an_older_release(opm: InProcessOpm, tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "demo.yaml").write_bytes((INVALID / "bundle-same-version.yaml").read_bytes())
    assert opm.attempt("validate", "demo").returncode == 1
    assert opm.attempt("validate", "demo", "--compat", "opm-1.26").returncode == 0


def test_requirements_of_pipelines(opm: InProcessOpm) -> None:
    done = opm.attempt("validate", str(VALID), "--openshift-version", "v4.17")
    assert done.returncode == 1
    required = "OpenShift 4.17 requires the property olm.csv.metadata instead of olm.bundle.object"
    assert f'demo/bundles.yaml:1: error: package "demo", bundle "demo.v1.0.0": {required}' in done.stderr
    flags = ("--require-digests", "--allowed-registries", "registry.redhat.io/,quay.io/example/extra")
    report = json.loads(opm.attempt("validate", str(VALID), *flags, "-o", "json").stdout)
    messages = [finding["message"] for finding in report["findings"] if finding["bundle"] == "demo.v1.0.0"]
    image = "image quay.io/example/demo-bundle:1.0.0"
    assert messages == [
        f"{image} has no digest",
        f"{image} is not in an allowed registry: registry.redhat.io/, quay.io/example/extra",
    ]
    done = opm.attempt("validate", str(VALID), "--openshift-version", "newest")
    assert (done.returncode, "invalid value of --openshift-version" in done.stderr) == (1, True)


def test_published_content_must_remain(opm: InProcessOpm, tmp_path: Path) -> None:
    assert opm("validate", str(VALID), "--against", str(VALID)) == ""
    published = catalog_image(VALID, tmp_path)
    new = tmp_path / "new" / "demo"
    new.mkdir(parents=True)
    for file in (VALID / "demo").iterdir():
        text = file.read_text().replace("demo-bundle:1.1.0", "other-bundle:1.1.0")
        (new / file.name).write_text(text.replace("defaultChannel: stable", "defaultChannel: alpha"))
    done = opm.attempt("validate", "new", "--against", published)
    assert (done.returncode, done.stdout) == (1, "")
    lines = [line for line in done.stderr.splitlines() if ": error: " in line or line.startswith("error: ")]
    image = "image quay.io/example/demo-bundle:1.1.0 -> quay.io/example/other-bundle:1.1.0 [GATE-BUNDLE-CHANGED]"
    default = "the published default channel stable became alpha [GATE-DEFAULT-CHANNEL]"
    assert lines == [
        'error: package "extra": the published package was removed [GATE-PACKAGE-REMOVED]',
        f'new/demo/bundles.yaml:47: error: package "demo", bundle "demo.v1.1.0": the published bundle changed: {image}',
        f'new/demo/catalog.yaml:1: error: package "demo": {default}',
    ]
    assert done.stderr.count("  hint: ") == 3
    done = opm.attempt("validate", "new", "--against", published, "--fragment", "-o", "json")
    assert {finding["package"] for finding in json.loads(done.stdout)["findings"]} == {"demo"}
    done = opm.attempt("validate", "new", "--fragment")
    assert (done.returncode, "--fragment requires --against" in done.stderr) == (1, True)


def test_published_index_without_readable_packages(opm: InProcessOpm, tmp_path: Path) -> None:
    (tmp_path / "published").mkdir()
    done = opm.attempt("validate", str(VALID), "--against", "published")
    assert (done.returncode, done.stderr) == (0, "Warning: published: the published index has no packages\n")
    (tmp_path / "published" / "demo.yaml").write_text("schema: olm.package\nname: [demo]\n")
    done = opm.attempt("validate", str(VALID), "--against", "published")
    assert done.returncode == 1
    assert done.stderr.startswith("Error: published: invalid catalog: demo.yaml:1: ")


@pytest.mark.parametrize(("name", "message"), [("gone", "gone"), ("text.yaml", "text.yaml")])
def test_invalid_catalog_path_is_an_error(opm: InProcessOpm, tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "text.yaml").write_text("schema: olm.package\n")
    done = opm.attempt("validate", f"./{name}")
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")
    assert message in done.stderr


def test_a_catalog_image_is_validated_and_listed_like_its_directory(opm: InProcessOpm, tmp_path: Path) -> None:
    image = catalog_image(VALID, tmp_path)
    assert opm("validate", image) == ""
    for what in ("packages", "channels", "bundles"):
        assert opm("alpha", "list", what, image) == opm("alpha", "list", what, str(VALID))


def test_findings_in_an_image_have_the_path_in_the_catalog(opm: InProcessOpm, broken: Path, tmp_path: Path) -> None:
    done = opm.attempt("validate", catalog_image(broken, tmp_path))
    assert done.returncode == 1
    assert done.stderr.startswith('demo.yaml:9: error: package "demo"')


def catalog_image(directory: Path, scratch: Path) -> str:
    """Write a catalog image to an OCI layout and return its reference."""
    files = [LayerFile(f"configs/{path.relative_to(directory)}", path) for path in files_of(directory)]
    changes = ConfigChanges(labels={INDEX_CONFIGS: "/configs"})
    image = Image.scratch().append([write_layer(files, scratch)], changes)
    copy_image(image, LayoutRepository(scratch / "layout"), "one")
    return f"oci:{scratch / 'layout'}:one"


def files_of(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file())


def test_lists_of_a_catalog(opm: InProcessOpm) -> None:
    assert opm("alpha", "list", "packages", str(VALID)).splitlines() == [
        "NAME   DISPLAY NAME  DEFAULT CHANNEL",
        "demo   Demo          stable",
        "extra  Extra         fast",
    ]
    assert opm("alpha", "list", "channels", str(VALID), "demo").splitlines() == [
        "PACKAGE  CHANNEL  HEAD",
        "demo     alpha    demo.v1.1.0",
        "demo     stable   demo.v1.1.0",
    ]
    (bundle, _) = yaml.safe_load(opm("alpha", "list", "bundles", str(VALID), "extra", "-o", "yaml"))
    assert (bundle["bundle"], bundle["image"]) == ("extra-v2.0.0-1", "quay.io/example/extra-bundle:2.0.0-1")


def test_an_invalid_catalog_is_not_listed(opm: InProcessOpm, broken: Path) -> None:
    done = opm.attempt("alpha", "list", "packages", str(broken))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith('Error: demo.yaml:9: package "demo", channel "alpha": detected cycle')


def test_init_prints_a_package(opm: InProcessOpm, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# Demo\n\nAn operator.\n")
    (tmp_path / "demo.svg").write_bytes(SVG)
    flags = ("--default-channel", "stable", "--description", "README.md", "--icon", "demo.svg")
    wanted = {
        "schema": "olm.package",
        "name": "demo",
        "defaultChannel": "stable",
        "icon": {"base64data": base64.b64encode(SVG).decode(), "mediatype": "image/svg+xml"},
        "description": "# Demo\n\nAn operator.\n",
    }
    printed = opm("init", "demo", *flags)
    assert list(json.loads(printed).items()) == list(wanted.items())
    assert yaml.safe_load(opm("init", "demo", *flags, "-o", "yaml")) == wanted
    assert opm("init", "demo") == '{\n    "schema": "olm.package",\n    "name": "demo",\n    "defaultChannel": ""\n}\n'


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (PNG, "image/png"),
        (b"GIF89a", "image/gif"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"RIFF____WEBP", "image/webp"),
    ],
)
def test_media_type_of_an_icon_is_detected_from_its_content(
    opm: InProcessOpm, tmp_path: Path, data: bytes, media_type: str
) -> None:
    (tmp_path / "icon").write_bytes(data)
    assert json.loads(opm("init", "demo", "-i", "icon"))["icon"]["mediatype"] == media_type


@pytest.mark.parametrize(
    ("flag", "content", "message"),
    [
        ("--icon", b"text", "unsupported image format"),
        ("--icon", b"<html/>", "unsupported image format"),
        ("--icon", None, "file"),
        ("--description", b"\xff\xfe", "not valid UTF-8"),
        ("--description", b"a" * ((1 << 20) + 1), "larger than 1048576 bytes"),
    ],
)
def test_invalid_icons_and_descriptions_are_errors(
    opm: InProcessOpm, tmp_path: Path, flag: str, content: bytes | None, message: str
) -> None:
    if content is not None:
        (tmp_path / "file").write_bytes(content)
    done = opm.attempt("init", "demo", flag, "file")
    assert (done.returncode, done.stdout) == (1, "")
    assert message in done.stderr


def test_invalid_package_name_is_a_warning(opm: InProcessOpm) -> None:
    assert "Warning: package name 'Demo'" in opm.attempt("init", "Demo").stderr


TWO_STAGES = [
    "FROM quay.io/operator-framework/opm:latest as builder",
    "ADD catalog /configs",
    'RUN ["/bin/opm", "serve", "/configs", "--cache-dir=/tmp/cache", "--cache-only"]',
    "FROM quay.io/operator-framework/opm:latest",
    'ENTRYPOINT ["/bin/opm"]',
    'CMD ["serve", "/configs", "--cache-dir=/tmp/cache"]',
    "COPY --from=builder /configs /configs",
    "COPY --from=builder /tmp/cache /tmp/cache",
    "LABEL operators.operatorframework.io.index.configs.v1=/configs",
]


def instructions(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if line and not line.startswith("#")]


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    directory = tmp_path / "catalog"
    directory.mkdir()
    return directory


def test_dockerfile_with_two_stages(opm: InProcessOpm, catalog: Path) -> None:
    assert opm("generate", "dockerfile", "catalog") == ""
    assert instructions(catalog.with_name("catalog.Dockerfile")) == TWO_STAGES


def test_dockerfile_without_a_server_in_the_image(opm: InProcessOpm, catalog: Path) -> None:
    opm("generate", "dockerfile", "catalog/", "-i", "scratch", "-b", "quay.io/me/opm:1")
    found = instructions(catalog.with_name("catalog.Dockerfile"))
    assert found[0] == "FROM quay.io/me/opm:1 as builder"
    assert found[3:] == ["FROM scratch", *TWO_STAGES[6:]]


def test_dockerfile_with_one_stage(opm: InProcessOpm, catalog: Path) -> None:
    opm("generate", "dockerfile", "catalog", "--compat", "opm-1.26", "-i", "quay.io/me/opm:1")
    assert sorted(instructions(catalog.with_name("catalog.Dockerfile"))) == sorted(
        ["FROM quay.io/me/opm:1", *TWO_STAGES[1:3], *TWO_STAGES[4:6], TWO_STAGES[8]]
    )


def test_deprecated_flag_sets_both_images(opm: InProcessOpm, catalog: Path) -> None:
    done = opm.attempt("generate", "dockerfile", "catalog", "--binary-image", "quay.io/me/opm:1")
    assert (done.returncode, "deprecated" in done.stderr) == (0, True)
    found = instructions(catalog.with_name("catalog.Dockerfile"))
    assert [line for line in found if line.startswith("FROM")] == [
        "FROM quay.io/me/opm:1 as builder",
        "FROM quay.io/me/opm:1",
    ]


def test_labels_are_sorted_and_the_last_value_of_a_key_is_used(opm: InProcessOpm, catalog: Path) -> None:
    opm("generate", "dockerfile", "catalog", "-l", "b=1,a=x y", "--extra-labels", "b=2=3")
    assert instructions(catalog.with_name("catalog.Dockerfile"))[-2:] == ['LABEL "a"="x y"', 'LABEL "b"="2=3"']


@pytest.mark.parametrize(
    "flags",
    [
        ("-b", "scratch"),
        ("--binary-image", "scratch"),
        ("--compat", "opm-1.26", "-i", "scratch"),
        ("--compat", "opm-1.26", "-b", "quay.io/me/opm:1"),
        ("--binary-image", "quay.io/me/opm:1", "--base-image", "quay.io/me/opm:1"),
        ("-l", "label"),
        ("-l", "a=b\nRUN rm -rf /"),
        ("-l", '"a=b\nRUN rm -rf /"'),
        ("-i", "scratch\nRUN rm -rf /"),
    ],
)
def test_invalid_dockerfile_flags_are_errors(opm: InProcessOpm, catalog: Path, flags: tuple[str, ...]) -> None:
    done = opm.attempt("generate", "dockerfile", "catalog", *flags)
    assert done.returncode == 1
    assert "Error: " in done.stderr
    assert "Traceback" not in done.stderr
    assert not catalog.with_name("catalog.Dockerfile").exists()


def test_existing_dockerfile_is_not_overwritten(opm: InProcessOpm, catalog: Path) -> None:
    path = catalog.with_name("catalog.Dockerfile")
    path.symlink_to("nowhere")
    done = opm.attempt("generate", "dockerfile", "catalog")
    assert (done.returncode, "already exists" in done.stderr) == (1, True)
    assert not (catalog.parent / "nowhere").exists()


def test_a_dockerfile_needs_a_directory_with_a_name(
    opm: InProcessOpm, catalog: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (catalog / "file").write_text("")
    for name in ("gone", "catalog/file", "/"):
        assert "no such directory" in opm.attempt("generate", "dockerfile", name).stderr
    monkeypatch.chdir(catalog)
    opm("generate", "dockerfile", ".")
    assert instructions(catalog.with_name("catalog.Dockerfile")) == TWO_STAGES


def test_names_are_quoted_in_instructions() -> None:
    labels = {'say "hi"': "$HOME\\"}
    text = CatalogDockerfile("my catalog", labels=labels).text()
    assert 'ADD ["my catalog", "/configs"]' in text
    assert text.endswith('LABEL "say \\"hi\\""="\\$HOME\\\\"\n')
    with pytest.raises(CatalogError, match="no base image"):
        CatalogDockerfile("catalog", base="")


@pytest.mark.parametrize("program", ["buildah", "podman"])
def test_built_image_has_the_given_labels(program: str, tmp_path: Path) -> None:
    labels = {'say "hi"': "$HOME\\ and `more`", "a": "", "it's": "# no comment"}
    text = CatalogDockerfile("catalog", base="scratch", labels=labels).text()
    final = text.rpartition("FROM")[2].splitlines()[1:]
    built = "\n".join(["FROM scratch", *(line for line in final if not line.startswith("COPY"))])
    (tmp_path / "Dockerfile").write_text(built)
    with Engine(program) as engine:
        engine.run("build", "--isolation=chroot", "-t", "made", "-f", str(tmp_path / "Dockerfile"), str(tmp_path))
        inspected = json.loads(engine.run("inspect", "--type=image", "made"))
    config = inspected[0]["Config"] if program == "podman" else inspected["OCIv1"]["config"]
    found = config["Labels"]
    assert {key: found[key] for key in labels} == labels
    assert found[INDEX_CONFIGS] == "/configs"


REEF = FIXTURES / "recorded" / "bundles" / "reef" / "1.0.0"
IMAGE_TEMPLATE = ("--alpha-image-ref-template", "quay.io/me/reef:{{.Version}}")


def property_types(rendered: str) -> set[str]:
    return {prop["type"] for prop in json.loads(rendered)["properties"]}


@pytest.mark.parametrize(
    ("release", "metadata"), [("1.26.5", False), ("1.39", True), ("v1.47.0", False), ("newest", False)]
)
def test_render_writes_the_format_of_a_release(opm: InProcessOpm, release: str, metadata: bool) -> None:
    types = property_types(opm("render", str(REEF), *IMAGE_TEMPLATE, "--compat", release))
    assert ("olm.csv.metadata" in types, "olm.bundle.object" in types) == (metadata, not metadata)


def test_the_environment_sets_the_release_of_all_commands(tmp_path: Path) -> None:
    opm = Opm(tmp_path, env={"OPM_COMPAT": "1.39"})
    assert "olm.csv.metadata" in property_types(opm("render", str(REEF), *IMAGE_TEMPLATE))
    assert "olm.bundle.object" in property_types(opm("render", str(REEF), *IMAGE_TEMPLATE, "--compat", "1.47"))
    (tmp_path / "catalog").mkdir()
    opm("generate", "dockerfile", "catalog")
    assert (tmp_path / "catalog.Dockerfile").read_text().count("FROM") == 1
    done = Opm(tmp_path, env={"OPM_COMPAT": "1.99"}).attempt("validate", str(VALID))
    assert (done.returncode, 'Error: unknown release of Go opm "1.99"' in done.stderr) == (1, True)
    assert "from 1.26 to 1.73, or newest" in done.stderr


@pytest.mark.parametrize(
    ("flags", "flag"),
    [
        (("--migrate-level", "all", "--compat", "1.45"), "--migrate-level"),
        (("--migrate", "--compat", "1.29"), "--migrate"),
    ],
)
def test_flags_that_contradict_the_release_are_errors(opm: InProcessOpm, flags: tuple[str, ...], flag: str) -> None:
    done = opm.attempt("render", str(REEF), *flags)
    assert (done.returncode, f"{flag}: unsupported with --compat" in done.stderr) == (1, True)


def test_migrate_writes_the_directory_of_a_release(opm: InProcessOpm, tmp_path: Path) -> None:
    opm("migrate", str(VALID), "complete")
    done = opm.attempt("migrate", str(VALID), "old", "--compat", "1.39")
    assert (done.returncode, "documents are omitted, as by opm 1.39" in done.stderr) == (0, True)
    complete, old = ((tmp_path / name / "demo" / "catalog.json").read_text() for name in ("complete", "old"))
    assert ("olm.deprecations" in complete, "olm.deprecations" in old) == (True, False)


@pytest.mark.parametrize(
    ("release", "hint"),
    [
        ("1.27", "omit one of the two flags, or use --compat 1.46 or newer"),
        ("1.35", "omit --migrate-level: 1.35 always replaces the objects of bundle images by olm.csv.metadata"),
    ],
)
def test_releases_without_migration_levels_get_a_hint(release: str, hint: str, opm: InProcessOpm) -> None:
    level = ("--migrate-level", "bundle-object-to-csv-metadata")
    done = opm.attempt("render", str(REEF), *level, "--compat", release)
    assert done.returncode == 1
    assert f"hint: {hint}" in done.stderr
