"""Fuzzing of parsers: damaged input gives a value or an ImageToolsError.

``OPMKIT_FUZZ`` multiplies the number of examples.
"""

from __future__ import annotations

import base64
import copy
import gzip
import json
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from opmkit.core.errors import LimitExceeded
from opmkit.imagetools.archive import ArchivedLayout, TarArchive, read_docker_archive
from opmkit.imagetools.credentials import AuthFile
from opmkit.imagetools.errors import ImageToolsError, InvalidReference
from opmkit.imagetools.layer import Limits, extract_tree, find_file, read_tree
from opmkit.imagetools.reference import Reference, parse_image_reference
from opmkit.imagetools.registry.authenticator import Challenge
from opmkit.imagetools.registry_config import RegistrySettings
from opmkit.imagetools.spec import ConfigChanges, ImageConfig, Manifest, parse_manifest
from opmkit.imagetools.store.layout import parse_index
from opmkit.imagetools.store.reader import LayoutReader
from tests.kit import zstd
from tests.kit.images import directory, hardlink, layer_source, member, symlink, tar


def examples(count: int) -> settings:
    return settings(max_examples=count * int(os.environ.get("OPMKIT_FUZZ", "1")))


# --- strategies for damaged input

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def children(value: object) -> list[tuple[Any, Any]]:
    """Return all values in a document as pairs of the container and the key or position."""
    match value:
        case dict():
            direct: list[tuple[Any, Any]] = [(value, key) for key in value]
        case list():
            direct = [(value, position) for position in range(len(value))]
        case _:
            return []
    return direct + [child for container, key in direct for child in children(container[key])]


@st.composite
def damaged_json(draw: st.DrawFn, document: object) -> bytes:
    """Replace values of a document by random or by other values of it, or remove them."""
    value = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        pairs = children(value)
        if not pairs:
            break
        container, key = draw(st.sampled_from(pairs))
        change = draw(st.sampled_from(["random", "other", "remove"]))
        if change == "remove":
            del container[key]
        else:
            other, other_key = draw(st.sampled_from(pairs))
            container[key] = draw(JSON) if change == "random" else copy.deepcopy(other[other_key])
    return json.dumps(value).encode()


@st.composite
def damaged_bytes(draw: st.DrawFn, content: bytes) -> bytes:
    """Change, remove or repeat slices of the content."""
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(content)))
        end = start + draw(st.integers(0, 64))
        replacement = draw(st.sampled_from([b"", content[start:end] * 2, bytes(512)]) | st.binary(max_size=64))
        content = content[:start] + replacement + content[end:]
    return content


@st.composite
def damaged_tar(draw: st.DrawFn, content: bytes) -> bytes:
    """Change bytes of tar headers and correct their checksums."""
    blocks = bytearray(content)
    headers = [offset for offset in range(0, len(blocks), 512) if blocks[offset + 257 : offset + 262] == b"ustar"]
    for _ in range(draw(st.integers(1, 4))):
        header = draw(st.sampled_from(headers))
        field = header + draw(st.integers(0, 500))
        change = draw(st.binary(min_size=1, max_size=12) | st.sampled_from([b"../../x\0", b"7777777\0", b"\xff" * 12]))
        blocks[field : field + len(change)] = change
        del blocks[len(content) :]
        blocks[header + 148 : header + 156] = b" " * 8
        blocks[header + 148 : header + 156] = b"%06o\0 " % sum(blocks[header : header + 512])
    return bytes(blocks)


# --- references

WORDS = (
    "oci: oci-archive: docker-archive: docker-daemon: containers-storage: store: docker:// dir: http:// quay.io "
    "localhost 127.0.0.1:5000 [::1]:80 a b_c A latest sha256: / : @ . - __ // .. @0 ~ \u00e9 \0 \u202e \ud800"
)
TEXTS = st.lists(st.sampled_from([*WORDS.split(" "), " ", "\n", "0" * 64]) | st.text(max_size=4), max_size=8).map(
    "".join
)


