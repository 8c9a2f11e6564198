"""Options that engines support."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.errors import ImageToolsError
from opmkit.imagetools.image_format import ImageFormat
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryOptions
from opmkit.imagetools.spec import media_types
from tests.imagetools.engines.helpers import BUILD_SPEC, HTTP, load_from_registry, open_engine

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
