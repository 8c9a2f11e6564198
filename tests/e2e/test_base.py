"""Base images of indexes: all their platforms are used and recorded, and their layers are not copied."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.copy import copy_image
from opmkit.imagetools.image import Image, ImageIndex, load_image_or_index
from opmkit.imagetools.layer import LayerFile, write_layer
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from opmkit.imagetools.spec import ConfigChanges, IndexManifest, Platform, media_types

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit.imagetools.repository import Repository
    from tests.kit.opm import Opm
    from tests.kit.registry import Registry

PLATFORMS = ("linux/amd64", "linux/arm64", "linux/s390x")


def repository(name: str) -> Repository:
    return RegistryClient(RegistryOptions(plain_http=True)).repository(Reference.parse(name))


def platform_image(platform: str, directory: Path, media_type: str) -> Image:
    """Return an image with a server for one platform, and with user, environment and labels."""
    layer = write_layer([LayerFile("bin/opm", f"for {platform}".encode())], directory)
    settings = ConfigChanges(env={"PATH": "/bin"}, user="1001", cmd=("sh",), labels={"vendor": "someone"})
    return Image.scratch(Platform.parse(platform), media_type).append([layer], settings)


@pytest.fixture(params=[media_types.OCI_MANIFEST, media_types.DOCKER_MANIFEST], ids=["oci", "docker"])
def base(request: pytest.FixtureRequest, registry: Registry, tmp_path: Path) -> str:
    """Push a multi-platform base image and return its reference."""
    images = [platform_image(platform, tmp_path, request.param) for platform in PLATFORMS]
    index_type = media_types.OCI_INDEX if request.param == media_types.OCI_MANIFEST else media_types.DOCKER_LIST
    placeholders = [image.manifest.descriptor for image in images]
    multi = ImageIndex(IndexManifest.build(placeholders, media_type=index_type), tuple(images)).with_images(images)
    name = f"{registry.host}/base-{tmp_path.name.replace('_', '-').lower()}"
    copy_image(multi, repository(name), "1")
    return f"{name}:1"


def test_every_platform_gets_the_database_without_copying_base_layers(
    base: str, opm_http: Opm, registry: Registry
) -> None:
    prefix = base.rpartition("/")[0] + "/on-" + base.rpartition("/")[2].rpartition(":")[0]
    bundles = [f"{prefix}/lagoon-operator:{version}" for version in ("0.1.0", "0.2.0")]
    for bundle in bundles:
        opm_http.build_bundle(bundle.rpartition(":")[2], bundle, "--push")
    before = len(registry.requests())

    opm_http("index", "add", "-b", bundles[0], "-i", base, "-t", f"{prefix}/catalog:1", "--push")
    opm_http("index", "add", "-b", bundles[1], "-f", f"{prefix}/catalog:1", "-t", f"{prefix}/catalog:2", "--push")

    on_base = load_image_or_index(repository(base.rpartition(":")[0]), "1")
    assert isinstance(on_base, ImageIndex)
    for tag in ("1", "2"):
        made = load_image_or_index(repository(f"{prefix}/catalog"), tag)
        assert isinstance(made, ImageIndex)
        assert tuple(str(image.config.platform) for image in made.images) == PLATFORMS
        for image, under in zip(made.images, on_base.images, strict=True):
            assert [layer.digest for layer in image.manifest.layers[:-1]] == [
                layer.digest for layer in under.manifest.layers
            ]
            assert image.config.entrypoint == ("/bin/opm",)
            assert image.config.user == "1001"
            assert image.labels["vendor"] == "someone"
            assert image.manifest.annotations["org.opencontainers.image.base.name"] == base
            assert image.manifest.annotations["org.opencontainers.image.base.digest"] == on_base.digest
    downloads = [
        request
        for request in registry.requests()[before:]
        for image in on_base.images
        if request.method == "GET" and image.manifest.layers[0].digest in request.path
    ]
    assert downloads == []
    assert "v0.2.0" in opm_http("alpha", "list", "bundles", f"{prefix}/catalog:2")


def test_binary_image_flag_takes_precedence_over_the_base_of_the_old_index(
    base: str, opm_http: Opm, registry: Registry
) -> None:
    prefix = f"{base.rpartition(':')[0]}/other"
    opm_http("index", "add", "-b", "", "-i", "scratch", "-t", f"{prefix}/catalog:1", "--push")
    opm_http("index", "add", "-b", "", "-f", f"{prefix}/catalog:1", "-i", base, "-t", f"{prefix}/catalog:2", "--push")
    described = json.loads(opm_http("image", "inspect", f"{prefix}/catalog:2", "-o", "json"))
    assert [image["platform"] for image in described["images"]] == list(PLATFORMS)
    assert {len(image["layers"]) for image in described["images"]} == {2}