@pytest.mark.slow
@given(TEXTS)
@example("oci:a:b/")
@example(f"oci:a@sha256:{'0' * 64}/:1")
@examples(500)
def test_references(text: str) -> None:
    try:
        reference = parse_image_reference(text)
    except InvalidReference as error:
        if "@" not in text:  # which may end a login, and messages contain none
            assert repr(text) in error.message or text in error.message  # noqa: PT017
        return
    assert parse_image_reference(str(reference)) == reference


PARTS = st.lists(st.sampled_from(["a", "7", "b0", "zz"]), min_size=1, max_size=3)
NAMES = st.tuples(PARTS, st.sampled_from([".", "_", "__", "-", "--"])).map(lambda pair: pair[1].join(pair[0]))
HOSTS = st.sampled_from(["quay.io", "localhost", "127.0.0.1:5000", "[::1]:80", "UPPER", "a-b.c"])
TAGS = st.none() | st.sampled_from(["1", "_", "v1.2-3_x", "A" * 128])
DIGESTS = st.none() | st.sampled_from([f"sha256:{'0' * 64}", f"sha512:{'f' * 128}"])


@given(HOSTS, st.lists(NAMES, min_size=1, max_size=4).map("/".join), TAGS, DIGESTS)
@examples(200)
def test_reference_round_trip(host: str, repository: str, tag: str | None, digest: str | None) -> None:
    reference = Reference(host, repository, tag, digest)
    assert Reference.parse(str(reference)) == reference


# --- documents

