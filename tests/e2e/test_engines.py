"""Bundles and indexes built by every container tool are equal."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.copy import copy_image
from opmkit.imagetools.reference import Reference, parse_image_reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from opmkit.imagetools.store import ImageStore
from opmkit.imagetools.tools.registry import RegistryTool
from tests.bundle.dockerfile.projects import SCAFFOLDED, Project
from tests.kit.images import small_image
from tests.kit.opm import LAGOON
from tests.kit.requirements import require

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.engines import Engine
    from tests.kit.opm import Opm
    from tests.kit.registry import Registry

ENGINES = ("docker", "podman", "buildah")
VERSIONS = ("0.1.0", "0.2.0")


@dataclass(frozen=True)
class Site:
    """The command with container engines and a unique repository prefix."""

    opm: Opm
    where: str
    registry_tool: RegistryTool
    scratch: Path

    def name(self, image: str) -> str:
        return f"{self.where}/{image}"

    def build_bundles(self, repository: str, *flags: str) -> list[str]:
        names = [self.name(f"{repository}:{version}") for version in VERSIONS]
        for version, name in zip(VERSIONS, names, strict=True):
            self.opm.build_bundle(version, name, "--push", *flags)
        return names

    def assert_same(self, one: str, other: str) -> None:
        """Compare files and configuration of two images, except environment and history, which engines extend."""
        seen = []
        for name in (one, other):
            reference = parse_image_reference(self.name(name))
            config = self.registry_tool.inspect(reference).config
            tree = self.registry_tool.read_tree(reference, [""])
            seen.append((tree, config.labels, config.entrypoint, config.cmd, config.exposed_ports, config.platform))
        assert seen[0] == seen[1]

    def layers(self, name: str) -> list[str]:
        image = self.registry_tool.inspect(parse_image_reference(self.name(name)))
        return [layer.digest for layer in image.manifest.layers]

    def put_base(self, name: str) -> str:
        """Push a base image with a label and a server."""
        reference = Reference.parse(self.name(name))
        image = small_image(self.scratch, {"bin/opm": b"a server"}, labels={"vendor": "someone"})
        copy_image(image, RegistryClient(RegistryOptions(plain_http=True)).repository(reference), reference.tag)
        return str(reference)


@pytest.fixture
def site(request: pytest.FixtureRequest, opm_http: Opm, registry: Registry, tmp_path: Path) -> Site:
    settings: dict[str, str] = {}
    for name in {*ENGINES} & {*request.node.callspec.params.values()}:
        require(name)
        started: Engine = request.getfixturevalue("docker_daemon" if name == "docker" else "container_storage")
        settings |= started.settings
    options = RegistryOptions(plain_http=True)
    registry_tool = RegistryTool(RegistryClient(options), ImageStore.open(tmp_path / "store"))
    where = f"{registry.host}/{tmp_path.name.replace('_', '-').lower()}"
    return Site(replace(opm_http, env={**opm_http.env, **settings}), where, registry_tool, tmp_path)


@pytest.mark.parametrize("tool", [*ENGINES, "none"])
def test_all_container_tools_have_the_same_results(tool: str, site: Site) -> None:
    opm, name = site.opm, site.name
    base = site.put_base("base:1")
    bundles = site.build_bundles("lagoon", "--image-builder", tool)
    site.build_bundles("expected")
    for version in VERSIONS:
        site.assert_same(f"lagoon:{version}", f"expected:{version}")

    opm("bundle", "unpack", bundles[0], "--container-tool", tool, "--out", "unpacked")
    opm("bundle", "unpack", name("expected:0.1.0"), "--out", "expected")
    assert files(site.scratch / "unpacked") == files(site.scratch / "expected") != {}

    for prefix, flags in (("catalog", ("--container-tool", tool)), ("reference", ())):
        one, two = name(f"{prefix}:1"), name(f"{prefix}:2")
        made = opm("index", "add", "-b", bundles[0], "-i", base, "-t", one, "--push", *flags)
        assert made.startswith(f"{one}@{site.registry_tool.digest(parse_image_reference(one))}")
        opm("index", "add", "-b", bundles[1], "-f", one, "-i", base, "-t", two, "--push", *flags)
    for tag in ("1", "2"):
        site.assert_same(f"catalog:{tag}", f"reference:{tag}")  # the bytes of a database depend on its content alone
        assert site.layers(f"catalog:{tag}")[0] == site.layers("base:1")[0]
        assert len(site.layers(f"catalog:{tag}")) == 2


@pytest.mark.parametrize("tool", ENGINES)
def test_all_container_tools_build_a_dockerfile(tool: str, site: Site) -> None:
    project = Project.create(site.scratch)
    project.write("bundle.Dockerfile", SCAFFOLDED.replace("FROM scratch", "ARG BASE\nFROM $BASE"))
    build = ("bundle", "build", "-f", "bundle.Dockerfile", "--build-arg", f"BASE={site.put_base('base:1')}", "--push")
    for name, flags in (("harbor:1", ("-b", tool, "--label", "a=b,c")), ("expected:1", ("--label=a=b,c",))):
        site.opm(*build, "--tag", site.name(name), *flags, ".")
    site.assert_same("harbor:1", "expected:1")
    assert site.registry_tool.inspect(parse_image_reference(site.name("harbor:1"))).labels["a"] == "b,c"


def files(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.parametrize(("pull", "build"), [("none", "podman"), ("buildah", "none"), ("docker", "buildah")])
def test_one_tool_pulls_and_another_builds(pull: str, build: str, site: Site) -> None:
    bundles = site.build_bundles("lagoon")
    index = ("index", "add", "-i", "scratch", "--push")
    tools = ("--pull-tool", pull, "--build-tool", build)
    site.opm(*index, "-b", bundles[0], "-t", site.name("catalog:1"), *tools)
    site.opm(*index, "-b", bundles[1], "-f", site.name("catalog:1"), "-t", site.name("catalog:2"), *tools)
    site.opm(*index, "-b", bundles[0], "-t", site.name("expected:1"))
    site.opm(*index, "-b", bundles[1], "-f", site.name("expected:1"), "-t", site.name("expected:2"))
    site.assert_same("catalog:2", "expected:2")


@pytest.mark.parametrize("tool", ENGINES)
def test_without_push_images_stay_in_the_engine(tool: str, site: Site) -> None:
    bundle, catalog = site.name("lagoon:0.1.0"), site.name("catalog:1")
    assert site.opm.build_bundle("0.1.0", bundle, "-b", tool).strip() == bundle
    built = site.opm("index", "add", "-b", bundle, "-i", "scratch", "-t", catalog, "-c", tool, "--output", "text")
    assert built.strip() == catalog
    report = json.loads(
        site.opm(
            "index",
            "prune",
            "-p",
            "none",
            "--permissive",
            "-f",
            catalog,
            "-i",
            "scratch",
            "-t",
            catalog,
            "-c",
            tool,
            "--output",
            "json",
        )
    )
    assert report["references"] == [catalog]
    assert "digest" not in report
    listing = {"docker": ("docker", "images"), "podman": ("podman", "images"), "buildah": ("buildah", "images")}[tool]
    shown = subprocess.run(
        listing, env={**os.environ, **site.opm.env}, capture_output=True, text=True, check=True
    ).stdout
    for name in (bundle, catalog):
        assert name.rpartition(":")[0] in shown
    assert site.opm.attempt("image", "inspect", bundle).returncode == 1  # neither registry nor store have it


@pytest.mark.parametrize("tool", ["podman", "buildah"])
def test_base_of_an_index_is_retained(tool: str, site: Site) -> None:
    base = site.put_base("base:1")
    bundles = site.build_bundles("lagoon")
    for number, bundle in enumerate(bundles, 1):
        start = ("-f", site.name(f"catalog:{number - 1}")) if number > 1 else ("-i", base)
        site.opm("index", "add", "-b", bundle, *start, "-t", site.name(f"catalog:{number}"), "-c", tool, "--push")
        assert site.layers(f"catalog:{number}")[0] == site.layers("base:1")[0]
        assert len(site.layers(f"catalog:{number}")) == 2


@pytest.mark.parametrize("tool", ENGINES)
def test_other_commands_that_pull(tool: str, site: Site) -> None:
    bundle = site.build_bundles("lagoon")[0]
    catalog = site.name("catalog:1")
    site.opm("index", "add", "-b", bundle, "-i", "scratch", "-t", catalog, "--push")
    site.opm("registry", "add", "-b", bundle, "-d", "engine.db", "-c", tool)
    site.opm("registry", "add", "-b", bundle, "-d", "none.db")
    assert (site.scratch / "engine.db").read_bytes() == (site.scratch / "none.db").read_bytes()
    difference = site.opm("index", "diff", catalog, "engine.db", "-c", tool, "--output", "json")
    assert json.loads(difference) == json.loads(site.opm("index", "diff", catalog, catalog, "--output", "json"))
    site.opm("index", "export", "-i", catalog, "-f", "exported", "-c", tool)
    manifests = files(site.scratch / "exported" / "lagoon-operator" / "0.1.0")
    assert manifests == {path.name: path.read_bytes() for path in (LAGOON / "0.1.0" / "manifests").iterdir()}
    site.opm("index", "add", "-b", "", "-f", catalog, "--generate", "--pull-tool", tool)
    assert (site.scratch / "database/index.db").read_bytes() == (site.scratch / "none.db").read_bytes()


@pytest.mark.parametrize("tool", ENGINES)
def test_commands_that_read_a_bundle(tool: str, site: Site) -> None:
    """Twice, since the results of the first validation are stored; the second image is only in the engine's storage."""
    pushed, stored = site.build_bundles("lagoon")[0], site.name("lagoon:stored")
    site.opm.build_bundle("0.1.0", stored, "-b", tool)
    for arguments in (
        ("bundle", "validate"),
        ("bundle", "validate"),
        ("bundle", "validate", "--profile", "all", "--output", "json"),
        ("bundle", "render", "--namespace", "lagoon"),
        ("bundle", "permissions"),
    ):
        expected = site.opm.attempt(*arguments, pushed)
        assert expected.stdout
        for bundle in (pushed, stored):
            done = site.opm.attempt(*arguments, bundle, "--container-tool", tool)
            printed = done.stdout.replace(bundle, pushed)
            assert (done.returncode, printed) == (expected.returncode, expected.stdout), done.stderr
    for bundle in (pushed, stored):
        done = site.opm.attempt("alpha", "bundle", "validate", "--tag", bundle, "--image-builder", tool)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("tool", ["podman"])
