from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opmkit.imagetools.errors import ImageToolsError, InvalidImage, LimitExceeded, NotFound, UnsupportedImage
from opmkit.imagetools.spec import (
    EPOCH,
    MAX_MANIFEST_SIZE,
    ConfigChanges,
    Descriptor,
    ImageConfig,
    IndexManifest,
    Manifest,
    Platform,
    check_digest,
    mediatypes,
    parse_manifest,
    sha256_digest,
)

DIGEST = "sha256:" + "a" * 64
OTHER = "sha256:" + "b" * 64
CONFIG = Descriptor(mediatypes.OCI_CONFIG, DIGEST, 7)
LAYER = Descriptor(mediatypes.OCI_LAYER_GZIP, OTHER, 70)


def image_json(**changes: Any) -> dict[str, Any]:
    value = {
        "schemaVersion": 2,
        "mediaType": mediatypes.OCI_MANIFEST,
        "config": CONFIG.to_json(),
        "layers": [LAYER.to_json()],
    }
    return {key: item for key, item in (value | changes).items() if item is not ...}


def parse(value: object, media_type: str | None = None) -> Manifest | IndexManifest:
    return parse_manifest(json.dumps(value).encode(), media_type)


def test_bytes_and_digest_survive() -> None:
    raw = json.dumps(image_json(unknown={"kept": [1, None]}, annotations={"a": "b"}), indent=3).encode() + b"\n"
    manifest = parse_manifest(raw, "application/vnd.oci.image.manifest.v1+json; charset=utf-8")
    assert isinstance(manifest, Manifest)
    assert manifest.raw == raw
    assert manifest.digest == sha256_digest(raw)
    assert manifest.descriptor == Descriptor(mediatypes.OCI_MANIFEST, sha256_digest(raw), len(raw))
    assert manifest.parts == (CONFIG, LAYER)
    assert manifest.annotations == {"a": "b"}


def test_building_does_not_depend_on_order() -> None:
    one = Manifest.build(CONFIG, [LAYER], {"a": "1", "b": "2"})
    assert one == Manifest.build(CONFIG, [LAYER], {"b": "2", "a": "1"})
    assert parse_manifest(one.raw) == one
    index = IndexManifest.build([one.descriptor], {"x": "y"}, mediatypes.DOCKER_LIST)
    assert parse_manifest(index.raw) == index


def test_null_counts_as_absent() -> None:
    manifest = parse(image_json(annotations=None, layers=None))
    assert isinstance(manifest, Manifest)
    assert manifest.layers == ()


