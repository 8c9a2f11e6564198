from __future__ import annotations

import gzip
import io
import os
import shutil
import tarfile
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from opmkit.imagetools.errors import ImageToolsError, InvalidImage, LimitExceeded
from opmkit.imagetools.layer import LayerSource, Limits, extract_tree, find_file, read_tree
from opmkit.imagetools.spec import media_types
from tests.kit.images import Member, directory, hardlink, layer, layer_source, member, symlink, tar


def refused(source: LayerSource, scratch: Path, error: type[ImageToolsError], *said: str) -> None:
    """All three ways of reading refuse the layer, name it and leave nothing outside."""
    limits = Limits(total_bytes=1 << 22, extracted_bytes=1 << 20, file_bytes=1 << 19, entries=1000, path_length=300)
    inside = scratch / "in/side"
    for read in (
        lambda: read_tree([source], [""], limits),
        lambda: extract_tree([source], inside, limits=limits),
        lambda: find_file([source], "wanted", scratch / "in/found", limits),
    ):
        (scratch / "in").mkdir(exist_ok=True)
        with pytest.raises(error) as caught:
            read()
        for text in (source[0].digest, *said):
            assert text in caught.value.message
    assert [path.name for path in scratch.iterdir()] == ["in"]
    assert [path.name for path in (scratch / "in").iterdir() if path.name != "side"] == []


@pytest.mark.parametrize(
    "entry",
    [
        member("../evil", b"x"),
        member("a/../../evil", b"x"),
        member("/../evil", b"x"),
        member("a/..", b"x"),
        directory("../evil"),
        symlink("../evil", "x"),
        hardlink("../evil", "x"),
        member("../.wh.evil"),
        member("a/../.wh..wh..opq"),
    ],
)
def test_entries_that_point_outside(entry: Member, tmp_path: Path) -> None:
    refused(layer(entry), tmp_path, InvalidImage, "points outside the image", entry[0].name.partition("/.wh")[0])


@pytest.mark.parametrize("target", ["../../etc/passwd", "a/../../../etc/passwd"])
def test_hard_links_that_point_outside(target: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidImage, match="points outside the image"):
        read_tree([layer(hardlink("a", target))], [""])
    with pytest.raises(InvalidImage, match="points outside the image"):
        extract_tree([layer(hardlink("a", target))], tmp_path)


@pytest.mark.parametrize("name", [".wh.", ".wh..", ".wh...", "a/.wh..."])
def test_whiteouts_of_nothing_in_particular(name: str, tmp_path: Path) -> None:
    refused(layer(member(name)), tmp_path, InvalidImage, "invalid whiteout", name)