def test_temporary_directory_too_long_for_a_socket(tool: str, site: Site) -> None:
    bundle = site.build_bundles("lagoon")[0]
    temporary = site.scratch / ("x" * 100)
    temporary.mkdir()
    opm = replace(site.opm, env={**site.opm.env, "TMPDIR": str(temporary)})
    opm("bundle", "unpack", bundle, "--container-tool", tool, "--out", "unpacked")
    assert files(site.scratch / "unpacked")
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("tool", ENGINES)
def test_commands_that_change_an_index(tool: str, site: Site) -> None:
    """Each command once with the engine, and once without; the results are equal."""
    bundles, name = site.build_bundles("lagoon"), site.name
    site.opm("index", "add", "-b", ",".join(bundles), "-i", "scratch", "-t", name("database:1"), "--push")
    site.opm("migrate", name("database:1"), "catalog")
    site.opm("generate", "dockerfile", "catalog")
    for number, arguments in enumerate(
        (
            ("build", "catalog", "-i", "scratch"),
            ("deprecatetruncate", "-b", bundles[0], "-f", name("database:1"), "-i", "scratch"),
            ("update", "--add", bundles[0], "--skip-present", "-f", name("database:1"), "-i", "scratch"),
            ("merge", name(f"{tool}:0"), "catalog", "--prefer", "first", "-i", "scratch"),
        )
    ):
        for prefix, flags in ((tool, ("-c", tool)), ("expected", ())):
            done = site.opm.attempt("index", *arguments, "-t", name(f"{prefix}:{number}"), "--push", *flags)
            assert done.returncode == 0, (arguments, flags, done.stderr)
        site.assert_same(f"{tool}:{number}", f"expected:{number}")


