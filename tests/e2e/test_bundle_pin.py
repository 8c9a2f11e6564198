"""``opm bundle pin`` with a registry: directories, bundle images and catalogs."""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.bundles import bundle_labels, push_image, resolve_digest
from tests.kit.faults import CallFirst, Fault, FaultProxy
from tests.kit.forkserver import Command
from tests.kit.images import multi_image, small_image

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.forkserver import ForkServer
    from tests.kit.opm import Opm
    from tests.kit.registry import Registry

CSV = """\
# The operator.
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata:
  name: lagoon.v1.0.0
  annotations:
    containerImage: {host}/operator:1   # by hand
spec:
  version: 1.0.0
  install:
    strategy: deployment
    spec:
      deployments:
      - name: lagoon
        spec:
          template:
            spec:
              containers:
              - name: manager
                image: '{host}/operator:1'
                env:
                - {{name: RELATED_IMAGE_PROXY, value: "{host}/proxy"}}
"""
PLACES = [(20, "operator:1", "container manager"), (22, "proxy", "environment variable RELATED_IMAGE_PROXY")]


@pytest.fixture
def host(registry: Registry, tmp_path: Path) -> str:
    """Return a prefix with an image for two platforms, ``operator:1``, and one for one platform, ``proxy``."""
    prefix = f"{registry.host}/{tmp_path.name.lower().replace('_', '-')}"
    images = [small_image(tmp_path, {"bin/op": b"#!"}, platform=f"linux/{arch}") for arch in ("amd64", "arm64")]
    push_image(f"{prefix}/operator:1", multi_image(images))
    push_image(f"{prefix}/proxy:latest", images[0])
    return prefix


@pytest.fixture
def bundle(opm_http: Opm, host: str) -> Path:
    """Write a bundle directory."""
    directory = opm_http.directory / "bundle"
    (directory / "manifests").mkdir(parents=True)
    (directory / "manifests" / "csv.yaml").write_text(CSV.format(host=host))
    (directory / "metadata").mkdir()
    labels = "".join(f"  {key}: {value}\n" for key, value in bundle_labels("lagoon").items())
    (directory / "metadata" / "annotations.yaml").write_text(f"annotations:\n{labels}")
    return directory


def expected(host: str, prefix: str = "") -> str:
    """Return the pinned text."""
    operator, proxy = (resolve_digest(f"{host}/{name}") for name in ("operator:1", "proxy:latest"))
    text = CSV.format(host=prefix or host)
    text = text.replace("/operator:1", f"/operator@{operator}").replace('/proxy"', f'/proxy@{proxy}"')
    images = (("manager", f"operator@{operator}"), ("proxy", f"proxy@{proxy}"))
    return f"{text}  relatedImages:\n" + "".join(
        f"  - name: {name}\n    image: {prefix or host}/{image}\n" for name, image in images
    )


def test_another_program_edits_a_template_in_the_meantime(opm_http: Opm, host: str) -> None:
    """Neither edit is lost: the file is read again before it is written."""
    template = opm_http.directory / "lagoon.yaml"
    documents = [
        {"schema": "olm.package", "name": "lagoon", "defaultChannel": "stable"},
        {"schema": "olm.channel", "package": "lagoon", "name": "stable", "entries": [{"name": "lagoon.v1.0.0"}]},
    ]

    def edit() -> None:
        template.write_text(template.read_text().replace("stable", "fast"))

    path = host.partition("/")[2]
    with FaultProxy(host.partition("/")[0], Fault("GET", f"/v2/{path}/proxy/", CallFirst(edit))) as proxy:
        image = f"{proxy.host}/{path}/proxy:latest"
        entries = [*documents, {"schema": "olm.bundle", "image": image}]
        template.write_text(json.dumps({"schema": "olm.template.basic", "entries": entries}, indent=2))
        opm_http("bundle", "pin", "lagoon.yaml")
    assert "fast" in template.read_text()
    assert "proxy@sha256:" in template.read_text()