@pytest.mark.parametrize(
    "members",
    [
        [symlink("a", "/outside"), member("a/file", b"evil")],
        [symlink("a", "../outside"), member("a/file", b"evil")],
        [symlink("a", "../outside/file"), member("a", b"evil")],
        [symlink("a", "../outside"), directory("a"), member("a/file", b"evil")],
        [symlink("a", "../outside"), member("a/.wh.file")],
        [symlink("a", "../outside"), member("a/.wh..wh..opq")],
        [symlink("a", "../outside"), symlink("a/b", "x")],
        [symlink("a", "../outside"), hardlink("b", "a/file"), member("b", b"evil")],
        [symlink("a", "../outside/file"), hardlink("b", "a")],
        [directory("d"), symlink("d/a", "../.."), symlink("b", "d/a/outside"), member("b/file", b"evil")],
        [symlink("a", "."), symlink("b", "a/../../outside"), member("b/file", b"evil")],
    ],
)
@pytest.mark.parametrize("one_layer", [True, False])
def test_no_write_goes_through_a_link(members: list[Member], one_layer: bool, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_bytes(b"good")
    inside = tmp_path / "inside"
    extract_tree([layer(*members)] if one_layer else [layer(entry) for entry in members], inside)
    assert [path.name for path in outside.iterdir()] == ["file"]
    assert (outside / "file").read_bytes() == b"good"
    root = inside.resolve()
    for path in inside.rglob("*"):
        assert Path(os.path.realpath(path)).is_relative_to(root), "a link leads outside"
        assert not path.is_file() or path.read_bytes() != b"good"


NAMES = st.sampled_from(["a", "b", "a/b", "a/b/c", "b/a", "./a", "/b", "a/../b", "..", "a/.."])
TARGETS = st.sampled_from([".", "..", "a", "b", "../a", "/a/b", "../../outside", "/outside", "b/../../outside", "a/b"])
ENTRIES = st.one_of(
    NAMES.map(lambda name: member(name, b"evil")),
    NAMES.map(directory),
    st.tuples(NAMES, TARGETS).map(lambda pair: symlink(*pair)),
    st.tuples(NAMES, TARGETS).map(lambda pair: hardlink(*pair)),
    NAMES.map(lambda name: member("/".join((*name.split("/")[:-1], ".wh." + name.split("/")[-1])))),
    NAMES.map(lambda name: member(f"{name}/.wh..wh..opq")),
)


@given(st.lists(st.lists(ENTRIES, max_size=4), max_size=3))
@settings(max_examples=300)
def test_nothing_ever_gets_out(tmp_path_factory: pytest.TempPathFactory, members: list[list[Member]]) -> None:
    scratch = tmp_path_factory.mktemp("hostile")
    (scratch / "outside").mkdir()
    (scratch / "outside/file").write_bytes(b"good")
    layers = [layer(*entries) for entries in members]
    inside = scratch / "in"
    try:
        extract_tree(layers, inside)
        read_tree(reversed(layers), [""])
        find_file(layers[::-1], "a/b", scratch / "found")
    except InvalidImage:
        pass
    assert {path.name for path in scratch.iterdir()} <= {"outside", "in", "found"}
    assert (scratch / "outside/file").read_bytes() == b"good"
    assert all(Path(os.path.realpath(path)).is_relative_to(inside.resolve()) for path in inside.rglob("*"))
    shutil.rmtree(scratch)


ZEROS = member("zeros", bytes(1 << 23))


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_a_bomb_ends_at_the_bound(compression: str, tmp_path: Path) -> None:
    many = [member(f"zeros{number}", bytes(1 << 18)) for number in range(40)]
    refused(layer(*many, compression=compression), tmp_path, LimitExceeded, "exceeds the limit of")


def test_a_bomb_that_is_only_skipped(tmp_path: Path) -> None:
    source = layer(ZEROS, compression="gzip")
    with pytest.raises(LimitExceeded, match="exceeds the limit of 4194304 decompressed bytes") as caught:
        find_file([source], "x", tmp_path / "x", Limits(total_bytes=1 << 22))
    assert source[0].digest in caught.value.message


def test_a_bomb_behind_the_end_of_the_archive(tmp_path: Path) -> None:
    content = gzip.compress(tar([member("a", b"1")]) + bytes(1 << 23))
    refused(layer_source(content, media_types.OCI_LAYER_GZIP), tmp_path, LimitExceeded, "4194304")


def test_a_bound_holds_for_all_layers_together() -> None:
    one = layer(member("a", bytes(3000)))
    assert read_tree([one], [""], Limits(extracted_bytes=4000))
    with pytest.raises(LimitExceeded, match="exceeds the limit of 4000 extracted bytes"):
        read_tree([one, one], [""], Limits(extracted_bytes=4000))


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ([member("wanted", bytes(1 << 20))], "limit of 524288 bytes per file"),
        ([member(str(number)) for number in range(1001)], "limit of 1000 entries"),
        ([member("a" * 301)], "limit of 300 bytes per path"),
        ([directory("a/" * 130)], "limit of 128 path components"),
    ],
)
def test_bounds(members: list[Member], said: str, tmp_path: Path) -> None:
    refused(layer(*members), tmp_path, LimitExceeded, said)


def pax_header(size: int, kind: bytes = b"x") -> bytes:
    info = tarfile.TarInfo("pax")
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize("kind", [b"x", b"g", b"L", b"K"])
def test_a_header_is_not_read_whole_into_memory(kind: bytes, tmp_path: Path) -> None:
    content = gzip.compress(pax_header(1 << 33, kind) + bytes(1 << 20))
    refused(layer_source(content, media_types.OCI_LAYER_GZIP), tmp_path, InvalidImage, "header of")


def test_a_chain_of_headers(tmp_path: Path) -> None:
    refused(layer_source(pax_header(0) * 5000 + bytes(1024)), tmp_path, InvalidImage, "invalid tar archive")


