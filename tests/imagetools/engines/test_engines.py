"""Docker, podman and buildah as container tools, on real engines and registries."""

from __future__ import annotations

import base64
import json
import logging
import os
import subprocess
import sys
import time
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.build_spec import BuildSpec
from opmkit.imagetools.copy import copy_image
from opmkit.imagetools.engines.buildah_archive import resolve_in_root
from opmkit.imagetools.engines.errors import CONTAINERS_INSECURE_HINT, engine_error
from opmkit.imagetools.engines.podman_service import PodmanService
from opmkit.imagetools.errors import (
    AuthenticationFailed,
    EngineError,
    EngineUnavailable,
    ImageToolsError,
    InsecureTransport,
    LimitExceeded,
    NotFound,
    RegistryUnavailable,
)
from opmkit.imagetools.image import Image, load_image
from opmkit.imagetools.image_format import ImageFormat
from opmkit.imagetools.layer import LayerFile, Limits
from opmkit.imagetools.reference import Reference, parse_image_reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from opmkit.imagetools.spec import media_types
from opmkit.imagetools.store import ImageStore
from opmkit.imagetools.tools import open_engine as engines
from opmkit.imagetools.tools.registry import RegistryTool
from tests.kit.engines import skopeo
from tests.kit.images import small_image
from tests.kit.requirements import require

if TYPE_CHECKING:
    from opmkit.imagetools.tools.engine import EngineTool
    from tests.kit.engines import Engine
    from tests.kit.registry import Registry

ENGINES = ("docker", "podman", "buildah")
HTTP = RegistryOptions(plain_http=True)
FILES = {"manifests/csv.yaml": b"kind: ClusterServiceVersion\n", "metadata/annotations.yaml": b"annotations: {}\n"}
BUILD_SPEC = BuildSpec(
    files=tuple(LayerFile(path, content) for path, content in FILES.items()),
    labels={"package.v1": "demo", "odd": 'quo"te $HOME \\ back\nnew line'},
    entrypoint=("/bin/opm",),
    cmd=("serve", "$DATABASE", 'quo"te'),
    exposed_ports=("50051/tcp",),
    annotations={"note": "a b"},
)