def test_all_targets_are_pinned_or_none(opm_http: Opm, bundle: Path, host: str) -> None:
    before = (bundle / "manifests" / "csv.yaml").read_bytes()
    outside = opm_http.directory.parent / f"{opm_http.directory.name}-outside"
    shutil.copytree(bundle, outside)
    (opm_http.directory / "second").symlink_to(outside)
    failed = opm_http.attempt("bundle", "pin", "bundle", "second")
    assert (failed.returncode, "second: refusing to follow a symbolic link" in failed.stderr) == (1, True)
    assert [(each / "manifests" / "csv.yaml").read_bytes() for each in (bundle, outside)] == [before, before]


def test_a_bundle_directory_is_pinned_in_place(opm_http: Opm, bundle: Path, host: str) -> None:
    csv = bundle / "manifests" / "csv.yaml"
    checked = opm_http.attempt("bundle", "pin", "bundle", "--check")
    assert checked.returncode == 1
    lines = [f"bundle/manifests/csv.yaml:{line}: {host}/{image} ({place})" for line, image, place in PLACES]
    first = f"bundle/manifests/csv.yaml:7: {host}/operator:1 (annotation containerImage)"
    assert checked.stdout.splitlines() == [first, *lines]
    assert "Error: 2 images without a digest" in checked.stderr
    assert "opm bundle pin" in checked.stderr

    dry = json.loads(opm_http("bundle", "pin", "./bundle", "--dry-run", "--output", "json"))
    assert csv.read_text() == CSV.format(host=host)
    (target,) = dry["targets"]
    assert [image["image"] for image in target["images"]] == [f"{host}/operator:1", f"{host}/proxy"]
    assert [use["line"] for use in target["images"][0]["uses"]] == [20, 7]

    done = opm_http.attempt("bundle", "pin", "bundle")
    assert csv.read_text() == expected(host)
    assert done.stdout.splitlines() == [f"{image['image']} -> {image['pinned']}" for image in target["images"]]
    assert "bundle: 2 images pinned, 2 added to spec.relatedImages in 1 file" in done.stderr
    assert opm_http("bundle", "pin", "bundle", "--check") == ""
    csv.write_text(expected(host).replace("name: proxy\n    image:", "name: proxy\n    other:"))
    warned = opm_http.attempt("bundle", "pin", "bundle", "--check")
    assert f"Warning: bundle/manifests/csv.yaml:24: spec.relatedImages lacks {host}/proxy@" in warned.stderr
    assert warned.returncode == 0
    csv.write_text(expected(host))
    again = opm_http.attempt("bundle", "pin", "bundle", "--verify")
    assert (again.returncode, again.stdout) == (0, "")
    assert "bundle: nothing to pin" in again.stderr


def test_a_copy_with_another_registry(opm_http: Opm, bundle: Path, host: str) -> None:
    registry = f"{host}=registry.corp:5000/mirror"
    opm_http("bundle", "pin", "bundle", "--output-dir", "pinned", "--replace-registry", registry)
    assert (bundle / "manifests" / "csv.yaml").read_text() == CSV.format(host=host)
    copy = opm_http.directory / "pinned"
    assert (copy / "manifests" / "csv.yaml").read_text() == expected(host, "registry.corp:5000/mirror")
    assert (copy / "metadata").is_dir()
    failed = opm_http.attempt("bundle", "pin", "bundle", "--output-dir", "pinned")
    assert "Error: pinned: already exists and is not empty" in failed.stderr


def test_nothing_is_written_if_an_image_does_not_exist(opm_http: Opm, bundle: Path, host: str) -> None:
    text = CSV.format(host=host).replace("/proxy", "/missing:1")
    (bundle / "manifests" / "csv.yaml").write_text(text)
    failed = opm_http.attempt("bundle", "pin", "bundle")
    assert failed.returncode == 1
    where = f"bundle/manifests/csv.yaml:22: environment variable RELATED_IMAGE_PROXY: {host}/missing:1"
    assert f"Error: {where}" in failed.stderr
    assert "--exclude" in failed.stderr
    assert (bundle / "manifests" / "csv.yaml").read_text() == text
    opm_http("bundle", "pin", "bundle", "--exclude", "*/missing:*", "--related-images", "keep")
    pinned = (bundle / "manifests" / "csv.yaml").read_text()
    assert f"{host}/missing:1" in pinned
    assert "relatedImages" not in pinned