def test_a_negative_size(tmp_path: Path) -> None:
    header = bytearray(tarfile.TarInfo("a").tobuf(tarfile.USTAR_FORMAT))
    header[124:136] = b"\xff" * 11 + b"\x00"
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    refused(layer_source(bytes(header) + bytes(2048)), tmp_path, InvalidImage)


def test_a_sparse_file(tmp_path: Path) -> None:
    info = tarfile.TarInfo("wanted")
    info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "99"}
    body = b"1\n0\n1\n".ljust(512, b"\0") + b"x"
    info.size = len(body)
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(info, io.BytesIO(body))
    refused(layer_source(output.getvalue()), tmp_path, InvalidImage, "sparse", "wanted")


WHOLE = tar([member("manifests/a", os.urandom(3000)), member("wanted", os.urandom(2000))])


@pytest.mark.parametrize("compress", [bytes, gzip.compress, zstandard.ZstdCompressor().compress])
@pytest.mark.parametrize("keep", [0.1, 0.5, 0.7])
def test_a_truncated_layer(compress: type[bytes], keep: float, tmp_path: Path) -> None:
    content = compress(WHOLE[: 13 * 512])
    refused(layer_source(content[: int(len(content) * keep)]), tmp_path, InvalidImage)


def test_gzip_cut_off_anywhere() -> None:
    content = gzip.compress(tar([member("a", b"1" * 2000)]))
    for length in range(5, len(content) - 1):
        with pytest.raises(InvalidImage):
            read_tree([layer_source(content[:length], media_types.OCI_LAYER_GZIP)], [""])


def test_damage_behind_the_first_entry(tmp_path: Path) -> None:
    content = bytearray(tar([member("a", b"1"), member("wanted", b"2")]))
    content[1024 + 10] ^= 1
    refused(layer_source(bytes(content)), tmp_path, InvalidImage, "damaged header")


@pytest.mark.parametrize(
    "content", [b"hello", b"<html>" * 200, gzip.compress(b"hello", mtime=0), b"\x28\xb5\x2f\xfdxxxx"]
)
def test_what_is_no_archive(content: bytes, tmp_path: Path) -> None:
    refused(layer_source(content), tmp_path, InvalidImage, "invalid tar archive")


@pytest.mark.parametrize(
    "said", [media_types.OCI_LAYER_GZIP, media_types.DOCKER_LAYER_GZIP, media_types.OCI_LAYER_ZSTD]
)
def test_content_that_is_not_what_its_type_says(said: str, tmp_path: Path) -> None:
    other = gzip.compress(WHOLE) if said.endswith("zstd") else zstandard.ZstdCompressor().compress(WHOLE)
    for content in (other, WHOLE):
        refused(layer_source(content, said), tmp_path, InvalidImage, f"media type is {said}, but content is")


@given(st.binary(max_size=2000), st.integers(0, 6000))
@settings(max_examples=200)
def test_any_damage_is_an_error_of_ours(noise: bytes, at: int) -> None:
    content = WHOLE[:at] + noise + WHOLE[at + len(noise) :]
    for blob in (content, gzip.compress(WHOLE)[:at] + noise):
        try:
            read_tree([layer_source(blob)], [""])
        except ImageToolsError as error:
            assert "sha256:" in error.message  # noqa: PT017


def test_unpacking_costs_a_constant_number_of_look_ups_for_each_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0
    lstat = Path.lstat

    def counted(path: Path) -> os.stat_result:
        nonlocal calls
        calls += 1
        return lstat(path)

    monkeypatch.setattr(Path, "lstat", counted)
    extract_tree([layer(*(member(f"a/b/c/d/{number}", b"") for number in range(200)))], tmp_path / "tree")

    assert calls < 1.1 * 200 + 10


def test_repeated_opaque_markers_search_a_directory_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    walks = 0
    walk = os.walk

    def counted(*arguments: object, **settings: object) -> object:
        nonlocal walks
        walks += 1
        return walk(*arguments, **settings)  # type: ignore[call-overload]

    monkeypatch.setattr(os, "walk", counted)
    files = [member(f"a/{number}", b"") for number in range(20)]
    extract_tree([layer(*files), layer(*[member("a/.wh..wh..opq")] * 20, member("a/new", b"x"))], tmp_path / "tree")

    assert walks == 1
    assert [path.name for path in (tmp_path / "tree/a").iterdir()] == ["new"]
