"""Platforms of index images, and selection of a platform when images are read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from opmkit.imagetools.image import Image, ImageIndex, load_image_or_index
from opmkit.imagetools.reference import parse_image_reference
from opmkit.imagetools.spec import Descriptor, IndexManifest, Platform
from tests.kit.bundles import bundle_content, bundle_image, open_repository, push_image, resolve_digest
from tests.kit.content import put_image
from tests.kit.images import multi_image, small_image

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.opm import Opm
    from tests.kit.registry import Registry

PLATFORMS = ["linux/amd64", "linux/arm/v6", "linux/arm/v7", "linux/arm64", "linux/s390x"]


@pytest.fixture
def prefix(registry: Registry, tmp_path: Path) -> str:
    """Return a unique repository prefix in the registry."""
    return f"{registry.host}/platforms-{tmp_path.name.replace('_', '-').replace('[', '').lower()}"


def with_attestations(image: ImageIndex, name: str) -> str:
    """Push an image with an attestation manifest before each image, as buildkit does, and return its reference."""
    repository = open_repository(name)
    push_image(name, image)
    manifests: list[Descriptor] = []
    for manifest in image.index.manifests:
        statement = put_image(repository, "attestation", manifest.digest.encode()).descriptor
        about = {"vnd.docker.reference.type": "attestation-manifest", "vnd.docker.reference.digest": manifest.digest}
        manifests += [replace(statement, platform=Platform("unknown", "unknown"), annotations=about), manifest]
    repository.put_manifest(IndexManifest.build(manifests), name.rpartition(":")[2])
    return name


@pytest.fixture
def base(prefix: str, tmp_path: Path) -> str:
    """Push a multi-platform base image with attestations."""
    images = [small_image(tmp_path, {"bin/opm": name.encode()}, platform=name) for name in PLATFORMS]
    return with_attestations(multi_image(images), f"{prefix}/base:1")


def loaded(name: str) -> Image | ImageIndex:
    return load_image_or_index(open_repository(name), parse_image_reference(name).identifier)  # type: ignore[union-attr]


def platforms(name: str) -> list[str]:
    """Return the platforms of an image index, which must contain no attestations."""
    image = loaded(name)
    assert isinstance(image, ImageIndex)
    assert len(image.index.manifests) == len(image.images)
    assert [str(image.config.platform) for image in image.images] == [
        str(manifest.platform) for manifest in image.index.manifests
    ]
    return [str(image.config.platform) for image in image.images]


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ([], PLATFORMS),
        (["--platform", "linux/s390x,linux/amd64"], ["linux/amd64", "linux/s390x"]),
        (["--platform", "linux/s390x", "--platform", "linux/amd64"], ["linux/amd64", "linux/s390x"]),
        (["--platform", "linux/arm"], ["linux/arm/v6", "linux/arm/v7"]),
    ],
)
def test_index_has_the_platforms_of_its_base_or_of_the_flag(
    flags: list[str], expected: list[str], opm_http: Opm, prefix: str, base: str
) -> None:
    target = f"{prefix}/catalog:1"
    opm_http.here("index", "add", "-b", "", "-i", base, "-t", target, "--push", *flags)
    assert platforms(target) == expected


def test_single_platform_results_in_an_image_manifest(opm_http: Opm, prefix: str, base: str) -> None:
    target = f"{prefix}/catalog:1"
    for platform in ("linux/arm64", "linux/arm/v7"):
        opm_http.here("index", "add", "-b", "", "-i", base, "-t", target, "--push", "--platform", platform)
        image = loaded(target)
        assert isinstance(image, Image)
        assert str(image.config.platform) == platform
        assert image.manifest.annotations["org.opencontainers.image.base.digest"] == resolve_digest(base)


@pytest.mark.parametrize(
    "change", [("add", "-b", ""), ("prune", "-p", ""), ("prune-stranded",), ("update", "--rm", "")]
)
def test_every_change_can_narrow_an_index(change: tuple[str, ...], opm_http: Opm, prefix: str, base: str) -> None:
    opm_http.here("index", "add", "-b", "", "-i", base, "-t", f"{prefix}/catalog:1", "--push")
    flags = ("-f", f"{prefix}/catalog:1", "-t", f"{prefix}/catalog:2", "--push", "--platform", "linux/arm")
    opm_http.here("index", *change, *flags)
    assert platforms(f"{prefix}/catalog:2") == ["linux/arm/v6", "linux/arm/v7"]
    assert platforms(f"{prefix}/catalog:1") == PLATFORMS


def test_platforms_of_the_binary_image_take_precedence_over_the_old_index(
    opm_http: Opm, prefix: str, base: str, tmp_path: Path
) -> None:
    push_image(f"{prefix}/other:1", multi_image([small_image(tmp_path, {"x": b""}, platform="linux/ppc64le")]))
    opm_http.here("index", "add", "-b", "", "-i", base, "-t", f"{prefix}/catalog:1", "--push")
    flags = ("-i", f"{prefix}/other:1", "--platform", "linux/ppc64le", "-t", f"{prefix}/catalog:2", "--push")
    opm_http.here("index", "add", "-b", "", "-f", f"{prefix}/catalog:1", *flags)
    image = loaded(f"{prefix}/catalog:2")
    assert isinstance(image, Image)
    assert image.config.architecture == "ppc64le"


def test_scratch_is_available_for_every_platform(opm: Opm) -> None:
    for value, expected in (
        ("linux/arm64", ["linux/arm64"]),
        ("linux/arm64,linux/amd64", ["linux/arm64", "linux/amd64"]),
    ):
        opm.here("index", "add", "-b", "", "-i", "scratch", "-t", f"oci:{opm.directory}/x:1", "--platform", value)
        described = json.loads(opm.here("image", "inspect", f"oci:{opm.directory}/x:1", "-o", "json"))
        assert [image["platform"] for image in described["images"]] == expected


def test_missing_platform_is_an_error_that_lists_those_of_the_base(
    opm_http: Opm, prefix: str, base: str, tmp_path: Path
) -> None:
    target = f"{prefix}/catalog:1"
    plain = push_image(f"{prefix}/plain:1", small_image(tmp_path, {"x": b""}, platform="linux/arm64"))
    opm_http.here("index", "add", "-b", "", "-i", plain, "-t", target, "--push", "--platform", "linux/arm64")
    cases = {
        (base, "linux/ppc64le"): f"base image {base} has no image for linux/ppc64le",
        (base, "linux/arm/v5"): ", ".join(PLATFORMS),
        (base, "unknown/unknown"): "has no image for unknown/unknown",
        (plain, "linux/amd64"): "choose one of its platforms: linux/arm64\n",
        (base, "arm64"): "invalid platform 'arm64'",
        (base, "linux/amd64,linux"): "invalid platform 'linux'",
    }
    before = resolve_digest(target)
    for (image, platform), problem in cases.items():
        done = opm_http.attempt("index", "add", "-b", "", "-i", image, "-t", target, "--push", "--platform", platform)
        assert done.returncode == 1
        assert problem in done.stderr
    assert resolve_digest(target) == before


def test_platform_flag_is_rejected_for_dockerfiles(opm: Opm) -> None:
    done = opm.attempt("index", "add", "-b", "", "--generate", "--platform", "linux/amd64")
    assert done.returncode == 1
    assert "--platform and --generate are mutually exclusive" in done.stderr
    assert list(opm.directory.iterdir()) == []


# --- bundles for several platforms


@pytest.mark.parametrize(
    ("there", "chosen"),
    [
        (["linux/arm64", "linux/amd64", "windows/amd64"], 1),
        (["windows/amd64", "linux/s390x", "linux/arm64"], 2),
        (["windows/arm64", "windows/amd64"], 1),
    ],
)
def test_selected_platform_of_a_bundle_does_not_depend_on_the_machine(
    there: list[str], chosen: int, opm_http: Opm, prefix: str, tmp_path: Path
) -> None:
    """Each platform has a file outside of the bundle, which identifies the image that was read."""
    bundle = bundle_content("demo", "1.0.0")
    images = [small_image(tmp_path, {**bundle, "platform": name.encode()}, platform=name) for name in there]
    for number, order in enumerate((images, images[::-1])):
        plain = push_image(f"{prefix}/demo:{number}", multi_image(order))
        for name in (plain, with_attestations(multi_image(order), f"{prefix}/demo:a{number}")):
            out = opm_http.directory / name.rpartition(":")[2]
            opm_http.here("bundle", "unpack", name, "--out", str(out))
            assert (out / "platform").read_text() == there[chosen]


def test_base_with_only_attestations_is_an_error(opm_http: Opm, prefix: str, tmp_path: Path) -> None:
    name = with_attestations(multi_image([bundle_image("demo", "1.0.0", tmp_path)]), f"{prefix}/demo:1")
    index = open_repository(name).get_manifest("1")
    assert isinstance(index, IndexManifest)
    open_repository(name).put_manifest(IndexManifest.build(index.manifests[:1]), "none")
    none = f"{prefix}/demo:none"
    for argv in (
        ("registry", "add", "-b", none),
        ("index", "add", "-b", "", "-i", none),
        ("index", "export", "-i", none),
    ):
        done = opm_http.attempt(*argv)
        assert done.returncode == 1
        assert "has no image" in done.stderr


def test_nested_image_indexes(opm_http: Opm, prefix: str, tmp_path: Path) -> None:
    name = push_image(f"{prefix}/demo:1", multi_image([bundle_image("demo", "1.0.0", tmp_path)]))
    repository = open_repository(name)
    repository.put_manifest(IndexManifest.build([repository.resolve("1")]), "2")
    for argv in (
        ("registry", "add", "-b", f"{prefix}/demo:2"),
        ("index", "add", "-b", "", "-i", f"{prefix}/demo:2", "-t", "x:1"),
    ):
        done = opm_http.attempt(*argv)
        assert done.returncode == 1
        assert "unsupported nested index" in done.stderr
        assert "hint: name" in done.stderr