@pytest.mark.parametrize(
    ("value", "media_type", "expected"),
    [
        (image_json(), "text/plain", mediatypes.OCI_MANIFEST),
        (image_json(mediaType=...), None, mediatypes.OCI_MANIFEST),
        (image_json(mediaType=...), mediatypes.DOCKER_MANIFEST, mediatypes.DOCKER_MANIFEST),
        (
            image_json(mediaType=..., config={**CONFIG.to_json(), "mediaType": mediatypes.DOCKER_CONFIG}),
            None,
            mediatypes.DOCKER_MANIFEST,
        ),
        ({"schemaVersion": 2, "manifests": []}, None, mediatypes.OCI_INDEX),
        ({"schemaVersion": 2, "manifests": []}, mediatypes.DOCKER_LIST, mediatypes.DOCKER_LIST),
    ],
)
def test_what_it_is(value: object, media_type: str | None, expected: str) -> None:
    assert parse(value, media_type).media_type == expected


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([], "manifest is []; it must be an object"),
        (image_json(schemaVersion=3), "schemaVersion"),
        (image_json(schemaVersion=...), "schemaVersion"),
        (image_json(config=...), "manifest.config is missing"),
        (image_json(config={**CONFIG.to_json(), "size": "7"}), "manifest.config.size is '7'"),
        (image_json(config={**CONFIG.to_json(), "size": -1}), "manifest.config.size"),
        (image_json(config={**CONFIG.to_json(), "size": True}), "manifest.config.size"),
        (image_json(config={**CONFIG.to_json(), "size": 2**63}), "manifest.config.size"),
        (image_json(config={**CONFIG.to_json(), "size": 2**70}), "manifest.config.size"),
        (image_json(layers=[LAYER.to_json(), 5]), "manifest.layers[1] is 5"),
        (image_json(layers=[{**LAYER.to_json(), "digest": "sha256:../../x"}]), "manifest.layers[0].digest"),
        (image_json(layers={}), "manifest.layers"),
        (image_json(annotations={"a": 1}), "manifest.annotations.a is 1"),
        (image_json(mediaType=7), "manifest.mediaType is 7"),
        (image_json(manifests=[]), "image and index at once"),
        (image_json(mediaType=mediatypes.OCI_INDEX), "doesn't fit its type"),
        (image_json(layers=[{**LAYER.to_json(), "platform": {"os": 1}}]), "layers[0].platform.os"),
    ],
)
def test_what_is_broken_is_named(value: object, said: str) -> None:
    with pytest.raises(InvalidImage) as caught:
        parse(value)
    assert said in caught.value.message


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff", b'{"a":NaN}', b'{"a":"\\ud800"}', b"<html>"])
def test_what_is_no_json(raw: bytes) -> None:
    with pytest.raises(InvalidImage):
        parse_manifest(raw)


def test_registry_and_document_have_to_agree() -> None:
    with pytest.raises(InvalidImage, match="its own mediaType"):
        parse(image_json(), mediatypes.DOCKER_MANIFEST)


def test_an_unknown_type_is_named() -> None:
    with pytest.raises(UnsupportedImage, match=r"application/vnd\.example"):
        parse(image_json(mediaType="application/vnd.example+json"))


@pytest.mark.parametrize(
    ("value", "media_type"),
    [
        ({"schemaVersion": 1, "fsLayers": []}, None),
        ({"schemaVersion": 1}, "application/json"),
        ({}, "application/vnd.docker.distribution.manifest.v1+prettyjws"),
        ({}, "application/vnd.docker.distribution.manifest.v1+json"),
    ],
)
def test_schema_1_says_how_to_convert(value: object, media_type: str | None) -> None:
    with pytest.raises(UnsupportedImage, match="schema 1") as caught:
        parse(value, media_type)
    assert "skopeo copy --format v2s2" in caught.value.advice


def test_bounds() -> None:
    with pytest.raises(LimitExceeded, match=str(MAX_MANIFEST_SIZE)):
        parse_manifest(b" " * (MAX_MANIFEST_SIZE + 1))
    with pytest.raises(LimitExceeded, match=r"manifest\.layers"):
        parse(image_json(layers=[0] * 20_000))
    with pytest.raises(LimitExceeded, match="nested"):
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
def test_any_json_is_read_or_refused(value: dict[str, Any]) -> None:
    try:
        parse(value)
    except ImageToolsError as error:
        assert error.message  # noqa: PT017


def test_digests() -> None:
    assert sha256_digest(b"") == "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert check_digest(DIGEST) == DIGEST
    for bad in ("", "sha256:", "sha256:" + "A" * 64, DIGEST + "0", "md5:" + "a" * 32, DIGEST + "\n", "sha256:../x"):
        with pytest.raises(InvalidImage):
            check_digest(bad)


# --- platforms


def entry(text: str, number: int, **more: Any) -> Descriptor:
    return Descriptor(mediatypes.OCI_MANIFEST, f"sha256:{number:064}", 1, Platform.parse(text), **more)


