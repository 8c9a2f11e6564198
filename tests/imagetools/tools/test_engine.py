"""Options that engines support."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.credentials import Keychain
from opmkit.imagetools.engines.engine import EngineImage
from opmkit.imagetools.errors import ImageToolsError, NotFound
from opmkit.imagetools.image import Image
from opmkit.imagetools.image_format import ImageFormat
from opmkit.imagetools.layer import MEMORY_LIMITS
from opmkit.imagetools.platform_equality import ComparedContent
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from opmkit.imagetools.spec import media_types
from opmkit.imagetools.store import ImageStore
from opmkit.imagetools.tools.engine import EngineTool
from opmkit.imagetools.tools.registry import RegistryTool
from tests.imagetools.engines.helpers import BUILD_SPEC, HTTP, load_from_registry, open_engine
from tests.kit.bundles import push_image
from tests.kit.images import multi_image, small_image

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.engines import Engine
    from tests.kit.registry import Registry


def test_docker_supports_only_its_own_format(
    registry: Registry, docker_daemon: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", docker_daemon.settings["DOCKER_HOST"])
    reference = Reference(registry.host, "engines/docker/format", "1")
    open_engine("docker", HTTP, ImageFormat.DOCKER).build(BUILD_SPEC, None, [reference], push=True)
    assert load_from_registry(reference).manifest.media_type == media_types.DOCKER_MANIFEST
    with pytest.raises(ImageToolsError, match="unsupported image format oci") as caught:
        open_engine("docker", HTTP, ImageFormat.OCI)
    assert "v2s2" in str(caught.value.hint)


@pytest.mark.parametrize("name", ["docker", "podman"])
def test_certificates_are_unsupported(name: str, tmp_path: Path) -> None:
    with pytest.raises(ImageToolsError, match=f"{name}: unsupported") as caught:
        open_engine(name, RegistryOptions(ca_file=tmp_path / "ca.pem"))
    assert "certs.d" in str(caught.value.hint)
    with pytest.raises(ImageToolsError, match=f"{name}: unsupported"):
        open_engine(name, RegistryOptions(cert_dir=tmp_path))


def test_docker_ignores_tls_options(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        open_engine("docker", HTTP)
    assert "insecure-registries" in caplog.text


class FakeEngine:
    """An engine with one image, which it has pulled unless the registry has none."""

    name = "podman"

    def __init__(self, digest: str, *, pulls: bool) -> None:
        self.image = EngineImage(digest, Image.scratch().config)
        self.pulls = pulls

    def pull(self, name: str, credentials: object) -> None:
        if not self.pulls:
            raise NotFound(f"{name}: not found")

    def find(self, name: str) -> EngineImage:
        return self.image


def compare_platforms(reference: Reference, engine: FakeEngine, tmp_path: Path) -> Reference:
    client = RegistryClient(RegistryOptions(plain_http=True))
    local = RegistryTool(client, ImageStore.open(tmp_path / "store"))
    content = ComparedContent("io.bundle.", lambda _: ["manifests"], MEMORY_LIMITS)
    tool = EngineTool(engine, Keychain(None), client, local)  # type: ignore[arg-type]
    return tool.require_equal_platforms(reference, content)  # type: ignore[return-value]


def test_images_of_other_platforms_are_compared_in_the_registry(registry: Registry, tmp_path: Path) -> None:
    name = f"{registry.host}/engines/platforms"
    amd64 = small_image(tmp_path, {"manifests/a": b"a"})
    arm64 = small_image(tmp_path, {"manifests/a": b"a"}, platform="linux/arm64")
    other = small_image(tmp_path, {"manifests/a": b"b"}, platform="linux/s390x")
    equal = Reference.parse(push_image(f"{name}:equal", multi_image([amd64, arm64])))
    differing = Reference.parse(push_image(f"{name}:differing", multi_image([amd64, arm64, other])))
    for digest in (arm64.manifest.config.digest, arm64.digest):  # depending on the storage of the engine
        assert compare_platforms(equal, FakeEngine(digest, pulls=True), tmp_path) == equal
    with pytest.raises(ImageToolsError, match="differ in manifests/a"):
        compare_platforms(differing, FakeEngine(arm64.digest, pulls=True), tmp_path)
    with pytest.raises(ImageToolsError, match="podman has another image than the registry"):
        compare_platforms(equal, FakeEngine(other.digest, pulls=True), tmp_path)


def test_image_that_is_only_in_the_engine_is_not_compared(registry: Registry, tmp_path: Path) -> None:
    reference = Reference(registry.host, "engines/missing", "1")
    image = small_image(tmp_path, {"manifests/a": b"a"})
    assert compare_platforms(reference, FakeEngine(image.digest, pulls=False), tmp_path) == reference
    with pytest.raises(NotFound):
        compare_platforms(reference, FakeEngine(image.digest, pulls=True), tmp_path)