def test_a_file_with_replacements_needs_no_registry(opm: Opm, bundle: Path, host: str) -> None:
    digest = f"sha256:{'0' * 64}"
    replacements = {f"{host}/operator:1": f"a.io/o@{digest}", f"{host}/proxy:latest": f"a.io/p@{digest}"}
    (opm.directory / "replacements.json").write_text(json.dumps(replacements))
    opm("bundle", "pin", str(bundle), "--replacements", "replacements.json")
    text = (bundle / "manifests" / "csv.yaml").read_text()
    assert (text.count(f"a.io/o@{digest}"), text.count(f"a.io/p@{digest}")) == (3, 2)


def test_images_are_asked_once_from_mirrors_with_credentials(opm: Opm, bundle: Path, basic_registry: Registry) -> None:
    mirror = f"{basic_registry.host}/mirror"
    credentials = {"auths": {basic_registry.host: {"username": "tester", "password": "secret"}}}
    (opm.directory / "auth.json").write_text(json.dumps(credentials))
    for name in ("operator:1", "proxy:latest"):
        push_image(f"oci:{opm.directory}/layout:{name.replace(':', '-')}", small_image(opm.directory, {name: b"x"}))
        source = f"oci:layout:{name.replace(':', '-')}"
        opm("image", "copy", source, f"{mirror}/{name}", "--authfile", "auth.json", "--use-http")
    configuration = opm.directory / "registries.conf"
    configuration.write_text(
        f'[[registry]]\nlocation = "registry.example"\n[[registry.mirror]]\nlocation = "{mirror}"\ninsecure = true\n'
    )
    opm.env["CONTAINERS_REGISTRIES_CONF"] = str(configuration)
    (bundle / "manifests" / "csv.yaml").write_text(CSV.format(host="registry.example"))
    before = len(basic_registry.requests())
    opm("bundle", "pin", "bundle", "--authfile", "auth.json")
    assert (bundle / "manifests" / "csv.yaml").read_text().count("registry.example/operator@sha256:") == 3
    asked = [request.path for request in basic_registry.requests()[before:] if request.status == 200]
    assert sorted(asked) == ["/v2/mirror/operator/manifests/1", "/v2/mirror/proxy/manifests/latest"]
    (opm.directory / "none.json").write_text("{}")
    (bundle / "manifests" / "csv.yaml").write_text(CSV.format(host="registry.example"))
    failed = opm.attempt("bundle", "pin", "bundle", "--authfile", "none.json")
    assert "Error: 2 images cannot be pinned" in failed.stderr
    assert "csv.yaml:20: container manager: registry.example/operator:1" in failed.stderr


@pytest.mark.parametrize("push", [True, False])
def test_the_image_of_a_bundle(opm_http: Opm, bundle: Path, host: str, push: bool) -> None:
    flags = ("--push",) if push else ()
    opm_http("bundle", "build", "-d", "bundle/manifests", "-t", f"{host}/bundle:1", "--push")
    assert opm_http.attempt("bundle", "pin", f"{host}/bundle:1", "--check").returncode == 1
    done = opm_http.attempt("bundle", "pin", f"{host}/bundle:1", "--tag", f"{host}/bundle:2", *flags)
    name = done.stdout.strip()
    assert re.fullmatch(rf"{re.escape(host)}/bundle:2@sha256:[0-9a-f]{{64}}", name), done.stderr
    assert f"{host}/operator:1 -> {host}/operator@sha256:" in done.stderr
    assert ("opm image push" in done.stderr) != push
    opm_http("bundle", "unpack", f"{host}/bundle:2", "--out", "out")
    assert (opm_http.directory / "out" / "manifests" / "csv.yaml").read_text() == expected(host)
    old, new = (inspect(opm_http, f"{host}/bundle:{tag}") for tag in "12")
    assert new["layers"][:-1] == old["layers"]
    assert new["labels"] == old["labels"]
    again = opm_http("bundle", "pin", f"{host}/bundle:1", "--tag", f"{host}/bundle:3", "--output", "json", *flags)
    assert json.loads(again)["targets"][0]["reference"] == name.replace("bundle:2", "bundle:3")
    copied = opm_http("bundle", "pin", f"{host}/bundle:2", "--tag", "oci:layout:4").strip()
    assert copied.rpartition("@")[2] == name.rpartition("@")[2]  # everything is pinned: the same image


