"""The embedded image store: blobs, images, pruning and concurrent use."""

from __future__ import annotations

import io
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from opmkit.core.errors import DiskError
from opmkit.core.private_files import UntrustedFile
from opmkit.imagetools.copy import copy_image
from opmkit.imagetools.errors import DigestMismatch, NotFound
from opmkit.imagetools.image import load_image
from opmkit.imagetools.layer import read_tree
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.spec import Descriptor, Platform, sha256_digest
from opmkit.imagetools.store import ImageStore, layout
from opmkit.imagetools.store.directory import open_cache
from tests.kit.images import multi_image, small_image

if TYPE_CHECKING:
    from pathlib import Path

SPAWN = multiprocessing.get_context("spawn")


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    return ImageStore.open(tmp_path / "store")


def descriptor_of(content: bytes) -> Descriptor:
    return Descriptor("x", sha256_digest(content), len(content))


def stored_digests(store: ImageStore) -> set[str]:
    return {f"sha256:{path.name}" for path in store.layout.path.glob("blobs/sha256/*")}


def partial_files(store: ImageStore) -> list[Path]:
    return list(store.layout.path.glob("ingest/*"))


def save(store: ImageStore, scratch: Path, name: str, tag: str, content: bytes = b"1") -> str:
    """Save an image with one file, and return its digest."""
    directory = scratch / f"{name}-{tag}".replace("/", "-")
    directory.mkdir(exist_ok=True)
    return copy_image(small_image(directory, {"a": content}), store.repository(name), tag).digest


def assert_intact(store: ImageStore) -> None:
    """Check that all blobs of all images exist and match their digests."""
    for stored in store.list():
        image = load_image(store.repository(""), stored.digest)
        assert read_tree(reversed(image.layers), [""])


def test_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPM_STORE", str(tmp_path / "named"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert ImageStore.open(tmp_path / "given").layout.path == tmp_path / "given"
    assert ImageStore.open().layout.path == tmp_path / "named"
    monkeypatch.setenv("OPM_STORE", "")
    assert ImageStore.open().layout.path == tmp_path / "data" / "opmkit"
    assert not any(tmp_path.iterdir())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPM_STORE", "relative")
    assert ImageStore.open().layout.path == tmp_path / "relative"


def test_no_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPM_STORE", "XDG_DATA_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    tmp_path.chmod(0o1777)
    private = tmp_path / f"opmkit-{os.getuid()}"
    store = ImageStore.open()
    assert store.layout.path == private / "store"
    assert store.list() == []
    store.layout.create()
    private.chmod(0o777)
    with pytest.raises(DiskError, match="not trusted: other users can write to it") as caught:
        store.list()
    assert "TMPDIR" in str(caught.value.hint)


def test_directory_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    store = ImageStore.open(tmp_path / "file/store")
    with pytest.raises(DiskError, match="file") as caught:
        store.ingest(descriptor_of(b"1"), io.BytesIO(b"1"))
    assert str(caught.value.hint)


