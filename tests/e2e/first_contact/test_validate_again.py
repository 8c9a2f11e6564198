"""``opm bundle validate`` again: the result is that of what is read, and nobody else can plant one."""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import shutil
import time
from typing import TYPE_CHECKING

import pytest

from tests.kit.opm import LAGOON

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.kit.installed import InstalledOpm

OTHER_UID = 12345
RESTING = 11
"""Seconds after which an earlier release took a directory with the same times of its inodes for unchanged."""
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to other users")


@pytest.fixture
def project(newcomer: InstalledOpm) -> InstalledOpm:
    """Return the commands, with a bundle in the working directory."""
    shutil.copytree(LAGOON / "0.1.0", newcomer.directory / "bundle")
    return newcomer


def csv_of(project: InstalledOpm) -> Path:
    (csv,) = (project.directory / "bundle/manifests").glob("*.clusterserviceversion.yaml")
    return csv


def damage(project: InstalledOpm) -> None:
    """Give the operator a name that no cluster accepts, in as many bytes."""
    csv = csv_of(project)
    csv.write_text(csv.read_text().replace("name: lagoon-operator.v0.1.0", "name: LAGOON_operator.v0.1.0"))


def test_report_is_the_same_until_the_bundle_changes(project: InstalledOpm) -> None:
    commands = (("bundle", "validate", "bundle"), ("alpha", "bundle", "validate", "bundle"))
    new = project.attempt("bundle", "validate", "--no-cache", "bundle")
    assert (new.returncode, new.stderr) == (0, "")
    reports = [project.attempt(*command) for _ in range(2) for command in commands]
    assert {(done.returncode, done.stdout, done.stderr) for done in reports} == {(0, new.stdout, "")}
    (project.directory / ".opm-validate.yaml").write_text("fail-on: warning\n")
    assert project.attempt("bundle", "validate", "bundle").returncode == 1
    (project.directory / ".opm-validate.yaml").unlink()
    damage(project)
    for command in commands:
        assert project.attempt(*command).returncode == 1


def test_result_depends_on_the_content_of_the_categories_file(project: InstalledOpm) -> None:
    categories = project.directory / "categories.json"
    user = project.with_env(OPERATOR_BUNDLE_CATEGORIES=str(categories))
    command = ("bundle", "validate", "bundle", "--select-optional", "name=operatorhub")
    times = None
    for allowed, found in (("Integration & Delivery", False), ("Integration & Delivers", True)):
        categories.write_text(json.dumps({"categories": [allowed]}))
        times = times or (categories.stat().st_atime_ns, categories.stat().st_mtime_ns)
        os.utime(categories, ns=times)
        for _ in range(2):
            assert ("HUB-CATEGORIES" in user.attempt(*command).stdout) is found


def test_damaged_store_changes_no_report(project: InstalledOpm) -> None:
    reports = []
    for content in (None, b"", b"\xff\x00", None):
        for stored in project.home.rglob("results/*/*/*.json"):
            if content is not None:
                stored.write_bytes(content)
        done = project.attempt("bundle", "validate", "bundle")
        reports.append((done.returncode, done.stdout, done.stderr))
    assert len(set(reports)) == 1
    assert reports[0][0] == 0


def test_writes_that_change_no_times_are_seen(project: InstalledOpm) -> None:
    """A page that is dirty already can be written without a change to the inode, as on sshfs, squashfs and erofs."""
    csv = csv_of(project)
    at = csv.read_bytes().index(b"name: lagoon-operator.v0.1.0")
    with csv.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[at] = mapped[at]
        time.sleep(RESTING)
        assert [project.attempt("bundle", "validate", "bundle").returncode for _ in range(2)] == [0, 0]
        mapped[at + len("name: ") : at + len("name: lagoon")] = b"LAGOON"
        assert project.attempt("bundle", "validate", "bundle").returncode == 1


def forge(stored: Path) -> None:
    """Remove the findings from a stored result, with the checksum that the file needs to be read."""
    name, content = f"{stored.parent.name}{stored.stem}", stored.read_bytes()
    result = json.dumps({**json.loads(content[32:]), "findings": []}).encode()
    stored.write_bytes(hashlib.sha256(name.encode() + result).digest() + result)