@pytest.mark.parametrize("tool", ENGINES)
def test_commands_that_read_an_index(tool: str, site: Site) -> None:
    catalog = site.name("catalog:1")
    site.opm("index", "add", "-b", site.build_bundles("lagoon")[0], "-i", "scratch", "-t", catalog, "--push")
    for arguments in (
        ("images", catalog),
        ("plan", catalog, "--from", catalog, "--output", "json"),
        ("manifests", catalog, "--package", "lagoon-operator"),
    ):
        expected = site.opm.attempt("index", *arguments)
        assert expected.returncode == 0, expected.stderr
        done = site.opm.attempt("index", *arguments, "--container-tool", tool)
        assert (done.returncode, done.stdout) == (expected.returncode, expected.stdout), done.stderr


@pytest.mark.parametrize(
    ("tool", "form", "media_type"),
    [
        ("none", "v2s2", "application/vnd.docker.distribution.manifest.v2+json"),
        ("podman", "v2s2", "application/vnd.docker.distribution.manifest.v2+json"),
        ("podman", "oci", "application/vnd.oci.image.manifest.v1+json"),
        ("docker", "v2s2", "application/vnd.docker.distribution.manifest.v2+json"),
    ],
)
def test_formats(tool: str, form: str, media_type: str, site: Site) -> None:
    bundle, catalog = site.name("lagoon:1"), site.name("catalog:1")
    site.opm.build_bundle("0.1.0", bundle, "-b", tool, "--format", form, "--push")
    site.opm("index", "add", "-b", bundle, "-i", "scratch", "-t", catalog, "-c", tool, "--format", form, "--push")
    for name in (bundle, catalog):
        assert site.registry_tool.resolve(parse_image_reference(name)).media_type == media_type


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-c", "podman", "-p", "none"], "container-tool cannot be set alongside pull-tool or build-tool"),
        (["-c", "docker", "-u", "docker"], "container-tool cannot be set alongside pull-tool or build-tool"),
        (["-c", "crane"], 'unknown container tool "crane"'),
        (["-p", "crane"], 'unknown container tool "crane"'),
        (["-u", "crane"], 'unknown container tool "crane"'),
        (["-c", "docker", "--format", "oci"], "docker: unsupported image format oci"),
        (["-c", "podman", "--ca-file", "ca.pem"], "podman: unsupported option: certificates"),
        (["-c", "podman", "--insecure-policy"], "podman: unsupported option: the policy for signatures"),
        (["-c", "docker", "--signature-policy", "p.json"], "docker: unsupported option: the policy for signatures"),
        (["-c", "podman", "--platform", "linux/arm64"], "podman: selecting platforms is unsupported"),
        (["-u", "buildah", "--push", "--on-conflict", "rebase"], "buildah: rebasing is unsupported"),
        (["-c", "podman", "-t", "oci:layout:1"], "oci:layout:1: unsupported by podman: not the name"),
    ],
)
def test_conflicting_flags_are_errors(opm: Opm, arguments: list[str], message: str) -> None:
    done = opm.attempt("index", "add", "-b", "", "-i", "scratch", *arguments)
    assert done.returncode == 1
    assert done.stdout == ""
    assert message in done.stderr.splitlines()[0]
    assert "hint: " in done.stderr


@pytest.mark.parametrize(
    ("tool", "env", "message"),
    [
        (
            "docker",
            {"DOCKER_HOST": "unix:///nowhere/docker.sock"},
            "cannot connect to docker: tried unix:///nowhere/docker.sock",
        ),
        ("podman", {"CONTAINER_HOST": "tcp://127.0.0.1:1"}, "cannot connect to podman: tried tcp://127.0.0.1:1"),
        ("podman", {"PATH": "/nowhere"}, "cannot connect to podman: tried starting a service"),
        ("buildah", {"PATH": "/nowhere"}, "buildah not found in PATH"),
    ],
)
def test_missing_engine_is_an_error(opm: Opm, tool: str, env: dict[str, str], message: str) -> None:
    without = replace(opm, env=env)
    for arguments in (
        ("index", "add", "-b", "", "-i", "scratch", "-c", tool),
        ("registry", "add", "-b", "quay.io/me/lagoon:1", "-c", tool),
    ):
        done = without.attempt(*arguments)
        assert done.returncode == 1
        assert done.stderr.splitlines()[0].startswith(f"Error: {message}")
        assert "--container-tool none" in done.stderr.splitlines()[1]
    assert list(opm.directory.iterdir()) == []