def inspect(opm: Opm, image: str) -> dict[str, Any]:
    described = json.loads(opm("image", "inspect", image, "-o", "json"))["images"]
    return dict(described[0])


def catalog_text(opm: Opm, bundle: Path, host: str) -> str:
    """Return a catalog with the bundle, with comments."""
    opm("bundle", "build", "-d", str(bundle / "manifests"), "-t", f"{host}/bundle:1", "--push")
    rendered = opm("render", f"{host}/bundle:1", "--output", "yaml")
    package = "schema: olm.package\nname: lagoon\ndefaultChannel: alpha\n"
    channel = "schema: olm.channel\nname: alpha\npackage: lagoon\nentries:\n- name: lagoon.v1.0.0\n"
    return f"---\n# first\n{package}---\n{channel}---\n# the bundle\n{rendered.removeprefix('---' + chr(10))}"


@pytest.mark.parametrize("group", ["bundle", "index"])
def test_catalogs(opm_http: Opm, bundle: Path, host: str, group: str) -> None:
    text = catalog_text(opm_http, bundle, host)
    file = opm_http.directory / "catalog" / "lagoon" / "catalog.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    opm_http("validate", "catalog")
    opm_http(group, "pin", "catalog")
    digests = {name: resolve_digest(f"{host}/{name}") for name in ("bundle:1", "operator:1")}
    pinned = file.read_text()
    for name, digest in digests.items():
        assert f"{host}/{name.removesuffix(':1')}@{digest}" in pinned
    assert "# the bundle\n" in pinned
    assert f"{host}/bundle:1" not in pinned
    opm_http("validate", "catalog")

    file.write_text(text)
    image = ("-t", f"{host}/cat:1", "-i", "scratch", "--push")
    opm_http("index", "deprecate", "--package", "lagoon", "-m", "x", "-f", "catalog", *image)
    checked = opm_http.attempt(group, "pin", f"{host}/cat:1", "--check", "--output", "json")
    assert checked.returncode == 1
    unpinned = {item["image"] for item in json.loads(checked.stdout)["unpinned"]}
    assert unpinned == {f"{host}/bundle:1", f"{host}/operator:1", f"{host}/proxy"}
    name = opm_http(group, "pin", f"{host}/cat:1", "-t", f"{host}/cat:2", "--push").strip()
    assert name.startswith(f"{host}/cat:2@sha256:")
    assert opm_http(group, "pin", f"{host}/cat:2", "--check") == ""
    rendered = opm_http("render", f"{host}/cat:2")
    assert f'"image": "{host}/bundle@{digests["bundle:1"]}"' in rendered