def snapshot(store: Path) -> dict[str, bytes]:
    """Return the files of a store."""
    return {str(path): path.read_bytes() for path in store.rglob("*") if path.is_file()}


def give_away(path: Path) -> None:
    os.chown(path, OTHER_UID, OTHER_UID)


def replace_by_link(stored: Path) -> None:
    stored.rename(stored.with_suffix(".other"))
    stored.symlink_to(stored.with_suffix(".other").name)


FILES = [
    pytest.param(give_away, id="of another user", marks=as_root),
    pytest.param(lambda path: path.chmod(0o660), id="group-writable"),
    pytest.param(lambda path: path.chmod(0o606), id="world-writable"),
    pytest.param(replace_by_link, id="link"),
]
DIRECTORIES = [
    pytest.param(give_away, id="of another user", marks=as_root),
    pytest.param(lambda path: path.chmod(0o770), id="group-writable"),
    pytest.param(lambda path: path.chmod(0o1777), id="sticky"),
]


@pytest.fixture
def forged(project: InstalledOpm) -> tuple[InstalledOpm, Path]:
    """Return the commands, with an invalid bundle and a stored result that passes it, and the file of the result."""
    damage(project)
    assert project.attempt("bundle", "validate", "bundle").returncode == 1
    (stored,) = project.home.rglob("results/validation/*/*.json")
    forge(stored)
    assert project.attempt("bundle", "validate", "bundle").returncode == 0  # nobody else could have written it
    return project, stored


@pytest.mark.parametrize("plant", FILES)
def test_results_that_another_user_may_have_written_are_ignored(
    forged: tuple[InstalledOpm, Path], plant: Callable[[Path], None]
) -> None:
    project, stored = forged
    plant(stored)
    done = project.attempt("bundle", "validate", "bundle")
    assert done.returncode == 1
    assert "not trusted" not in done.stderr
    assert (stored.stat().st_uid, stored.lstat().st_mode & 0o777) == (os.geteuid(), 0o600)  # a new one
    assert project.attempt("bundle", "validate", "bundle").returncode == 1


@pytest.mark.parametrize("share", DIRECTORIES)
@pytest.mark.parametrize("level", range(4), ids=["subdirectory", "cache", "caches", "store"])
def test_a_store_that_another_user_may_have_written_is_not_used(
    forged: tuple[InstalledOpm, Path], level: int, share: Callable[[Path], None]
) -> None:
    project, stored = forged
    directory, store = stored.parents[level], stored.parents[3]
    share(directory)
    before = snapshot(store)
    done = project.attempt("bundle", "validate", "bundle", "bundle/../bundle")
    assert done.returncode == 1
    assert done.stdout.count("LAGOON_operator") >= 2
    assert done.stderr.count("not trusted") == 1
    assert f"{directory}: not trusted: " in done.stderr
    assert "continuing without the store" in done.stderr
    assert snapshot(store) == before


def test_worker_processes_use_no_store_of_another_user(forged: tuple[InstalledOpm, Path]) -> None:
    project, stored = forged
    store = stored.parents[3]
    store.chmod(0o777)
    before = snapshot(store)
    done = project.attempt("bundle", "validate", "bundle", "--executor", "processes:1")
    assert done.returncode == 1
    assert done.stderr.count("not trusted") == 1
    assert snapshot(store) == before


def test_the_store_of_a_sticky_directory_is_that_of_the_user(project: InstalledOpm) -> None:
    """A directory for temporary files may be shared; a store that its user created there is used."""
    shared = project.directory / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    user = project.with_env(OPM_STORE=str(shared / "store"))
    damage(project)
    assert user.attempt("bundle", "validate", "bundle").returncode == 1
    (stored,) = shared.rglob("results/validation/*/*.json")
    forge(stored)
    done = user.attempt("bundle", "validate", "bundle")
    assert (done.returncode, done.stderr) == (0, "")
    if os.geteuid() == 0:
        for path in (shared / "store", *(shared / "store").rglob("*")):
            give_away(path)
        done = user.attempt("bundle", "validate", "bundle")
        assert done.returncode == 1
        assert f"{shared / 'store'}: not trusted: it belongs to user {OTHER_UID}" in done.stderr