DIGEST = f"sha256:{'1' * 64}"
LAYER = {"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": DIGEST, "size": 7, "urls": ["http://x"]}
CONFIG = {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": DIGEST, "size": 9, "data": "e30="}
MANIFEST = {
    "schemaVersion": 2,
    "mediaType": "application/vnd.oci.image.manifest.v1+json",
    "config": CONFIG,
    "layers": [LAYER, LAYER],
    "annotations": {"a": "b"},
}
ENTRY = {
    "mediaType": MANIFEST["mediaType"],
    "digest": DIGEST,
    "size": 5,
    "platform": {"os": "linux", "architecture": "arm", "variant": "v7", "os.version": "1", "os.features": ["x"]},
    "annotations": {"org.opencontainers.image.ref.name": "1"},
}
INDEX = {
    "schemaVersion": 2,
    "mediaType": "application/vnd.oci.image.index.v1+json",
    "manifests": [ENTRY, ENTRY],
    "annotations": {"a": "b"},
}
SETTINGS = {
    "os": "linux",
    "architecture": "amd64",
    "variant": "",
    "created": "1970-01-01T00:00:00Z",
    "config": {
        "Labels": {"a": "b"},
        "Env": ["A=b"],
        "Entrypoint": ["x"],
        "Cmd": ["y"],
        "User": "1",
        "WorkingDir": "/",
        "ExposedPorts": {"1/tcp": {}},
    },
    "rootfs": {"type": "layers", "diff_ids": [DIGEST, DIGEST]},
    "history": [{"created_by": "a"}, {"empty_layer": True}, {"comment": "c"}],
}


def damaged_documents(document: object) -> st.SearchStrategy[bytes]:
    random_json = JSON.map(lambda value: json.dumps(value).encode())
    return damaged_json(document) | damaged_bytes(json.dumps(document).encode()) | random_json


TYPES = st.sampled_from([None, "text/html", MANIFEST["mediaType"], INDEX["mediaType"]])


@pytest.mark.slow
@given(damaged_documents(MANIFEST) | damaged_documents(INDEX), TYPES)
@examples(300)
def test_manifests(raw: bytes, media_type: str | None) -> None:
    with suppress(ImageToolsError):
        parsed = parse_manifest(raw, media_type)
        assert parsed.raw == raw
        if isinstance(parsed, Manifest):
            assert Manifest.build(parsed.config, parsed.layers, parsed.annotations).layers == parsed.layers
        else:
            assert parsed.select() in parsed.manifests


@pytest.mark.slow
@given(damaged_documents(SETTINGS))
@examples(200)
def test_configurations(raw: bytes) -> None:
    with suppress(ImageToolsError):
        config = ImageConfig.parse(raw)
        assert config.raw == raw
        changes = ConfigChanges(
            labels={"l": "m"},
            env={"A": "c"},
            exposed_ports=["2/tcp"],
            entrypoint=["e"],
            cmd=["c"],
            user="u",
            working_dir="/w",
        )
        changed = config.with_changes(changes, [DIGEST])
        assert changed.labels == {**config.labels, "l": "m"}
        assert changed.diff_ids == (*config.diff_ids, DIGEST)
        assert changed.without_layers([0]).diff_ids == changed.diff_ids[1:]


@given(damaged_documents(INDEX))
@examples(100)
def test_indexes_of_layouts(raw: bytes) -> None:
    with suppress(ImageToolsError):
        parse_index(raw, "index.json")


# --- layers and archives

MEMBERS = [
    directory("manifests"),
    member("manifests/a.yaml", b"a: 1\n" * 200),
    symlink("manifests/b", "../outside"),
    hardlink("manifests/c", "manifests/a.yaml"),
    member("d/" * 60 + "long", b"x"),  # the name needs an extended header
    member("manifests/.wh.x"),
    member("d/.wh..wh..opq"),
]
ARCHIVE = tar(MEMBERS)
LIMITS = Limits(total_bytes=1 << 22, extracted_bytes=1 << 20, file_bytes=1 << 20, entries=500)


def read_in_scratch(read: Any) -> None:
    """Read into a new directory, and check that a file next to it is unchanged."""
    scratch = Path(tempfile.mkdtemp())
    try:
        (scratch / "outside").write_bytes(b"good")
        with suppress(ImageToolsError, LimitExceeded):
            read(scratch / "in")
        assert (scratch / "outside").read_bytes() == b"good"
        assert {path.name for path in scratch.iterdir()} <= {"outside", "in", "found"}
    finally:
        shutil.rmtree(scratch)


@pytest.mark.slow
@given(
    damaged_tar(ARCHIVE)
    | damaged_bytes(ARCHIVE)
    | damaged_bytes(gzip.compress(ARCHIVE, mtime=0))
    | damaged_bytes(zstd.compress(ARCHIVE))
    | damaged_tar(ARCHIVE).map(gzip.compress)
)
@examples(100)
def test_layers(content: bytes) -> None:
    source = layer_source(content)
    read_in_scratch(lambda directory: extract_tree([source], directory, limits=LIMITS))
    read_in_scratch(lambda directory: find_file([source], "manifests/a.yaml", directory.with_name("found"), LIMITS))
    with suppress(ImageToolsError, LimitExceeded):
        read_tree([source], ["manifests"], LIMITS)


def docker_archive() -> bytes:
    config = json.dumps({**SETTINGS, "rootfs": {"type": "layers", "diff_ids": [DIGEST]}}).encode()
    items = [{"Config": "c.json", "RepoTags": ["a:1"], "Layers": ["l/layer.tar"]}]
    files = {"manifest.json": json.dumps(items).encode(), "c.json": config, "l/layer.tar": tar([member("a", b"1")])}
    return tar([*(member(path, content) for path, content in files.items()), symlink("l/link", "../c.json")])


@given(damaged_tar(docker_archive()) | damaged_bytes(docker_archive()))
@examples(150)
def test_archives(content: bytes) -> None:
    with suppress(ImageToolsError):
        file = tempfile.TemporaryFile()  # noqa: SIM115 (the archive closes it)
        file.write(content)
        archive = TarArchive(file, "archive")
        with suppress(ImageToolsError):
            image = read_docker_archive(archive)
            for layer in image.get_manifest("").layers:
                image.open_blob(layer).read()
        LayoutReader(ArchivedLayout(archive)).resolve("")


# --- settings

SECRET = "s3cr3t-w0rd"
AUTHS = {
    "auths": {
        "quay.io/a": {"auth": base64.b64encode(f"me:{SECRET}".encode()).decode()},
        "quay.io": {"username": "me", "password": SECRET},
        "https://index.docker.io/v1/": {"identitytoken": SECRET},
        "x:5000": {"registrytoken": SECRET},
    },
    "credHelpers": {"gcr.io": "gcloud", "ecr.aws": ""},
    "credsStore": "keyring",
}


@pytest.mark.slow
@given(damaged_documents(AUTHS), st.sampled_from(["config.json", ".dockercfg"]))
@examples(200)
def test_credentials_files(content: bytes, name: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, name)
        path.write_bytes(content)
        try:
            file = AuthFile.read(path)
            assert file is not None
            for registry in ("quay.io", "docker.io", "x:5000", "gcr.io", "other"):
                credentials = file.find(registry, "a/b", lambda helper, server: None)
                if credentials:
                    credentials.basic().encode("latin-1")
                    assert SECRET not in repr(replace(credentials, username=""))
        except ImageToolsError as error:
            assert SECRET not in error.message + str(error.hint)  # noqa: PT017


REGISTRIES_CONF = """
unqualified-search-registries = ["quay.io", "docker.io"]
credential-helpers = ["containers-auth.json", "x"]
[aliases]
"a" = "quay.io/ns/a"
[[registry]]
prefix = "quay.io/ns"
location = "mirror.example.com:5000/ns"
insecure = true
blocked = false
mirror-by-digest-only = false
[[registry.mirror]]
location = "other.example.com/ns"
pull-from-mirror = "tag-only"
insecure = true
[[registry]]
location = "docker.io"
[[registry]]
prefix = "*.example.com"
"""
VALUES = st.sampled_from(
    [
        "true",
        "1",
        '""',
        '"a b"',
        '"*.x"',
        '"http://x"',
        '"UP/x"',
        "[]",
        '["a"]',
        "[1]",
        "{}",
        "{a=1}",
        "nan",
        "1979-05-27",
    ]
)


@st.composite
def damaged_toml(draw: st.DrawFn) -> bytes:
    """Remove, repeat or move lines of the settings, or change their values."""
    lines = REGISTRIES_CONF.strip().splitlines()
    for _ in range(draw(st.integers(1, 3))):
        position = draw(st.integers(0, len(lines) - 1))
        key, equals, _ = lines[position].partition(" = ")
        line = draw(VALUES.map(lambda value: f"{key} = {value}") if equals else st.sampled_from(lines))  # noqa: B023
        lines[position : position + draw(st.integers(0, 1))] = [line]
    return "\n".join(lines).encode()


@pytest.mark.slow
@given(damaged_toml() | damaged_bytes(REGISTRIES_CONF.encode()))
@examples(200)
def test_registries_conf(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "registries.conf")
        path.write_bytes(content)
        for text in ("a", "quay.io/ns/a:1", f"quay.io/ns/b@{DIGEST}", "x.example.com:1/y"):
            registry_settings = RegistrySettings({"CONTAINERS_REGISTRIES_CONF": str(path)}, system=Path(scratch))
            with suppress(ImageToolsError):
                reference = registry_settings.resolve_short_name(Reference.parse(text))
                registry_settings.push_location(reference)
                registry_settings.credential_helpers()
                for location in registry_settings.pull_locations(reference):
                    assert Reference(location.registry, location.repository)


HEADER_PARTS = st.sampled_from(["Bearer", "Basic", " ", ",", "=", '"', "\\", "realm", "scope", "x"])


@pytest.mark.slow
@given(st.lists(HEADER_PARTS | st.text(max_size=3)).map("".join))
@examples(200)
def test_challenges(header: str) -> None:
    challenge = Challenge.parse(header)
    assert challenge is None or challenge.scheme in {"basic", "bearer"}