def test_several_targets_are_changed_together(opm_http: Opm, bundle: Path, host: str) -> None:
    template = opm_http.directory / "template.yaml"
    template.write_text(f"schema: olm.semver # x\nStable:\n  Bundles:\n  - Image: {host}/proxy\n")
    opm_http("bundle", "pin", "bundle", "template.yaml")
    assert (bundle / "manifests" / "csv.yaml").read_text() == expected(host)
    assert template.read_text().endswith(f"{host}/proxy@{resolve_digest(f'{host}/proxy:latest')}\n")
    template.write_text(f"schema: olm.semver\nStable:\n  Bundles:\n  - Image: {host}/missing\n")
    (bundle / "manifests" / "csv.yaml").write_text(CSV.format(host=host))
    assert opm_http.attempt("bundle", "pin", "bundle", "template.yaml").returncode == 1
    assert (bundle / "manifests" / "csv.yaml").read_text() == CSV.format(host=host)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Missing argument"),
        (("missing/",), "invalid image reference"),
        (("./missing",), "./missing: no such file or directory"),
        (("bundle", "--tag", "x"), "--tag: unsupported: bundle is not an image"),
        (("bundle", "--push"), "--push requires --tag"),
        (("bundle", "bundle", "--output-dir", "x"), "require exactly one target"),
        (("bundle", "--tag", "x", "--output-dir", "y"), "mutually exclusive"),
        (("bundle/manifests/csv.yaml", "--output-dir", "x"), "is not a directory"),
        (("bundle", "--replace-registry", "quay.io"), "invalid replacement 'quay.io'"),
        (("bundle", "--replacements", "none.yaml"), "none.yaml: No such file"),
        (("bundle", "--related-images", "some"), "--related-images"),
        (("index.db",), "index.db: unsupported: it is an index database"),
    ],
)
def test_invalid_command_lines(opm: Opm, bundle: Path, arguments: tuple[str, ...], message: str) -> None:
    (opm.directory / "index.db").write_bytes(b"SQLite format 3\0")
    before = (bundle / "manifests" / "csv.yaml").read_text()
    failed = opm.attempt("bundle", "pin", *arguments)
    assert failed.returncode == 1
    assert "Error: " in failed.stderr
    assert message in failed.stderr
    assert "Traceback" not in failed.stderr
    assert (bundle / "manifests" / "csv.yaml").read_text() == before


@pytest.mark.parametrize("flags", [(), ("--output-dir", "copy")])
def test_a_kill_leaves_complete_files(opm: Opm, bundle: Path, forkserver: ForkServer, flags: tuple[str, ...]) -> None:
    digest = f"sha256:{'0' * 64}"
    (opm.directory / "replacements.json").write_text(json.dumps({"a.io/operator:1": f"a.io/x@{digest}"}))
    pod = "kind: Pod\nspec:\n  containers:\n  - image: a.io/operator:1\n"
    files = [bundle / "manifests" / f"{name}.yaml" for name in ("csv", "other", "third")]
    argv = ["bundle", "pin", "bundle", "--replacements", "replacements.json", *flags]
    at = 0
    while True:
        at += 1
        for file in files:
            file.write_text(pod)
        (killed,) = forkserver.run([Command(argv, directory=opm.directory, killed_at=("os.replace", at))])
        states = {file.read_text() for file in files}
        assert states <= {pod, pod.replace("a.io/operator:1", f"a.io/x@{digest}")}
        if killed.status == 0:
            break
        assert not (opm.directory / "copy").exists()
    assert at > 3
    assert len(states) == 1
    assert not list(bundle.glob(".opm-*"))


def test_control_characters_are_escaped(opm: Opm, bundle: Path, host: str) -> None:
    text = CSV.format(host=host).replace(f"'{host}/operator:1'", '"a\\e[2Jb\\u202e:1"')
    (bundle / "manifests" / "csv.yaml").write_text(text)
    for flags in (("--check",), ("--check", "--output", "json"), ("--dry-run",), ()):
        failed = opm.attempt("bundle", "pin", "bundle", *flags)
        assert failed.returncode == 1
        assert "\x1b" not in failed.stdout + failed.stderr
        assert "\u202e" not in failed.stdout + failed.stderr
    assert "csv.yaml:20: container manager: " in failed.stderr


def test_an_image_needs_a_name(opm_http: Opm, bundle: Path, host: str) -> None:
    opm_http("bundle", "build", "-d", "bundle/manifests", "-t", f"{host}/bundle:1", "--push")
    failed = opm_http.attempt("bundle", "pin", f"{host}/bundle:1")
    assert "an image needs a name for the result" in failed.stderr
    dry = opm_http("bundle", "pin", f"{host}/bundle:1", "--dry-run")
    assert dry.startswith(f"{host}/operator:1 -> {host}/operator@sha256:")
    program = opm_http.attempt("bundle", "pin", f"{host}/proxy", "--check")
    assert "not an index image or a bundle image" in program.stderr