def open_engine(name: str, options: RegistryOptions, form: ImageFormat | None = None) -> EngineTool:
    return engines.open_engine(name, options, ImageStore.open(), form)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of an engine, which the environment leads to."""
    name: str = request.param
    use_engine(name, request, monkeypatch)
    return name


def use_engine(name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Engine:
    require(name)
    started: Engine = request.getfixturevalue("docker_daemon" if name == "docker" else "container_storage")
    for key, value in started.settings.items():
        monkeypatch.setenv(key, value)
    return started


@pytest.fixture
def tool(engine: str) -> EngineTool:
    return open_engine(engine, HTTP)


@pytest.fixture
def reference(registry: Registry, engine: str, request: pytest.FixtureRequest) -> Reference:
    name = request.node.name.partition("[")[0].removeprefix("test_")
    return Reference(registry.host, f"engines/{engine}/{name}", "1.0")


def in_registry(reference: Reference, options: RegistryOptions = HTTP) -> Image:
    return load_image(RegistryClient(options).repository(reference), reference.identifier)


def put(image: Image, reference: Reference, options: RegistryOptions = HTTP) -> None:
    copy_image(image, RegistryClient(options).repository(reference), reference.tag)


def test_an_image_built_and_pushed_is_the_one_that_none_builds(
    tool: EngineTool, reference: Reference, tmp_path: Path
) -> None:
    digest = tool.build(BUILD_SPEC, None, [reference, reference.with_tag("also")], push=True)
    expected = BUILD_SPEC.build_on(Image.scratch(), tmp_path)
    pushed = in_registry(reference)
    assert pushed.digest == digest == in_registry(reference.with_tag("also")).digest
    kept = tool.inspect(reference)
    for image in (pushed, kept):
        assert image.labels == expected.labels
        assert image.config.entrypoint == expected.config.entrypoint
        assert image.config.cmd == expected.config.cmd
        assert image.config.exposed_ports == expected.config.exposed_ports
    assert len(pushed.manifest.layers) == 1
    assert tool.read_tree(reference, ["manifests", "metadata", "elsewhere"]) == FILES


def test_files_come_out_of_an_image(tool: EngineTool, reference: Reference, tmp_path: Path) -> None:
    put(small_image(tmp_path, {**FILES, "deep/er/file": b"here", "etc/hosts": b"mine"}), reference)
    assert tool.read_tree(reference, ["deep/er"]) == {"deep/er/file": b"here"}
    tool.extract(reference, tmp_path / "out")
    out = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*")} - {"etc", "etc/hosts"}
    assert out == {"manifests", "metadata", *FILES, "deep", "deep/er", "deep/er/file"}
    assert (tmp_path / "out/manifests/csv.yaml").read_bytes() == FILES["manifests/csv.yaml"]
    assert tool.copy_file(reference, "/deep/er/file", tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"here"
    assert not tool.copy_file(reference, "deep/er/none", tmp_path / "none")
    assert not (tmp_path / "none").exists()
    with pytest.raises(LimitExceeded):
        tool.read_tree(reference, ["deep"], Limits(file_bytes=3))


def test_nothing_but_the_image_comes_out_of_an_empty_place(
    tool: EngineTool, reference: Reference, tmp_path: Path
) -> None:
    tool.build(BUILD_SPEC, None, [reference])
    tool.extract(reference, tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["manifests", "metadata"]


def test_no_container_stays(
    tool: EngineTool, engine: str, reference: Reference, request: pytest.FixtureRequest
) -> None:
    tool.build(BUILD_SPEC, None, [reference])
    tool.read_tree(reference, ["manifests"])
    with pytest.raises(LimitExceeded):
        tool.read_tree(reference, ["manifests"], Limits(entries=0))
    started = request.getfixturevalue("docker_daemon" if engine == "docker" else "container_storage")
    listing = {"docker": "docker ps -aq", "podman": "podman ps -aq --external", "buildah": "buildah containers -q"}
    command = listing[engine].split()
    done = subprocess.run(command, env=started.environment, capture_output=True, text=True, check=True)
    assert done.stdout == ""


def test_the_layers_of_a_base_stay_where_they_are(
    tool: EngineTool, reference: Reference, registry: Registry, tmp_path: Path
) -> None:
    base = reference.with_tag("base")
    put(small_image(tmp_path, {"bin/opm": os.urandom(50_000)}, labels={"vendor": "someone"}), base)
    digest = tool.build(BUILD_SPEC, base, [reference], push=True)
    on_base, made = in_registry(base), in_registry(reference)
    assert made.digest == digest
    assert [layer.digest for layer in made.manifest.layers[:-1]] == [layer.digest for layer in on_base.manifest.layers]
    assert made.labels["vendor"] == "someone"
    assert tool.copy_file(reference, "bin/opm", tmp_path / "opm")
    assert (tmp_path / "opm").stat().st_size == 50_000
    assert made.labels["package.v1"] == "demo"


def test_an_image_just_built_is_a_base_before_it_is_pushed(
    tool: EngineTool, reference: Reference, caplog: pytest.LogCaptureFixture
) -> None:
    tool.build(BUILD_SPEC, None, [reference])
    second = reference.with_tag("2.0")
    tool.build(replace(BUILD_SPEC, files=(LayerFile("more", b""),), entrypoint=None, labels={}), reference, [second])
    assert "using the image with this name in the storage of" in caplog.text
    assert tool.inspect(second).labels["package.v1"] == "demo"
    assert tool.inspect(second).config.entrypoint == ("/bin/opm",)
    assert tool.read_tree(second, ["manifests", "more"]) == {
        "manifests/csv.yaml": FILES["manifests/csv.yaml"],
        "more": b"",
    }


def test_a_tag_is_looked_up_anew_by_every_tool(engine: str, reference: Reference, tmp_path: Path) -> None:
    for content in (b"old", b"new"):
        put(small_image(tmp_path, {"manifests/a": content}), reference)
        assert open_engine(engine, HTTP).read_tree(reference, ["manifests"]) == {"manifests/a": content}


def test_an_image_by_its_digest(tool: EngineTool, reference: Reference, tmp_path: Path) -> None:
    image = small_image(tmp_path, {"manifests/a": b"a"})
    put(image, reference)
    put(small_image(tmp_path, {"manifests/a": b"b"}), reference)
    by_digest = replace(reference, digest=image.digest)
    assert tool.read_tree(by_digest, ["manifests"]) == {"manifests/a": b"a"}
    assert tool.digest(by_digest) != tool.digest(reference)
    assert tool.digest(by_digest) == tool.digest(reference.with_digest(image.digest))
    tool.build(BUILD_SPEC, by_digest, [reference.with_tag("on")])
    assert "manifests/a" in tool.read_tree(reference.with_tag("on"), ["manifests"])


@pytest.mark.parametrize("engine", ["podman", "buildah"], indirect=True)
@pytest.mark.parametrize("form", ImageFormat)
def test_formats(engine: str, form: ImageFormat, registry: Registry) -> None:
    reference = Reference(registry.host, f"engines/{engine}/formats", form)
    open_engine(engine, HTTP, form).build(BUILD_SPEC, None, [reference], push=True)
    image = in_registry(reference)
    assert image.manifest.media_type == form.manifest_type
    assert image.manifest.config.media_type == media_types.convert_for(form.manifest_type, media_types.OCI_CONFIG)
    if form is ImageFormat.OCI:
        assert image.manifest.annotations["note"] == "a b"
    assert json.loads(skopeo("inspect", "--tls-verify=false", f"docker://{reference}"))["Digest"] == image.digest


@pytest.mark.parametrize("engine", ["podman", "buildah"], indirect=True)
def test_the_same_files_give_the_same_digest_at_another_time(tool: EngineTool, reference: Reference) -> None:
    spec = replace(BUILD_SPEC, labels={str(number): "" for number in range(20)})  # in an order of any kind
    tool.build(spec, None, [reference], push=True)
    time.sleep(1.1)  # no clock that ticks in seconds may show in the result
    tool.build(spec, None, [reference.with_tag("later")], push=True)
    first, later = in_registry(reference), in_registry(reference.with_tag("later"))
    assert (first.config.raw, first.manifest.raw) == (later.config.raw, later.manifest.raw)
    tool.build(replace(spec, created=86400), None, [reference.with_tag("dated")], push=True)
    assert in_registry(reference.with_tag("dated")).config.created.startswith("1970-01-02T00:00:00")


def test_docker_builds_in_its_own_format(
    registry: Registry, docker_daemon: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", docker_daemon.settings["DOCKER_HOST"])
    reference = Reference(registry.host, "engines/docker/format", "1")
    open_engine("docker", HTTP, ImageFormat.DOCKER).build(BUILD_SPEC, None, [reference], push=True)
    assert in_registry(reference).manifest.media_type == media_types.DOCKER_MANIFEST
    with pytest.raises(ImageToolsError, match="unsupported image format oci") as caught:
        open_engine("docker", HTTP, ImageFormat.OCI)
    assert "v2s2" in str(caught.value.hint)


def test_engines_read_images_of_each_other(
    registry: Registry, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ENGINES:
        use_engine(name, request, monkeypatch)
    for builder in ENGINES:
        reference = Reference(registry.host, "engines/each-other", builder)
        open_engine(builder, HTTP).build(BUILD_SPEC, None, [reference], push=True)
        for reader in ENGINES:
            assert open_engine(reader, HTTP).read_tree(reference, ["manifests", "metadata"]) == FILES


def test_what_is_not_there(tool: EngineTool, reference: Reference) -> None:
    for missing in (reference.with_tag("none"), reference.with_digest(f"sha256:{'0' * 64}")):
        with pytest.raises(NotFound, match=str(missing)) as caught:
            tool.read_tree(missing, ["manifests"])
        assert str(caught.value.hint)
    with pytest.raises(NotFound):
        tool.build(BUILD_SPEC, reference.with_tag("none"), [reference])


def test_a_registry_that_is_away(tool: EngineTool, engine: str) -> None:
    away = Reference("127.0.0.1:1", f"engines/{engine}/away", "1")
    with pytest.raises(RegistryUnavailable, match=f"{away}: {engine}: .*connection refused"):
        tool.build(BUILD_SPEC, None, [away], push=True)


def test_a_build_that_fails_shows_its_log(tool: EngineTool, engine: str, reference: Reference) -> None:
    with pytest.raises(EngineError, match=f"{reference}: {engine} build failed: ") as caught:
        tool.build(replace(BUILD_SPEC, exposed_ports=("${port",)), None, [reference])
    assert "COPY rootfs/ /" in caught.value.message
    assert len(caught.value.message) < 6000


def test_a_file_that_no_disk_can_hold(tool: EngineTool, reference: Reference) -> None:
    with pytest.raises(ImageToolsError, match=r"(?i)name too long|bytes per file name"):
        tool.build(BuildSpec((LayerFile("manifests/" + 300 * "x", b""),)), None, [reference])


def authfile(registry: Registry, directory: Path, password: str) -> RegistryOptions:
    path = directory / f"{password}.json"
    auth = base64.b64encode(f"tester:{password}".encode()).decode()
    path.write_text(json.dumps({"auths": {registry.host: {"auth": auth}}}))
    return RegistryOptions(plain_http=True, authfile=path)


def test_credentials_go_with_pulls_and_pushes(engine: str, basic_registry: Registry, tmp_path: Path) -> None:
    reference = Reference(basic_registry.host, "engines/private", "1")
    right, wrong = (authfile(basic_registry, tmp_path, password) for password in ("secret", "mistaken"))
    empty = replace(wrong, authfile=tmp_path / "empty.json")
    (tmp_path / "empty.json").write_text("{}")
    open_engine(engine, right).build(BUILD_SPEC, None, [reference], push=True)
    other = reference.with_tag("other")
    put(in_registry(reference, right), other, right)
    for options in (wrong, empty):
        with pytest.raises(AuthenticationFailed) as caught:
            open_engine(engine, options).inspect(other)
        assert "mistaken" not in caught.value.message
        with pytest.raises(AuthenticationFailed):
            open_engine(engine, options).build(BUILD_SPEC, None, [reference], push=True)
    assert open_engine(engine, right).read_tree(other, ["manifests", "metadata"]) == FILES


def test_no_secret_is_on_a_command_line(
    basic_registry: Registry, container_storage: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = require("buildah")
    for key, value in container_storage.settings.items():
        monkeypatch.setenv(key, value)
    spy = tmp_path / "bin" / "buildah"
    spy.parent.mkdir()
    spy.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/arguments\n'
        f'for a in "$@"; do case $a in --authfile=*) stat -c %a "${{a#*=}}" >> {tmp_path}/modes;; esac; done\n'
        f'exec {program} "$@"\n'
    )
    spy.chmod(0o755)
    monkeypatch.setenv("PATH", f"{spy.parent}:{os.environ['PATH']}")
    reference = Reference(basic_registry.host, "engines/spied", "1")
    options = authfile(basic_registry, tmp_path, "secret")
    open_engine("buildah", options).build(BUILD_SPEC, None, [reference], push=True)
    open_engine("buildah", options).inspect(reference)
    seen = (tmp_path / "arguments").read_text()
    assert "push" in seen
    assert "secret" not in seen
    assert base64.b64encode(b"tester:secret").decode() not in seen
    assert set((tmp_path / "modes").read_text().split()) == {"600"}


def test_without_root_buildahs_files_are_read_in_its_user_namespace(
    registry: Registry, container_storage: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = require("buildah")
    for key, value in container_storage.settings.items():
        monkeypatch.setenv(key, value)
    wrapper = tmp_path / "bin" / "buildah"  # the namespace itself can't be had where the tests may run as root only
    wrapper.parent.mkdir()
    wrapper.write_text(
        f'#!/bin/sh\nif [ "$1" = unshare ]; then touch {tmp_path}/unshared; shift; exec "$@"; fi\nexec {program} "$@"\n'
    )
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    tool = open_engine("buildah", HTTP)
    reference = Reference(registry.host, "engines/rootless", "1")
    tool.build(BUILD_SPEC, None, [reference])
    assert tool.read_tree(reference, ["manifests", "metadata"]) == FILES
    assert (tmp_path / "unshared").exists()


@pytest.mark.parametrize("engine", ["podman", "buildah"], indirect=True)
def test_tls(engine: str, tls_registry: Registry, tmp_path: Path) -> None:
    reference = Reference(tls_registry.host, "engines/tls", "1")
    unverified = RegistryOptions(verify_tls=False)
    open_engine(engine, unverified).build(BUILD_SPEC, None, [reference], push=True)
    put(in_registry(reference, unverified), reference.with_tag("2"), unverified)
    with pytest.raises(InsecureTransport, match="x509") as caught:
        open_engine(engine, RegistryOptions()).inspect(reference.with_tag("2"))
    assert "skip_tls_verify" in str(caught.value.hint)
    assert open_engine(engine, unverified).inspect(reference.with_tag("2")).labels["package.v1"] == "demo"
    with_authority = RegistryOptions(ca_file=tls_registry.ca_file)
    if engine == "buildah":
        open_engine(engine, with_authority).build(BUILD_SPEC, None, [reference], push=True)
        (tmp_path / "certificates").mkdir()
        (tmp_path / "certificates" / "ca.crt").symlink_to(tls_registry.ca_file)
        from_directory = RegistryOptions(cert_dir=tmp_path / "certificates")
        assert open_engine(engine, from_directory).inspect(reference.with_tag("2")).labels["package.v1"] == "demo"


@pytest.mark.parametrize("name", ["docker", "podman"])
def test_certificate_authorities_that_an_engine_is_not_told_of(name: str, tmp_path: Path) -> None:
    with pytest.raises(ImageToolsError, match=f"{name}: unsupported") as caught:
        open_engine(name, RegistryOptions(ca_file=tmp_path / "ca.pem"))
    assert "certs.d" in str(caught.value.hint)
    with pytest.raises(ImageToolsError, match=f"{name}: unsupported"):
        open_engine(name, RegistryOptions(cert_dir=tmp_path))


@pytest.mark.parametrize("engine", ["podman", "buildah"], indirect=True)
def test_a_registry_without_encryption_is_not_spoken_to_unless_allowed(engine: str, reference: Reference) -> None:
    with pytest.raises(InsecureTransport, match="HTTP response to HTTPS client") as caught:
        open_engine(engine, RegistryOptions()).inspect(reference)
    assert "plain_http" in str(caught.value.hint)


def test_docker_is_not_told_how_to_speak_to_registries(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        open_engine("docker", HTTP)
    assert "insecure-registries" in caplog.text


def test_images_that_are_not_in_registries(tool: EngineTool, reference: Reference, tmp_path: Path) -> None:
    layout = parse_image_reference(f"oci:{tmp_path}/layout:1")
    RegistryTool(RegistryClient(HTTP), ImageStore.open()).build(BUILD_SPEC, None, [layout])
    assert tool.inspect(layout).labels["package.v1"] == "demo"
    assert tool.read_tree(layout, ["manifests", "metadata"]) == FILES
    tool.extract(layout, tmp_path / "all")
    first = next(iter(FILES))
    assert tool.copy_file(layout, first, tmp_path / "one")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "all" / first).read_bytes() == FILES[first]
    with pytest.raises(ImageToolsError, match="not the name of an image in a registry"):
        tool.build(BUILD_SPEC, None, [layout])
    with pytest.raises(ImageToolsError, match="not the name of an image in a registry"):
        tool.build(BUILD_SPEC, layout, [reference])
    with pytest.raises(ImageToolsError, match="cannot store a new image by digest"):
        tool.build(BUILD_SPEC, None, [reference.with_digest(f"sha256:{'0' * 64}")])


class TestDockerAddress:
    """Where the daemon is found."""

    @pytest.fixture(autouse=True)
    def _home(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("HOME", "XDG_RUNTIME_DIR"):
            monkeypatch.setenv(name, str(tmp_path / name.lower()))
            (tmp_path / name.lower()).mkdir()

    def find(self) -> None:
        missing = Reference("127.0.0.1:1", "nothing", "1")
        with pytest.raises(RegistryUnavailable):
            open_engine("docker", RegistryOptions()).inspect(missing)

    @pytest.mark.parametrize("socket", ["home/.docker/run/docker.sock", "xdg_runtime_dir/docker.sock"])
    def test_sockets_of_users(self, socket: str, docker_daemon: Engine, tmp_path: Path) -> None:
        (tmp_path / socket).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / socket).symlink_to(docker_daemon.settings["DOCKER_HOST"].removeprefix("unix://"))
        self.find()

    @pytest.mark.parametrize("chosen_by", ["config.json", "DOCKER_CONTEXT"])
    def test_contexts(
        self, chosen_by: str, docker_daemon: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        config = tmp_path / "home" / ".docker"
        meta = config / "contexts" / "meta" / sha256(b"mine").hexdigest() / "meta.json"
        meta.parent.mkdir(parents=True)
        endpoint = {"Host": docker_daemon.settings["DOCKER_HOST"], "SkipTLSVerify": False}
        meta.write_text(json.dumps({"Name": "mine", "Metadata": {}, "Endpoints": {"docker": endpoint}}))
        (config / "config.json").write_text(
            json.dumps({"currentContext": "mine"} if chosen_by == "config.json" else {"auths": {}})
        )
        if chosen_by == "DOCKER_CONTEXT":
            monkeypatch.setenv("DOCKER_CONTEXT", "mine")
        self.find()

    def test_a_context_that_is_not_there(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DOCKER_CONTEXT", "gone")
        with pytest.raises(EngineUnavailable, match="docker context 'gone' not found"):
            open_engine("docker", RegistryOptions()).inspect(Reference.parse("x"))

    def test_no_daemon(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(EngineUnavailable) as caught:
            open_engine("docker", RegistryOptions()).inspect(Reference.parse("x"))
        for socket in ("/var/run/docker.sock", f"{tmp_path}/home/.docker/run/docker.sock"):
            assert f"unix://{socket} (no such file or directory)" in caught.value.message
        assert "DOCKER_HOST" in str(caught.value.hint)
        monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
        with pytest.raises(EngineUnavailable, match=r"tried tcp://127\.0\.0\.1:1 \(connection refused\)"):
            open_engine("docker", RegistryOptions()).inspect(Reference.parse("x"))

    def test_tls_needs_its_certificates(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
        monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
        monkeypatch.setenv("DOCKER_CERT_PATH", str(tmp_path / "no-certificates"))
        with pytest.raises(EngineUnavailable, match=r"at tcp://127\.0\.0\.1:1: .*certificate"):
            open_engine("docker", RegistryOptions()).inspect(Reference.parse("x"))


class TestPodmanAddress:
    """Where the service is found, or started."""

    def find(self, container_storage: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        for key, value in container_storage.settings.items():
            monkeypatch.setenv(key, value)
        with pytest.raises(RegistryUnavailable):
            open_engine("podman", RegistryOptions()).inspect(Reference("127.0.0.1:1", "nothing", "1"))

    @pytest.fixture
    def service(self, container_storage: Engine) -> PodmanService:
        return PodmanService(require("podman"), container_storage.environment)

    def test_named(self, service: PodmanService, container_storage: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CONTAINER_HOST", service.url)
        monkeypatch.setenv("PATH", "/nowhere")  # none can be started
        self.find(container_storage, monkeypatch)

    def test_socket_of_the_user(
        self, service: PodmanService, container_storage: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "podman").mkdir()
        (tmp_path / "podman" / "podman.sock").symlink_to(service.url.removeprefix("unix://"))
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
        monkeypatch.setenv("PATH", "/nowhere")
        self.find(container_storage, monkeypatch)

    def test_a_service_started_ends_with_its_user(self, container_storage: Engine) -> None:
        script = (
            "import os\n"
            "from opmkit.imagetools.engines.podman import connect\n"
            "client = connect(os.environ)\n"
            "assert client.ping()\n"
            "print(client._service._process.pid)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            env=container_storage.environment,
            check=True,
        )
        assert not Path("/proc", done.stdout.strip()).exists()
        assert not list(container_storage.path.glob("opm-podman-*"))

    def test_no_service(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", "/nowhere")
        with pytest.raises(EngineUnavailable, match="podman not found in PATH") as caught:
            open_engine("podman", RegistryOptions()).inspect(Reference.parse("x"))
        assert "CONTAINER_HOST" in str(caught.value.hint)
        monkeypatch.setenv("CONTAINER_HOST", "unix:///nowhere/podman.sock")
        with pytest.raises(EngineUnavailable, match=r"tried unix:///nowhere/podman\.sock"):
            open_engine("podman", RegistryOptions()).inspect(Reference.parse("x"))

    def test_a_service_that_goes_away(
        self, service: PodmanService, container_storage: Engine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CONTAINER_HOST", service.url)
        self.find(container_storage, monkeypatch)
        tool = open_engine("podman", RegistryOptions())
        with pytest.raises(RegistryUnavailable):
            tool.inspect(Reference("127.0.0.1:1", "nothing", "1"))
        service.stop()
        with pytest.raises(EngineError, match="no response from the service: no such file or directory"):
            tool.inspect(Reference("127.0.0.1:1", "nothing", "1"))

    def test_a_service_that_does_not_start(self, tmp_path: Path) -> None:
        broken = tmp_path / "podman"
        broken.write_text("#!/bin/sh\necho 'no space for podman' >&2\nexit 1\n")
        broken.chmod(0o755)
        with pytest.raises(EngineUnavailable, match="did not start: no space for podman"):
            PodmanService(str(broken), os.environ)


def test_no_buildah(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(EngineUnavailable, match="buildah not found in PATH"):
        open_engine("buildah", RegistryOptions()).inspect(Reference.parse("x"))


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ('Get "https://r/v2/": http: server gave HTTP response to HTTPS client', InsecureTransport),
        ("x509: certificate signed by unknown authority", InsecureTransport),
        ("pull access denied for x, repository does not exist or may require 'docker login'", AuthenticationFailed),
        ("unauthorized: authentication required", AuthenticationFailed),
        ("manifest unknown: manifest unknown", NotFound),
        ("dial tcp: lookup nowhere: no such host", RegistryUnavailable),
        ("received unexpected HTTP status: 502 Bad Gateway", RegistryUnavailable),
        ("toomanyrequests: rate limit exceeded", RegistryUnavailable),
        ("something else", EngineError),
    ],
)
def test_what_engines_say(said: str, kind: type[ImageToolsError]) -> None:
    error = engine_error("x:1", "podman", said, insecure_hint=CONTAINERS_INSECURE_HINT)
    assert type(error) is kind
    assert said in error.message


def test_what_engines_say_is_bounded_and_printable() -> None:
    error = engine_error("x:1", "podman", "\x1b[31mred\n" * 1000, insecure_hint="")
    assert len(error.message) < 600
    assert error.message.isprintable()


def test_links_of_a_mounted_image_lead_to_places_within_it(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "real").mkdir(parents=True)
    (root / "real" / "file").touch()
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "file").touch()
    for name, target in {
        "absolute": "/real",
        "relative": "real",
        "out": "../../secret",
        "host": str(tmp_path / "secret"),
        "loop": "loop",
    }.items():
        (root / name).symlink_to(target)
    for name in ("real", "absolute", "relative", "absolute/../real"):
        assert resolve_in_root(root, f"/{name}/file") == root / "real" / "file"
    for name in ("out/file", "host/file", "loop/file", "none", "../../secret/file"):
        assert resolve_in_root(root, name) is None
    assert resolve_in_root(root, "absolute") == root / "absolute"
    assert resolve_in_root(root, "/") == root