ARM = entry("linux/arm64/v8", 1)
AMD = entry("linux/amd64", 2)
ARMV6 = entry("linux/arm/v6", 3)
ARMV7 = entry("linux/arm/v7", 4)
ATTESTATION = entry("unknown/unknown", 5)
REFERRING = entry("linux/amd64", 6, annotations={"vnd.docker.reference.type": "attestation-manifest"})


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("linux/amd64", AMD),
        ("linux/arm64", ARM),
        ("linux/arm64/v8", ARM),
        ("linux/arm", ARMV6),
        ("linux/arm/v7", ARMV7),
    ],
)
def test_selecting_a_platform(wanted: str, expected: Descriptor) -> None:
    index = IndexManifest.build([ATTESTATION, REFERRING, ARM, AMD, ARMV6, ARMV7])
    assert index.select(Platform.parse(wanted)) == expected


def test_selecting_without_a_platform_gives_the_same_image_on_every_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    nameless = Descriptor(mediatypes.OCI_MANIFEST, DIGEST, 1)
    windows = replace(AMD, platform=Platform("windows", "amd64", os_version="10.0.17763"))
    newer = replace(AMD, platform=Platform("windows", "amd64", os_version="10.0.20348"))
    by_preference = [AMD, ARMV6, ARMV7, ARM, nameless, windows, newer]
    assert [str(each.platform) for each in by_preference[1:4]] == ["linux/arm/v6", "linux/arm/v7", "linux/arm64/v8"]
    for machine in ("aarch64", "x86_64", "s390x"):
        monkeypatch.setattr("platform.machine", lambda machine=machine: machine)
        for position, expected in enumerate(by_preference):
            there = by_preference[position:]
            assert IndexManifest.build([ATTESTATION, *there]).select() == expected
            assert IndexManifest.build([*reversed(there), REFERRING]).select() == expected


@pytest.mark.parametrize("manifests", [[], [ATTESTATION, REFERRING]])
def test_attestations_are_never_selected(manifests: list[Descriptor]) -> None:
    with pytest.raises(NotFound, match="has no image"):
        IndexManifest.build(manifests).select()
    with pytest.raises(NotFound, match="has no image for unknown/unknown"):
        IndexManifest.build([*manifests, AMD]).select(Platform("unknown", "unknown"))


def test_a_platform_that_is_not_there() -> None:
    with pytest.raises(NotFound, match="linux/s390x"):
        IndexManifest.build([AMD]).select(Platform.parse("linux/s390x"))


@pytest.mark.parametrize("text", ["", "linux", "linux/", "/amd64", "linux/arm/", "linux/arm/v7/x"])
def test_what_is_no_platform(text: str) -> None:
    with pytest.raises(ImageToolsError, match="no platform"):
        Platform.parse(text)


def test_descriptors_round_trip() -> None:
    platform = Platform("windows", "amd64", os_version="10.0", os_features=("win32k",))
    descriptor = Descriptor("t/x", DIGEST, 1, platform, {"a": "b"}, ("https://example.com/x",), "a/b", "ZGF0YQ==")
    assert Descriptor.from_json(descriptor.to_json()) == descriptor
    assert len({descriptor, Descriptor.from_json(descriptor.to_json())}) == 1


# --- configurations

CONFIGURATION = {
    "architecture": "arm64",
    "os": "linux",
    "variant": "v8",
    "created": "2024-01-02T03:04:05Z",
    "x-unknown": {"kept": True},
    "config": {
        "Labels": {"b": "1", "a": "2"},
        "Env": ["PATH=/bin", "A=1"],
        "Entrypoint": None,
        "Cmd": ["sh"],
        "ExposedPorts": {"80/tcp": {}},
        "User": "1001",
        "WorkingDir": "/w",
        "StopSignal": "TERM",
    },
    "rootfs": {"type": "layers", "diff_ids": [DIGEST, OTHER]},
    "history": [
        {"created_by": "one"},
        {"created_by": "nothing", "empty_layer": True},
        {"created_by": "two"},
    ],
}


def config(**changes: Any) -> ImageConfig:
    return ImageConfig.parse(json.dumps(CONFIGURATION | changes).encode())