@pytest.mark.skipif(os.geteuid() == 0, reason="root can write to any directory")
def test_directory_that_is_not_writable(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir(mode=0o500)
    with pytest.raises(DiskError) as caught:
        ImageStore.open(tmp_path / "store").ingest(descriptor_of(b"1"), io.BytesIO(b"1"))
    assert "OPM_STORE" in str(caught.value.hint)


def test_ingested_blobs_are_verified(store: ImageStore) -> None:
    path = store.ingest(descriptor_of(b"hello"), io.BytesIO(b"hello"))
    assert path.read_bytes() == b"hello"
    assert store.find_blob(descriptor_of(b"hello")) == path
    assert store.find_blob(descriptor_of(b"other")) is None
    for content in (b"hellO", b"hello!", b"hell", b""):
        with pytest.raises(DigestMismatch, match=descriptor_of(b"bello").digest):
            store.ingest(Descriptor("x", descriptor_of(b"bello").digest, 5), io.BytesIO(content))
    assert stored_digests(store) == {descriptor_of(b"hello").digest}
    assert partial_files(store) == []


@pytest.mark.parametrize("damaged", [b"", b"hel", b"hellO", b"hello!"])
def test_damaged_blob_is_replaced(store: ImageStore, damaged: bytes) -> None:
    path = store.ingest(descriptor_of(b"hello"), io.BytesIO(b"hello"))
    path.write_bytes(damaged)
    assert store.find_blob(descriptor_of(b"hello")) is None
    assert not path.exists()
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(damaged)
    store.repository("x").put_blob(descriptor_of(b"hello"), lambda: io.BytesIO(b"hello"))
    assert path.read_bytes() == b"hello"


def test_blob_that_another_user_may_change_is_replaced(store: ImageStore) -> None:
    """It could change after it was verified, before it is read."""
    descriptor = descriptor_of(b"hello")
    path = store.ingest(descriptor, io.BytesIO(b"hello"))
    path.chmod(0o660)
    assert store.find_blob(descriptor) is None
    assert not store.repository("x").has_blob(descriptor)
    with pytest.raises(UntrustedFile):
        store.repository("x").open_blob(descriptor)
    store.repository("x").put_blob(descriptor, lambda: io.BytesIO(b"hello"))
    assert store.find_blob(descriptor) == path
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", ["", "blobs", "blobs/sha256", "ingest"])
def test_directory_that_another_user_may_have_written(store: ImageStore, name: str) -> None:
    descriptor = descriptor_of(b"hello")
    store.ingest(descriptor, io.BytesIO(b"hello"))
    (store.layout.path / "ingest" / "part").touch()
    (store.layout.path / name).chmod(0o777)
    with pytest.raises(UntrustedFile):
        store.repository("x").put_blob(descriptor_of(b"other"), lambda: io.BytesIO(b"other"))
    assert stored_digests(store) == {descriptor.digest}


def test_failed_ingest_leaves_no_files(store: ImageStore) -> None:
    class FailingStream(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            if self.tell():
                raise ConnectionError("gone")
            return super().read(10)

    with pytest.raises(ConnectionError):
        store.ingest(descriptor_of(bytes(1 << 20)), FailingStream(bytes(1 << 20)))
    assert partial_files(store) == []
    assert stored_digests(store) == set()


def test_full_disk(store: ImageStore) -> None:
    """Simulate a full disk with a limit on the size of files."""
    script = """
import io, resource, sys
from pathlib import Path
from opmkit.core.errors import DiskError
from opmkit.imagetools.spec import Descriptor, sha256_digest
from opmkit.imagetools.store import ImageStore
content = bytes(500_000)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    descriptor = Descriptor("x", sha256_digest(content), len(content))
    ImageStore.open(Path(sys.argv[1])).ingest(descriptor, io.BytesIO(content))
except DiskError as error:
    print(error.message)
"""
    command = [sys.executable, "-c", script, str(store.layout.path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(str(store.layout.path))
    assert partial_files(store) == []
    assert stored_digests(store) == set()


def test_save_list_and_remove(store: ImageStore, tmp_path: Path) -> None:
    assert store.list() == []
    one = save(store, tmp_path, "quay.io/ns/one", "1")
    two = save(store, tmp_path, "quay.io/ns/two", "1", b"2")
    save(store, tmp_path, "quay.io/ns/two", "also", b"2")
    assert [(image.name, image.digest) for image in store.list()] == [
        ("quay.io/ns/one:1", one),
        ("quay.io/ns/two:1", two),
        ("quay.io/ns/two:also", two),
    ]
    first = store.list()[0]
    assert first.platforms == (Platform("linux", "amd64"),)
    assert first.created == "1970-01-01T00:00:00Z"
    assert first.size == sum(store.layout.blob_path(digest).stat().st_size for digest in image_digests(store, one))
    assert list(store.repository("quay.io/ns/two").tags()) == ["1", "also"]
    assert store.repository("quay.io/ns/two").resolve(two).digest == two
    with pytest.raises(NotFound, match=r"quay\.io/ns/two:none"):
        store.repository("quay.io/ns/two").resolve("none")
    store.remove(Reference.parse("quay.io/ns/one:1"))
    store.remove(Reference.parse(f"quay.io/ns/two@{two}"))
    assert store.list() == []
    for removed in ("quay.io/ns/one:1", "quay.io/ns/one", f"quay.io/ns/two@{two}"):
        with pytest.raises(NotFound, match="not found"):
            store.remove(Reference.parse(removed))


def image_digests(store: ImageStore, digest: str) -> set[str]:
    """Return the digests of a manifest and its children."""
    manifest = store.repository("").get_manifest(digest)
    return {digest, *(part.digest for part in manifest.children)}


def test_image_index(store: ImageStore, tmp_path: Path) -> None:
    names = ("linux/amd64", "linux/arm64")
    image = multi_image([small_image(tmp_path, {"a": b"1"}, platform=name) for name in names])
    copy_image(image, store.repository("quay.io/ns/multi"), "1")
    (stored,) = store.list()
    assert stored.digest == image.digest
    assert [str(platform) for platform in stored.platforms] == list(names)
    assert store.prune(0) == 0
    assert_intact(store)


def test_move_tag(store: ImageStore, tmp_path: Path) -> None:
    save(store, tmp_path, "quay.io/ns/x", "1", b"old")
    new = save(store, tmp_path, "quay.io/ns/x", "1", b"new")
    assert [image.digest for image in store.list()] == [new]


def test_manifest_without_its_blobs(store: ImageStore, tmp_path: Path) -> None:
    image = small_image(tmp_path, {"a": b"1"})
    with pytest.raises(DiskError, match="blob not found"):
        store.repository("x").put_manifest(image.manifest, "1")
    assert store.list() == []


def test_prune_retains_blobs_of_images_and_recent_blobs(store: ImageStore, tmp_path: Path) -> None:
    digest = save(store, tmp_path, "quay.io/ns/x", "1")
    required = image_digests(store, digest)
    cached = descriptor_of(b"cached")
    path = store.ingest(cached, io.BytesIO(b"cached"))
    abandoned = store.layout.path / "ingest/abandoned"
    abandoned.write_bytes(b"123")
    assert store.prune() == 0
    for old in (path, abandoned, *(store.layout.blob_path(digest) for digest in required)):
        os.utime(old, (1, 1))
    assert store.prune() == len(b"cached") + 3
    assert stored_digests(store) == required
    assert partial_files(store) == []
    store.remove(Reference.parse("quay.io/ns/x:1"))
    assert store.prune() > 0
    assert stored_digests(store) == set()


def test_prune_retains_recently_used_blobs(store: ImageStore) -> None:
    path = store.ingest(descriptor_of(b"cached"), io.BytesIO(b"cached"))
    os.utime(path, (1, 1))
    assert store.find_blob(descriptor_of(b"cached"))
    assert store.prune() == 0
    assert path.exists()


def save_many(path: Path, scratch: Path, number: int) -> None:
    store = ImageStore.open(path)
    for turn in range(6):
        save(store, scratch, f"quay.io/ns/p{number}", str(turn), b"shared" if turn % 2 else b"%d" % turn)
        save(store, scratch, "quay.io/ns/contended", "1", b"%d" % number)


def prune_often(path: Path, scratch: Path, number: int) -> None:
    store = ImageStore.open(path)
    for _ in range(30):
        store.prune(grace=30)
        assert_intact(store)


def run(target: object, path: Path, scratch: Path, number: int) -> multiprocessing.process.BaseProcess:
    own = scratch / str(number)
    own.mkdir(exist_ok=True)
    process = SPAWN.Process(target=target, args=(path, own, number))  # type: ignore[arg-type]
    process.start()
    return process


@pytest.mark.slow
def test_concurrent_processes(store: ImageStore, tmp_path: Path) -> None:
    processes = [run(save_many, store.layout.path, tmp_path, number) for number in range(3)]
    processes.append(run(prune_often, store.layout.path, tmp_path, 9))
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4
    names = {image.name for image in store.list()}
    expected = {f"quay.io/ns/p{number}:{turn}" for number in range(3) for turn in range(6)}
    assert names == expected | {"quay.io/ns/contended:1"}
    assert_intact(store)
    assert partial_files(store) == []


def save_forever(path: Path, scratch: Path, number: int) -> None:
    store = ImageStore.open(path)
    rng = random.Random(number)
    while True:
        content = rng.randbytes(300_000)
        save(store, scratch, "quay.io/ns/x", str(rng.randrange(5)), content)


@pytest.mark.slow
def test_store_is_intact_after_a_kill(store: ImageStore, tmp_path: Path) -> None:
    save(store, tmp_path, "quay.io/ns/old", "1")
    for number in range(8):
        before = store.layout.read_index()
        process = run(save_forever, store.layout.path, tmp_path, number)
        while store.layout.read_index() == before:
            assert process.is_alive()
            time.sleep(0.001)
        time.sleep(0.002 * number)  # kill each process at another point of a save
        assert process.pid
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        assert_intact(store)
    assert "quay.io/ns/old:1" in {image.name for image in store.list()}
    save(store, tmp_path, "quay.io/ns/after", "1")
    store.prune(0)
    assert partial_files(store) == []
    assert_intact(store)
    assert stored_digests(store) == {part for image in store.list() for part in image_digests(store, image.digest)}


def test_lock_timeout(store: ImageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "LOCK_TIMEOUT_SECONDS", 0.05)
    with store.layout.lock(), pytest.raises(DiskError, match="timed out") as caught:
        store.prune()
    assert "other process" in str(caught.value.hint)


def test_prune_removes_old_cached_results(tmp_path: Path) -> None:
    store = ImageStore.open(tmp_path / "store")
    store.layout.create()
    open_cache("validation", [], store.layout.path).put("sha256:1", b"result")
    (result,) = store.layout.path.rglob("*.json")
    assert store.prune() == 0
    size = result.stat().st_size
    os.utime(result, (0, 0))
    assert store.prune() == size
    assert not result.exists()
