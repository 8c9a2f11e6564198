"""Files and directories that other users may have written."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from opmkit.core.private_files import (
    UntrustedFile,
    check_private,
    is_shared,
    open_private,
    private_directory,
    restrict,
    warn_untrusted,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OTHER_UID = 12345
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to other users")


def _mode(mode: int) -> Callable[[Path], None]:
    return lambda path: path.chmod(mode)


def _of_another(path: Path) -> None:
    os.chown(path, OTHER_UID, 0)


def _link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _link_of_another(path: Path) -> None:
    _link(path)
    os.lchown(path, OTHER_UID, 0)


UNTRUSTED_DIRECTORIES = [
    pytest.param(_mode(0o770), id="group-writable"),
    pytest.param(_mode(0o757), id="world-writable"),
    pytest.param(_mode(0o1777), id="sticky"),
    pytest.param(_mode(0o2775), id="shared by a group"),
    pytest.param(_of_another, id="another owner", marks=as_root),
    pytest.param(_link_of_another, id="link of another user", marks=as_root),
]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return a directory ``store`` with a file in a subdirectory."""
    (tmp_path / "store" / "results").mkdir(mode=0o700, parents=True)
    (tmp_path / "store" / "results" / "file").write_bytes(b"content")
    (tmp_path / "store" / "results" / "file").chmod(0o600)
    return tmp_path / "store"


@pytest.mark.parametrize("change", UNTRUSTED_DIRECTORIES)
@pytest.mark.parametrize("changed", ["", "results"])
def test_directories_that_others_may_have_written(store: Path, changed: str, change: Callable[[Path], None]) -> None:
    check_private(store, store / "results" / "new")
    change(store / changed)
    with pytest.raises(UntrustedFile, match=f"{store / changed}: not trusted: "):
        check_private(store, store / "results" / "new")


@pytest.mark.parametrize("change", [_mode(0o755), _mode(0o700), _link], ids=["readable", "private", "own link"])
def test_directories_that_only_their_user_writes(store: Path, change: Callable[[Path], None]) -> None:
    change(store)
    check_private(store, store / "results")


def test_the_home_directory_may_be_writable(store: Path) -> None:
    """In pods of OpenShift it belongs to root and can be written by the group of root, which all users have."""
    store.chmod(0o700)
    store.parent.chmod(0o775)
    check_private(store, store / "results")


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o701])
@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("above", [pytest.param(_of_another, marks=as_root), _mode(0o777), _mode(0o775)])
def test_directories_that_others_may_have_moved(
    store: Path, tmp_path: Path, mode: int, linked: bool, above: Callable[[Path], None]
) -> None:
    """A checkout of this user, which others can read, could be renamed to the store."""
    root = tmp_path / "above" / "store"
    root.parent.mkdir()
    store.rename(root)
    if linked:
        store.symlink_to(root)
        root = store
    root.chmod(mode)
    check_private(root, root / "results")
    assert is_shared(root)
    above(tmp_path / "above")
    with pytest.raises(UntrustedFile, match=f"{root}: not trusted: other users can read it and move it"):
        check_private(root, root / "results")
    assert not is_shared(root)
    (tmp_path / "above").chmod(0o1777)
    os.chown(tmp_path / "above", os.geteuid(), -1)
    check_private(root, root / "results")


def test_hard_links(store: Path) -> None:
    """In a directory that was writable once, others can have added names for files of this user."""
    path = store / "results" / "file"
    (store.parent / "checkout").hardlink_to(path)
    os.close(open_private(path, has_digest=True))
    with pytest.raises(UntrustedFile, match=f"{path}: not trusted: it is a hard link"):
        open_private(path)


@as_root
def test_what_others_create_in_a_sticky_directory(tmp_path: Path) -> None:
    shared, other = tmp_path / "shared", tmp_path / "shared" / "other"
    (other / "store").mkdir(mode=0o700, parents=True)
    os.chown(other, OTHER_UID, 0)
    check_private(other / "store", other / "store")
    shared.chmod(0o1777)
    with pytest.raises(UntrustedFile, match=f"{other}: not trusted: it belongs to user {OTHER_UID}"):
        check_private(other / "store", other / "store")
    os.chown(other, os.geteuid(), 0)
    check_private(other / "store", other / "store")
    other.chmod(0o777)
    with pytest.raises(UntrustedFile, match=f"{other}: not trusted: other users can write to it"):
        check_private(other / "store", other / "store")
    other.chmod(0o1777)  # like a private directory for temporary files in another one
    check_private(other / "store", other / "store")
    os.chown(other, OTHER_UID, 0)
    with pytest.raises(UntrustedFile, match=f"{other}: not trusted: it belongs to user {OTHER_UID}"):
        check_private(other / "store", other / "store")


def test_an_empty_directory_is_made_private(tmp_path: Path) -> None:
    empty = tmp_path / "store"
    empty.mkdir()
    empty.chmod(0o775)
    check_private(empty, empty / "results")
    assert empty.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(_mode(0o620), id="group-writable"),
        pytest.param(_mode(0o602), id="world-writable"),
        pytest.param(_of_another, id="another owner", marks=as_root),
        pytest.param(_link, id="link"),
        pytest.param(_pipe, id="pipe"),
        pytest.param(_directory, id="directory"),
    ],
)
def test_files_that_others_may_have_written(store: Path, change: Callable[[Path], None]) -> None:
    path = store / "results" / "file"
    os.close(open_private(path))
    change(path)
    with pytest.raises(UntrustedFile, match=f"{path}: not trusted: "):
        open_private(path)


@as_root
def test_own_links_to_links_of_others(store: Path, tmp_path: Path) -> None:
    (tmp_path / "others").symlink_to(store)
    os.lchown(tmp_path / "others", OTHER_UID, 0)
    (tmp_path / "up").mkdir()
    targets = (f"{tmp_path}/others", "others", "up/../others", f"{tmp_path}//up/.././others")
    for number, target in enumerate(targets):
        link = tmp_path / f"own{number}"
        link.symlink_to(target)
        with pytest.raises(UntrustedFile, match=f"{tmp_path}/others: not trusted: "):
            check_private(link, link / "results")


def test_permissions_to_write_are_not_hidden(store: Path) -> None:
    """Afterwards nothing would show that others could write."""
    (store / "results" / "file").chmod(0o666)
    (store / "results").chmod(0o755)
    store.chmod(0o755)
    restrict(store)
    assert [path.stat().st_mode & 0o777 for path in (store, store / "results", store / "results" / "file")] == [
        *(0o700, 0o700, 0o666)
    ]


def test_private_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    directory = tmp_path / f"opmkit-{os.getuid()}"
    assert private_directory() == directory
    assert directory.stat().st_mode & 0o777 == 0o700
    directory.chmod(0o770)
    with pytest.raises(UntrustedFile, match="other users can write to it"):
        private_directory()
    directory.rmdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    directory.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UntrustedFile, match="it is not a directory") as caught:
        private_directory()
    assert "TMPDIR" in str(caught.value.hint)


def test_a_store_is_reported_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("blobs", "results"):
        warn_untrusted(tmp_path, UntrustedFile(tmp_path / name, "reason"))
    warn_untrusted(tmp_path / "other", UntrustedFile(tmp_path / "other", "reason"))
    assert [record.message for record in caplog.records] == [
        f"{tmp_path / name}: not trusted: reason; continuing without the store" for name in ("blobs", "other")
    ]