def test_reading_a_configuration() -> None:
    read = config()
    assert read.platform == Platform("linux", "arm64", "v8")
    assert read.labels == {"a": "2", "b": "1"}
    assert (read.env, read.entrypoint, read.cmd) == (("PATH=/bin", "A=1"), (), ("sh",))
    assert (read.exposed_ports, read.user, read.working_dir) == (("80/tcp",), "1001", "/w")
    assert read.diff_ids == (DIGEST, OTHER)
    assert [step.empty_layer for step in read.history] == [False, True, False]
    assert read.digest == sha256_digest(read.raw)


def test_changing_a_configuration() -> None:
    changes = ConfigChanges(
        labels={"c": "3", "a": "x"},
        env={"Z": "9", "A": "2", "B": "3"},
        exposed_ports=["50051/tcp"],
        entrypoint=["/bin/opm"],
        cmd=[],
        user="",
    )
    changed = config().changed(changes, ["sha256:" + "c" * 64], created_by="test")
    assert changed.labels == {"a": "x", "b": "1", "c": "3"}
    assert changed.env == ("PATH=/bin", "A=2", "B=3", "Z=9")
    assert changed.exposed_ports == ("50051/tcp", "80/tcp")
    assert (changed.entrypoint, changed.cmd, changed.user, changed.working_dir) == (("/bin/opm",), (), "", "/w")
    assert changed.diff_ids == (DIGEST, OTHER, "sha256:" + "c" * 64)
    assert [step.created_by for step in changed.history] == ["one", "nothing", "two", "test"]
    assert changed.created == EPOCH
    value = json.loads(changed.raw)
    assert value["x-unknown"] == {"kept": True}
    assert value["config"]["StopSignal"] == "TERM"


def test_a_change_without_layers_is_an_empty_step() -> None:
    assert config().changed(ConfigChanges(cmd=["x"]), created="2020-01-01T00:00:00Z").history[-1].empty_layer


def test_the_digest_does_not_depend_on_order() -> None:
    one = config().changed(ConfigChanges(labels={"x": "1", "y": "2"}, env={"P": "1", "Q": "2"}))
    shuffled = ImageConfig.parse(json.dumps(dict(reversed(CONFIGURATION.items()))).encode())
    assert one == shuffled.changed(ConfigChanges(labels={"y": "2", "x": "1"}, env={"Q": "2", "P": "1"}))


def test_dropping_layers_drops_their_history() -> None:
    left = config().without_layers({0})
    assert left.diff_ids == (OTHER,)
    assert [step.created_by for step in left.history] == ["nothing", "two"]
    assert config().without_layers({1, 0}).history[0].created_by == "nothing"
    assert json.loads(config().raw)["history"] == CONFIGURATION["history"]


@pytest.mark.parametrize("history", [[], None, [{"created_by": "one"}], [{}, {}, {}]])
def test_a_history_that_does_not_fit_is_dropped(history: object) -> None:
    assert config(history=history).changed(ConfigChanges(), [DIGEST]).history == ()
    assert config(history=history).without_layers({0}).history == ()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"config": {"Labels": {"a": 1}}}, "config.config.Labels.a"),
        ({"config": []}, "config.config"),
        ({"config": {"Env": ["A=1", 2]}}, "config.config.Env[1]"),
        ({"rootfs": {"diff_ids": ["x"]}}, "'x' is no digest"),
        ({"history": [{"empty_layer": "yes"}]}, "config.history[0].empty_layer"),
        ({"os": 5}, "config.os"),
    ],
)
def test_broken_configurations_name_the_field(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidImage) as caught:
        config(**changes)
    assert said in caught.value.message


def test_scratch() -> None:
    scratch = ImageConfig.scratch(Platform.parse("linux/arm/v7"))
    assert str(scratch.platform) == "linux/arm/v7"
    assert scratch.diff_ids == ()
    assert b"variant" not in ImageConfig.scratch(Platform.parse("linux/amd64")).raw
