"""Archives of images: what others write is read, what is written here others read, and hostile ones do no harm."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import tarfile
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import zstandard

from opmkit.imagetools.archive import (
    ArchivedLayout,
    TarArchive,
    TarWriter,
    new_archive,
    read_docker_archive,
    write_docker_archive,
    write_oci_archive,
)
from opmkit.imagetools.archive import reader as members_module
from opmkit.imagetools.copy import copy_image
from opmkit.imagetools.errors import (
    DigestMismatch,
    ImageToolsError,
    InvalidImage,
    LimitExceeded,
    NotFound,
    StoreError,
    UnsupportedImage,
)
from opmkit.imagetools.image import Image, load_image, load_image_or_index
from opmkit.imagetools.layer import Compression, LayerFile, Limits, read_tree, write_layer
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.spec import Descriptor, Manifest, Platform, media_types, sha256_digest
from opmkit.imagetools.store import LayoutRepository
from opmkit.imagetools.store.reader import LayoutReader
from tests.kit.engines import skopeo
from tests.kit.images import Member, directory, hardlink, layer_source, member, multi_image, small_image, symlink, tar
from tests.kit.requirements import require

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kit.engines import DockerDaemon, Engine

FILES = {"manifests/a.yaml": b"a: 1\n", "é/" + "x" * 120: b"\0" * 1000}
LABELS = {"a": "b"}
NAME = Reference.parse("quay.io/me/lagoon:1.0")


@pytest.fixture
def image(tmp_path: Path) -> Image:
    """Two layers."""
    top = write_layer([LayerFile("top", b"top")], tmp_path)
    return small_image(tmp_path, FILES, labels=LABELS).append([top])


def content(image: Image) -> dict[str, bytes]:
    return read_tree(reversed(image.layers), [""])


def docker_image(path: Path, name: Reference | None = None, position: int | None = None) -> Image:
    return load_image(read_docker_archive(TarArchive.open(path), name, position), "")


def oci_image(path: Path, identifier: str = "") -> Image:
    return load_image(LayoutReader(ArchivedLayout(TarArchive.open(path))), identifier)


def written(path: Path, *members: Member) -> Path:
    path.write_bytes(tar(members))
    return path


# --- members


def test_members_are_read_in_any_order_and_at_once(tmp_path: Path) -> None:
    contents = {f"d/{number}": os.urandom(300_000) for number in range(8)}
    archive = TarArchive.open(written(tmp_path / "a.tar", directory("d/"), *map(member, contents, contents.values())))
    found: dict[str, bytes] = {}

    def read(name: str) -> None:
        with archive.stream(f"./{name}") as stream:
            found[name] = stream.read()

    threads = [threading.Thread(target=read, args=(name,)) for name in reversed(contents)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == contents
    assert "d" not in archive
    assert archive.member("d/3").size == 300_000


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.ZstdCompressor().compress])
def test_compressed_archives(compress: Callable[[bytes], bytes], tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(compress(tar([member("x", b"1")])))
    assert TarArchive.open(tmp_path / "a").read("x", 10) == b"1"


def test_an_archive_from_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    content = tar([member("x", b"1" * 100_000)])
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(content,))
    writer.start()
    assert TarArchive.open(tmp_path / "pipe").read("x", 200_000) == b"1" * 100_000
    writer.join()


def test_links_within_the_archive(tmp_path: Path) -> None:
    links = [symlink("a/s", "../b/x"), hardlink("h", "./b/x"), symlink("c", "a/s"), symlink("up", "../../b/x")]
    archive = TarArchive.open(written(tmp_path / "a.tar", *links, member("b/x", b"1")))
    for name in ("a/s", "h", "c", "up", "b/x"):
        assert name in archive
        assert archive.read(name, 10) == b"1"


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ([member("../x", b"1")], "'../x' points outside the archive"),
        ([member("a/../../x", b"1")], "points outside the archive"),
        ([member("x", b"1"), member("./x", b"2")], "duplicate member 'x'"),
        ([member("x", b"1"), symlink("x", "y")], "duplicate member 'x'"),
        ([member("x", kind=tarfile.CHRTYPE)], "'x' is a device or a named pipe"),
        ([member("x", kind=tarfile.FIFOTYPE)], "'x' is a device or a named pipe"),
        ([symlink("x", "y"), symlink("y", "x")], "'x': too many levels of links"),
        ([symlink("x", "x")], "too many levels of links"),
        ([symlink("x", "/etc/passwd")], "member 'x' not found"),
        ([symlink("x", "../../etc/passwd")], "member 'x' not found"),
        ([hardlink("x", "y")], "member 'x' not found"),
        ([], "member 'x' not found"),
        ([directory("x")], "member 'x' not found"),
    ],
)
def test_hostile_members(members: list[Member], says: str, tmp_path: Path) -> None:
    path = written(tmp_path / "evil.tar", member("before", b""), *members)
    with pytest.raises(InvalidImage) as caught:
        TarArchive.open(path).read("x", 10)
    assert caught.value.message.startswith(f"{path}: ")
    assert says in caught.value.message
    assert str(caught.value.hint)


def test_a_sparse_member(tmp_path: Path) -> None:
    with (tmp_path / "holes").open("wb") as file:
        file.truncate(1 << 20)
    subprocess.run([require("tar"), "--sparse", "-cf", "a.tar", "holes"], cwd=tmp_path, check=True)
    with pytest.raises(InvalidImage, match=r"'holes' is not a plain file"):
        TarArchive.open(tmp_path / "a.tar")


WHOLE = tar([member("first", b"1" * 5000), member("x", b"2" * 5000)])


@pytest.mark.parametrize("length", [0, 1, 511, 512, 3000, 5632, 6000, 6655, 6656, 8000, 11143])
def test_truncated_archives(length: int, tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(WHOLE[:length])
    with pytest.raises(InvalidImage, match=r"a\.tar"):
        TarArchive.open(tmp_path / "a.tar").read("x", 10_000)
    (tmp_path / "a.tgz").write_bytes(gzip.compress(WHOLE)[: length // 100])
    with pytest.raises(InvalidImage, match=r"a\.tgz"):
        TarArchive.open(tmp_path / "a.tgz").read("x", 10_000)


@pytest.mark.parametrize("end", [b"", bytes(512), bytes(1024), bytes(10240)])
def test_ends_that_others_write(end: bytes, tmp_path: Path) -> None:
    whole = WHOLE.rstrip(b"\0")
    (tmp_path / "a.tar").write_bytes(whole + bytes(-len(whole) % 512) + end)
    assert TarArchive.open(tmp_path / "a.tar").read("x", 10_000) == b"2" * 5000


def broken_header(archive: bytes) -> bytes:
    """The second header with a wrong checksum."""
    return archive[:5632] + b"?" + archive[5633:]


def negative_size(archive: bytes) -> bytes:
    """A first member of size -512 in base 256, with the right checksum."""
    header = bytearray(archive[:512])
    header[124:136] = (-512).to_bytes(12, "big", signed=True)
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + archive[512:]


@pytest.mark.parametrize("damage", [broken_header, negative_size, lambda _: b"no tar at all" * 1000])
def test_damaged_archives(damage: Callable[[bytes], bytes], tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(damage(WHOLE))
    with pytest.raises(InvalidImage, match=r"a\.tar"):
        TarArchive.open(tmp_path / "a.tar")


def test_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "a.tar", *(member(str(number)) for number in range(11)), member("big", bytes(100)))
    assert "10" in TarArchive.open(path)
    with pytest.raises(LimitExceeded, match=r"a\.tar: member 'big' exceeds the limit of 99 bytes"):
        TarArchive.open(path).read("big", 99)
    monkeypatch.setattr(members_module, "MAX_MEMBERS", 11)
    with pytest.raises(LimitExceeded, match=r"a\.tar: exceeds the limit of 11 members"):
        TarArchive.open(path)
    bomb = tmp_path / "bomb"
    bomb.write_bytes(gzip.compress(bytes(3 << 20)))
    monkeypatch.setattr(members_module, "DISK_LIMITS", Limits(total_bytes=2 << 20))
    with pytest.raises(LimitExceeded, match="bomb: exceeds the limit of 2097152 decompressed bytes"):
        TarArchive.open(bomb)


def test_a_header_that_would_fill_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo("x")
        info.pax_headers = {"comment": "c" * 100_000}
        archive.addfile(info)
    with pytest.raises(InvalidImage, match="header"):
        TarArchive.open(path)


def test_there_is_no_archive(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="file does not exist"):
        TarArchive.open(tmp_path / "none.tar")
    with pytest.raises(StoreError, match="directory"):
        TarArchive.open(tmp_path)


def test_an_archive_that_shrinks_while_it_is_read(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tar", member("x", bytes(5_000_000)))
    archive = TarArchive.open(path)
    os.truncate(path, 1_000_000)
    with pytest.raises(InvalidImage, match="truncated while it was read"):
        archive.read("x", 10_000_000)


# --- written


def put(path: Path, image: Image, kind: str = "docker") -> Descriptor:
    with new_archive(path) as writer:
        if kind == "docker":
            return write_docker_archive(image, writer, NAME)
        return write_oci_archive(image, writer, "1.0")


@pytest.mark.parametrize("kind", ["docker", "oci"])
def test_the_same_image_gives_the_same_bytes(kind: str, image: Image, tmp_path: Path) -> None:
    put(tmp_path / "one.tar", image, kind)
    copy_image(image, LayoutRepository(tmp_path / "layout"), "1")
    put(tmp_path / "two.tar", load_image(LayoutRepository(tmp_path / "layout"), "1"), kind)
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()
    assert (tmp_path / "one.tar").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("kind", ["docker", "oci"])
def test_an_archive_appears_whole_or_not_at_all(kind: str, image: Image, tmp_path: Path) -> None:
    for path in image.local_layers.values():
        path.write_bytes(path.read_bytes()[:-9] + b"something")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/old.tar").write_bytes(b"old")
    for name in ("old.tar", "new.tar"):
        with pytest.raises(ImageToolsError, match="sha256:"):
            put(tmp_path / "out" / name, image, kind)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["old.tar"]
    assert (tmp_path / "out/old.tar").read_bytes() == b"old"


def test_where_an_archive_may_go(image: Image, tmp_path: Path) -> None:
    (tmp_path / "link.tar").symlink_to("real.tar")
    put(tmp_path / "link.tar", image)
    assert (tmp_path / "link.tar").is_symlink()
    assert docker_image(tmp_path / "real.tar").config == image.config
    put(tmp_path / "new/directory/a.tar", image)
    for bad in (tmp_path, Path("/dev/null")):
        with pytest.raises(StoreError, match="is not a file"):
            put(bad, image)
    assert Path("/dev/null").is_char_device()


# --- OCI


def test_an_oci_archive_keeps_the_digest(image: Image, tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    assert put(path, image, "oci") == image.manifest.descriptor
    for identifier in ("", "1.0", image.digest):
        read = oci_image(path, identifier)
        assert read == image
        assert content(read) == content(image)
    with pytest.raises(NotFound, match=r"a\.tar: image 2 not found") as caught:
        oci_image(path, "2")
    assert "1.0" in str(caught.value.hint)
    with pytest.raises(NotFound, match=r"manifest sha256:0+ not found"):
        oci_image(path, "sha256:" + "0" * 64)


def test_an_oci_archive_of_several_platforms(tmp_path: Path) -> None:
    image = multi_image([small_image(tmp_path, FILES, platform=name) for name in ("linux/amd64", "linux/arm64")])
    with new_archive(tmp_path / "a.tar") as writer:
        assert write_oci_archive(image, writer) == image.index.descriptor
    layout = LayoutReader(ArchivedLayout(TarArchive.open(tmp_path / "a.tar")))
    assert load_image_or_index(layout, "") == replace(image, source=layout)
    assert load_image(layout, "", Platform.parse("linux/arm64")) == image.images[1]
    assert list(layout.tags()) == []


def test_skopeo_reads_our_oci_archive_and_we_its(image: Image, tmp_path: Path) -> None:
    put(tmp_path / "ours.tar", image, "oci")
    assert json.loads(skopeo("inspect", f"oci-archive:{tmp_path}/ours.tar:1.0"))["Digest"] == image.digest
    skopeo("copy", "-q", f"oci-archive:{tmp_path}/ours.tar", f"oci-archive:{tmp_path}/theirs.tar:quay.io/me/x:2")
    theirs = oci_image(tmp_path / "theirs.tar", "quay.io/me/x:2")
    assert theirs == image
    assert content(theirs) == content(image)


def test_oci_archives_with_something_wrong(image: Image, tmp_path: Path) -> None:
    put(tmp_path / "whole.tar", image, "oci")
    whole = TarArchive.open(tmp_path / "whole.tar")
    top = f"blobs/sha256/{image.digest[7:]}"
    names = ["oci-layout", "index.json", top, *(f"blobs/sha256/{part.digest[7:]}" for part in image.manifest.children)]
    contents = {name: whole.read(name, 1 << 20) for name in names}

    def without(name: str, put_there: bytes | None = None) -> Path:
        changed = {**contents, name: put_there}
        kept = {name: content for name, content in changed.items() if content is not None}
        return written(tmp_path / "x.tar", *map(member, kept, kept.values()))

    for name, error in (("oci-layout", InvalidImage), ("index.json", InvalidImage), (top, NotFound)):
        with pytest.raises(error, match=r"x\.tar"):
            oci_image(without(name))
    with pytest.raises(NotFound, match=rf"x\.tar: member {names[-1]} not found"):
        content(oci_image(without(names[-1])))
    with pytest.raises(DigestMismatch, match=rf"x\.tar: blob sha256:{names[-1][-64:]}"):
        content(oci_image(without(names[-1], contents[names[-1]][:-1] + b"?")))
    with pytest.raises(DigestMismatch, match=r"x\.tar"):
        oci_image(without(top, b"{}"))
    with pytest.raises(InvalidImage, match=r"x\.tar: index\.json is not an image index"):
        oci_image(without("index.json", image.manifest.raw))
    with pytest.raises(LimitExceeded, match=r"x\.tar: member 'index\.json'"):
        oci_image(without("index.json", b" " * (5 << 20)))
    put(tmp_path / "docker.tar", image)
    with pytest.raises(InvalidImage, match="does not contain an OCI layout") as caught:
        oci_image(tmp_path / "docker.tar")
    assert "docker-archive:" in str(caught.value.hint)


# --- docker


def test_a_docker_archive_keeps_configuration_and_content(image: Image, tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    descriptor = put(path, image)
    for read in (docker_image(path), docker_image(path, NAME), docker_image(path, None, 0)):
        assert read.manifest.descriptor == descriptor
        assert read.config == image.config
        assert content(read) == content(image)
    assert descriptor.media_type == media_types.DOCKER_MANIFEST


@pytest.mark.parametrize("compression", Compression)
def test_layers_are_uncompressed_in_a_docker_archive(compression: Compression, tmp_path: Path) -> None:
    layer = write_layer([LayerFile("a", b"1" * 10_000)], tmp_path, compression=compression)
    put(tmp_path / "a.tar", Image.scratch().append([layer, layer]))
    archive = TarArchive.open(tmp_path / "a.tar")
    assert sha256_digest(archive.read(f"{layer.diff_id[7:]}.tar", 1 << 20)) == layer.diff_id
    assert content(docker_image(tmp_path / "a.tar")) == {"a": b"1" * 10_000}


def test_from_a_docker_archive_layers_are_compressed_again(image: Image, tmp_path: Path) -> None:
    put(tmp_path / "a.tar", image)
    layout = LayoutRepository(tmp_path / "layout")
    copied = copy_image(docker_image(tmp_path / "a.tar"), layout, "1")
    loaded = load_image(layout, "1")
    assert loaded.digest == copied.digest
    assert loaded.config == image.config
    assert [layer.digest for layer in loaded.manifest.layers] == [layer.digest for layer in image.manifest.layers]
    assert loaded.as_oci().digest == image.digest  # the bytes that came out of the first compression


def test_an_image_made_on_one_from_an_archive(image: Image, tmp_path: Path) -> None:
    put(tmp_path / "a.tar", image)
    layer = write_layer([LayerFile("more", b"more")], tmp_path)
    made = docker_image(tmp_path / "a.tar").as_oci().append([layer])
    layout = LayoutRepository(tmp_path / "layout")
    copy_image(made, layout, "1")
    assert content(load_image(layout, "1")) == {**content(image), "more": b"more"}
    assert load_image(layout, "1").digest == image.append([layer]).digest
    put(tmp_path / "b.tar", made)
    assert content(docker_image(tmp_path / "b.tar")) == {**content(image), "more": b"more"}


def test_what_does_not_go_into_a_docker_archive(image: Image, tmp_path: Path) -> None:
    layers = [
        replace(layer, media_type="application/vnd.docker.image.rootfs.foreign.diff.tar.gzip")
        for layer in image.manifest.layers
    ]
    elsewhere = replace(image, manifest=Manifest.build(image.manifest.config, layers))
    with pytest.raises(UnsupportedImage, match="cannot contain foreign layers"):
        put(tmp_path / "a.tar", elsewhere)
    lying = replace(image, manifest=Manifest.build(image.manifest.config, image.manifest.layers[::-1]))
    with pytest.raises(InvalidImage, match=rf"{image.config.diff_ids[0]}: content does not match"):
        put(tmp_path / "a.tar", lying)
    assert not (tmp_path / "a.tar").exists()


def test_skopeo_reads_our_docker_archive_and_we_its(image: Image, tmp_path: Path) -> None:
    put(tmp_path / "ours.tar", image)
    skopeo("copy", "-q", f"docker-archive:{tmp_path}/ours.tar:{NAME}", f"oci:{tmp_path}/layout:x")
    assert content(load_image(LayoutRepository(tmp_path / "layout"), "x")) == content(image)
    skopeo("copy", "-q", f"docker-archive:{tmp_path}/ours.tar", f"docker-archive:{tmp_path}/theirs.tar:quay.io/me/x:2")
    theirs = docker_image(tmp_path / "theirs.tar", Reference.parse("quay.io/me/x:2"))
    assert theirs.config == image.config
    assert content(theirs) == content(image)


def test_docker_loads_ours_and_saves_what_we_read(image: Image, tmp_path: Path, docker_daemon: DockerDaemon) -> None:
    put(tmp_path / "ours.tar", image)
    docker_daemon.run("load", "-i", f"{tmp_path}/ours.tar")
    docker_daemon.run("tag", str(NAME), "lagoon:other")
    other = image.append(changes=None, created="2020-01-01T00:00:00Z")
    with new_archive(tmp_path / "other.tar") as writer:
        write_docker_archive(other, writer, Reference.parse("lagoon:second"))
    docker_daemon.run("load", "-i", f"{tmp_path}/other.tar")
    docker_daemon.run("save", "-o", f"{tmp_path}/saved.tar", str(NAME), "lagoon:other", "lagoon:second")
    for name, expected in ((str(NAME), image), ("lagoon:other", image), ("lagoon:second", other)):
        read = docker_image(tmp_path / "saved.tar", Reference.parse(name))
        assert read.config == expected.config
        assert content(read) == content(image)
    docker_daemon.run("rmi", "lagoon:other", "lagoon:second", str(NAME))


@pytest.mark.parametrize("form", ["docker-archive", "oci-archive"])
def test_podman_loads_ours_and_saves_what_we_read(
    form: str, image: Image, tmp_path: Path, container_storage: Engine
) -> None:
    put(tmp_path / "ours.tar", image)
    container_storage.run("load", "-i", f"{tmp_path}/ours.tar")
    container_storage.run("save", "-q", "--format", form, "-o", f"{tmp_path}/saved.tar", str(NAME))
    container_storage.run("rmi", str(NAME))
    read = docker_image(tmp_path / "saved.tar") if form == "docker-archive" else oci_image(tmp_path / "saved.tar")
    assert read.config.diff_ids == image.config.diff_ids
    assert read.labels == image.labels
    assert content(read) == content(image)


def test_podman_loads_our_oci_archive(image: Image, tmp_path: Path, container_storage: Engine) -> None:
    with new_archive(tmp_path / "ours.tar") as writer:
        write_oci_archive(image, writer, str(NAME))
    container_storage.run("load", "-i", f"{tmp_path}/ours.tar")
    assert container_storage.run("image", "inspect", "--format", "{{.Digest}}", str(NAME)) == image.digest
    container_storage.run("rmi", str(NAME))


def newer_docker(image: Image, tmp_path: Path) -> Path:
    """What docker 25 and later save from storage of containerd: a layout of compressed layers, and manifest.json."""
    copy_image(image, LayoutRepository(tmp_path / "layout"), "1.0")
    item = {
        "Config": f"blobs/sha256/{image.config.digest[7:]}",
        "RepoTags": ["lagoon:1.0"],
        "Layers": [f"blobs/sha256/{layer.digest[7:]}" for layer in image.manifest.layers],
        "LayerSources": {},
    }
    (tmp_path / "layout/manifest.json").write_text(json.dumps([item]))
    command = [require("tar"), "-C", f"{tmp_path}/layout", "--exclude=opmkit.lock", "--exclude=ingest", "-cf"]
    subprocess.run([*command, f"{tmp_path}/new.tar", "."], check=True)
    return tmp_path / "new.tar"


def test_what_newer_docker_saves_is_read_both_ways(image: Image, tmp_path: Path) -> None:
    path = newer_docker(image, tmp_path)
    assert oci_image(path, "1.0") == image
    read = docker_image(path, Reference.parse("lagoon:1.0"))
    assert read.config == image.config
    assert content(read) == content(image)
    assert [layer.digest for layer in read.manifest.layers] == [layer.digest for layer in image.manifest.layers]
    put(tmp_path / "again.tar", read)
    assert content(docker_image(tmp_path / "again.tar")) == content(image)


LAYER = layer_source(tar([member("a", b"1")]))[0]
PLAIN = tar([member("a", b"1")])
CONFIG = json.dumps({"os": "linux", "rootfs": {"type": "layers", "diff_ids": [LAYER.digest]}}).encode()
ITEM = {"Config": "c.json", "RepoTags": ["x:1"], "Layers": ["1/layer.tar"]}


def docker_archive(path: Path, manifest: Any, config: bytes = CONFIG, *more: Member) -> Path:
    raw = manifest if isinstance(manifest, bytes) else json.dumps(manifest).encode()
    layers = more or (member("1/layer.tar", PLAIN),)
    return written(path, member("c.json", config), *layers, member("manifest.json", raw))


def test_several_images_in_one_archive(tmp_path: Path) -> None:
    items = [ITEM, {**ITEM, "RepoTags": ["docker.io/library/y:1", "NO name"]}, {**ITEM, "RepoTags": None}]
    path = docker_archive(tmp_path / "x.tar", items)
    for name, position in (("x:1", None), ("y:1", None), (None, 2)):
        assert content(docker_image(path, name and Reference.parse(name), position)) == {"a": b"1"}
    for name, position in ((None, None), ("z:1", None), (None, 3)):
        with pytest.raises(NotFound, match=r"x\.tar: ") as caught:
            docker_image(path, name and Reference.parse(name), position)
        assert "x:1, docker.io/library/y:1" in str(caught.value.hint)
    with pytest.raises(NotFound, match=r"several images docker\.io/library/x:1"):
        docker_image(docker_archive(path, [ITEM, ITEM]), Reference.parse("x:1"))
    with pytest.raises(NotFound, match="contains no image"):
        docker_image(docker_archive(path, []))


@pytest.mark.parametrize(
    ("manifest", "says"),
    [
        (b"[", "manifest.json: invalid JSON"),
        (b"[" * 1000 + b"]" * 1000, "manifest.json: JSON nesting exceeds"),
        (b"[" + b" " * (5 << 20) + b"]", "member 'manifest.json' exceeds the limit"),
        ({}, "manifest.json: expected a list, got {}"),
        (["x"], "manifest.json[0]: expected an object, got 'x'"),
        ([{**ITEM, "Config": 1}], "manifest.json[0].Config: expected a string, got 1"),
        ([{**ITEM, "Config": "other.json"}], "member 'other.json' not found"),
        ([{**ITEM, "Config": "../c.json"}], "member '../c.json' not found"),
        ([{**ITEM, "Config": "1/layer.tar"}], "x.tar: 1/layer.tar: config: invalid JSON"),
        ([{**ITEM, "Layers": []}], "lists 0 layers, the configuration c.json 1"),
        ([{**ITEM, "Layers": "1/layer.tar"}], "manifest.json[0].Layers: expected"),
        ([{**ITEM, "Layers": ["2/layer.tar"]}], "member '2/layer.tar' not found"),
        ([{**ITEM, "Layers": ["/etc/passwd"]}], "member '/etc/passwd' not found"),
        ([{**ITEM, "RepoTags": [1]}], "manifest.json[0].RepoTags[0]: expected a string, got 1"),
    ],
)
def test_manifests_that_lie(manifest: Any, says: str, tmp_path: Path) -> None:
    with pytest.raises(ImageToolsError) as caught:
        docker_image(docker_archive(tmp_path / "x.tar", manifest))
    assert caught.value.message.startswith(f"{tmp_path}/x.tar: ")
    assert says in caught.value.message


def test_layers_that_are_not_what_they_should_be(tmp_path: Path) -> None:
    for damaged in (PLAIN[:-512], PLAIN + bytes(512), PLAIN[:-1] + b"?", b""):
        path = docker_archive(tmp_path / "x.tar", [ITEM], CONFIG, member("1/layer.tar", damaged))
        with pytest.raises(DigestMismatch, match=rf"x\.tar: blob {LAYER.digest}"):
            content(docker_image(path))
        with pytest.raises(ImageToolsError):
            copy_image(docker_image(path), LayoutRepository(tmp_path / "layout"), "1")
        assert not (tmp_path / "layout/index.json").exists()
    link = docker_archive(tmp_path / "x.tar", [ITEM], CONFIG, symlink("1/layer.tar", "../../../etc/passwd"))
    with pytest.raises(InvalidImage, match=r"x\.tar: member '1/layer.tar' not found"):
        docker_image(link)


def test_other_archives_are_told_apart(image: Image, tmp_path: Path) -> None:
    put(tmp_path / "oci.tar", image, "oci")
    with pytest.raises(InvalidImage, match="contains an OCI layout") as caught:
        docker_image(tmp_path / "oci.tar")
    assert str(caught.value.hint) == f"use oci-archive:{tmp_path}/oci.tar"
    with pytest.raises(UnsupportedImage, match=r"before 1\.10"):
        docker_image(written(tmp_path / "old.tar", member("repositories", b"{}")))
    with pytest.raises(InvalidImage, match=r"manifest\.json not found"):
        docker_image(written(tmp_path / "sources.tar", member("setup.py")))


class Discarding(io.BytesIO):
    """A file that keeps what is written to its first block, and counts the rest."""

    header = b""
    position = 0

    def write(self, data: Any) -> int:
        if self.position == 0:
            self.header = data
        self.position += len(data)
        return len(data)

    def tell(self) -> int:
        return self.position

    def seek(self, position: int, _: int = 0) -> int:
        self.position = position
        return position


def test_sizes_above_8_gib_fit_into_a_header() -> None:
    file, piece = Discarding(), bytes(1 << 26)
    assert TarWriter(file).stream("x", (piece for _ in range(130))) == 130 << 26
    assert tarfile.TarInfo.frombuf(file.header, "utf-8", "strict").size == 130 << 26
    assert file.position == 512 + (130 << 26)
