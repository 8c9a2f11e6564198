"""Parsing and building of image manifests and image indexes."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from opmkit.core.errors import LimitExceeded
from opmkit.imagetools.errors import ImageToolsError, InvalidImage, NotFound, UnsupportedImage
from opmkit.imagetools.spec import (
    MAX_MANIFEST_SIZE,
    Descriptor,
    IndexManifest,
    Manifest,
    Platform,
    media_types,
    parse_manifest,
    sha256_digest,
)

DIGEST = "sha256:" + "a" * 64
CONFIG = Descriptor(media_types.OCI_CONFIG, DIGEST, 7)
LAYER = Descriptor(media_types.OCI_LAYER_GZIP, "sha256:" + "b" * 64, 70)


def image_json(**changes: Any) -> dict[str, Any]:
    """Return an image manifest with changed fields; ``...`` removes a field."""
    value = {
        "schemaVersion": 2,
        "mediaType": media_types.OCI_MANIFEST,
        "config": CONFIG.to_json(),
        "layers": [LAYER.to_json()],
    }
    return {key: item for key, item in (value | changes).items() if item is not ...}


def parse(value: object, content_type: str | None = None) -> Manifest | IndexManifest:
    return parse_manifest(json.dumps(value).encode(), content_type)


DESCRIPTOR = json.dumps(LAYER.to_json())


@pytest.mark.parametrize(
    ("more", "names"),
    [
        (f'"layers": [{DESCRIPTOR}]', "'layers' and 'layers'"),
        (f'"Layers": [{DESCRIPTOR}]', "'layers' and 'Layers'"),
        (f'"layer\u017f": [{DESCRIPTOR}]', "'layers' and 'layer\u017f'"),
        ('"config": {}', "'config' and 'config'"),
        ('"x": {"a": {"os": "unknown", "OS": "linux"}}', "'os' and 'OS'"),
        ('"annotations": {"a": "1", "a": "2"}', "'a' and 'a'"),
    ],
)
def test_fields_that_go_reads_in_another_way(more: str, names: str) -> None:
    with pytest.raises(InvalidImage, match=f"ambiguous fields {names}"):
        parse_manifest(f"{json.dumps(image_json())[:-1]}, {more}}}".encode())


def test_names_of_annotations_may_differ_in_case() -> None:
    assert parse(image_json(annotations={"a": "1", "A": "2"})).annotations == {"a": "1", "A": "2"}


def test_parsing_preserves_bytes_and_digest() -> None:
    raw = json.dumps(image_json(unknown={"x": [1, None]}, annotations={"a": "b"}), indent=3).encode() + b"\n"
    manifest = parse_manifest(raw, "application/vnd.oci.image.manifest.v1+json; charset=utf-8")
    assert isinstance(manifest, Manifest)
    assert manifest.raw == raw
    assert manifest.digest == sha256_digest(raw)
    assert manifest.descriptor == Descriptor(media_types.OCI_MANIFEST, sha256_digest(raw), len(raw))
    assert manifest.children == (CONFIG, LAYER)
    assert manifest.annotations == {"a": "b"}


def test_building_is_independent_of_order() -> None:
    manifest = Manifest.build(CONFIG, [LAYER], {"a": "1", "b": "2"})
    assert manifest == Manifest.build(CONFIG, [LAYER], {"b": "2", "a": "1"})
    assert parse_manifest(manifest.raw) == manifest
    index = IndexManifest.build([manifest.descriptor], {"x": "y"}, media_types.DOCKER_LIST)
    assert parse_manifest(index.raw) == index


def test_null_counts_as_absent() -> None:
    manifest = parse(image_json(annotations=None, layers=None))
    assert isinstance(manifest, Manifest)
    assert manifest.layers == ()


@pytest.mark.parametrize(
    ("value", "content_type", "expected"),
    [
        (image_json(), "text/plain", media_types.OCI_MANIFEST),
        (image_json(mediaType=...), None, media_types.OCI_MANIFEST),
        (image_json(mediaType=...), media_types.DOCKER_MANIFEST, media_types.DOCKER_MANIFEST),
        (
            image_json(mediaType=..., config={**CONFIG.to_json(), "mediaType": media_types.DOCKER_CONFIG}),
            None,
            media_types.DOCKER_MANIFEST,
        ),
        ({"schemaVersion": 2, "manifests": []}, None, media_types.OCI_INDEX),
        ({"schemaVersion": 2, "manifests": []}, media_types.DOCKER_LIST, media_types.DOCKER_LIST),
    ],
)
def test_media_type(value: object, content_type: str | None, expected: str) -> None:
    assert parse(value, content_type).media_type == expected


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "manifest: expected an object, got []"),
        (image_json(schemaVersion=3), "manifest.schemaVersion: expected 2"),
        (image_json(schemaVersion=...), "manifest.schemaVersion: expected 2"),
        (image_json(config=...), "manifest.config: missing"),
        (image_json(config={**CONFIG.to_json(), "size": "7"}), "manifest.config.size: expected a non-negative integer"),
        (image_json(config={**CONFIG.to_json(), "size": -1}), "manifest.config.size"),
        (image_json(config={**CONFIG.to_json(), "size": True}), "manifest.config.size"),
        (image_json(config={**CONFIG.to_json(), "size": 2**63}), "manifest.config.size"),
        (image_json(config={**CONFIG.to_json(), "size": 2**70}), "manifest.config.size"),
        (image_json(layers=[LAYER.to_json(), 5]), "manifest.layers[1]: expected an object, got 5"),
        (image_json(layers=[{**LAYER.to_json(), "digest": "sha256:../../x"}]), "manifest.layers[0].digest"),
        (image_json(layers={}), "manifest.layers"),
        (image_json(annotations={"a": 1}), "manifest.annotations.a: expected a string, got 1"),
        (image_json(mediaType=7), "manifest.mediaType: expected a string, got 7"),
        (image_json(manifests=[]), "the fields of an image and of an index"),
        (image_json(mediaType=media_types.OCI_INDEX), "do not match its type"),
        (image_json(layers=[{**LAYER.to_json(), "platform": {"os": 1}}]), "layers[0].platform.os"),
    ],
)
def test_errors_name_the_field(value: object, message: str) -> None:
    with pytest.raises(InvalidImage) as caught:
        parse(value)
    assert message in caught.value.message


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff", b'{"a":NaN}', b'{"a":"\\ud800"}', b"<html>"])
def test_invalid_json(raw: bytes) -> None:
    with pytest.raises(InvalidImage, match="manifest: invalid JSON: "):
        parse_manifest(raw)


def test_content_type_contradicts_the_document() -> None:
    with pytest.raises(InvalidImage, match="ambiguous manifest: mediaType is"):
        parse(image_json(), media_types.DOCKER_MANIFEST)


def test_unknown_media_type() -> None:
    with pytest.raises(UnsupportedImage, match=r"application/vnd\.example"):
        parse(image_json(mediaType="application/vnd.example+json"))


@pytest.mark.parametrize(
    ("value", "content_type"),
    [
        ({"schemaVersion": 1, "fsLayers": []}, None),
        ({"schemaVersion": 1}, "application/json"),
        ({}, "application/vnd.docker.distribution.manifest.v1+prettyjws"),
        ({}, "application/vnd.docker.distribution.manifest.v1+json"),
    ],
)
def test_docker_schema_1_error_suggests_a_conversion(value: object, content_type: str | None) -> None:
    with pytest.raises(UnsupportedImage, match="schema 1") as caught:
        parse(value, content_type)
    assert "skopeo copy --format v2s2" in str(caught.value.hint)


def test_limits() -> None:
    with pytest.raises(LimitExceeded, match=str(MAX_MANIFEST_SIZE)):
        parse_manifest(b" " * (MAX_MANIFEST_SIZE + 1))
    with pytest.raises(LimitExceeded, match=r"manifest\.layers"):
        parse(image_json(layers=[0] * 20_000))
    with pytest.raises(LimitExceeded, match="nesting"):
        parse_manifest(b'{"a":' + b"[" * 200 + b"]" * 200 + b"}")
    with pytest.raises(InvalidImage):
        parse_manifest(b"[" * 1_000_000)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=9),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=9), children, max_size=3),
    max_leaves=5,
)
KEYS = st.sampled_from(["schemaVersion", "mediaType", "config", "layers", "manifests", "annotations"])


@given(st.dictionaries(KEYS, JSON | st.just(2) | st.just([LAYER.to_json()]) | st.just(CONFIG.to_json())))
def test_random_json_raises_no_other_errors(value: dict[str, Any]) -> None:
    try:
        parse(value)
    except ImageToolsError as error:
        assert error.message  # noqa: PT017


# --- selecting a platform


def entry(platform: str, number: int, **fields: Any) -> Descriptor:
    return Descriptor(media_types.OCI_MANIFEST, f"sha256:{number:064}", 1, Platform.parse(platform), **fields)


ARM64 = entry("linux/arm64/v8", 1)
AMD64 = entry("linux/amd64", 2)
ARM_V6 = entry("linux/arm/v6", 3)
ARM_V7 = entry("linux/arm/v7", 4)
UNKNOWN = entry("unknown/unknown", 5)
ATTESTATION = entry("linux/amd64", 6, annotations={"vnd.docker.reference.type": "attestation-manifest"})


@pytest.mark.parametrize(
    ("platform", "expected"),
    [
        ("linux/amd64", AMD64),
        ("linux/arm64", ARM64),
        ("linux/arm64/v8", ARM64),
        ("linux/arm", ARM_V6),
        ("linux/arm/v7", ARM_V7),
    ],
)
def test_select(platform: str, expected: Descriptor) -> None:
    index = IndexManifest.build([UNKNOWN, ATTESTATION, ARM64, AMD64, ARM_V6, ARM_V7])
    assert index.select(Platform.parse(platform)) == expected


def test_selection_without_a_platform_is_independent_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    without_platform = Descriptor(media_types.OCI_MANIFEST, DIGEST, 1)
    windows = replace(AMD64, platform=Platform("windows", "amd64", os_version="10.0.17763"))
    newer_windows = replace(AMD64, platform=Platform("windows", "amd64", os_version="10.0.20348"))
    by_preference = [AMD64, ARM_V6, ARM_V7, ARM64, without_platform, windows, newer_windows]
    assert [str(image.platform) for image in by_preference[1:4]] == ["linux/arm/v6", "linux/arm/v7", "linux/arm64/v8"]
    for machine in ("aarch64", "x86_64", "s390x"):
        monkeypatch.setattr("os.uname", lambda machine=machine: SimpleNamespace(machine=machine))
        for position, expected in enumerate(by_preference):
            images = by_preference[position:]
            assert IndexManifest.build([UNKNOWN, *images]).select() == expected
            assert IndexManifest.build([*reversed(images), ATTESTATION]).select() == expected


@pytest.mark.parametrize("manifests", [[], [UNKNOWN, ATTESTATION]])
def test_attestations_are_never_selected(manifests: list[Descriptor]) -> None:
    with pytest.raises(NotFound, match="has no image"):
        IndexManifest.build(manifests).select()
    with pytest.raises(NotFound, match="has no image for unknown/unknown"):
        IndexManifest.build([*manifests, AMD64]).select(Platform("unknown", "unknown"))


def test_select_a_missing_platform() -> None:
    with pytest.raises(NotFound, match="linux/s390x"):
        IndexManifest.build([AMD64]).select(Platform.parse("linux/s390x"))
