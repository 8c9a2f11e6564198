"""The default image store, created by any command."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.kit.opm import LAGOON

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.kit.installed import InstalledOpm

MANIFESTS = str(LAGOON / "0.1.0" / "manifests")
BUILD = ("bundle", "build", "-d", MANIFESTS, "-p", "lagoon-operator", "-c", "alpha", "-t", "example.com/lagoon:1")
FIRST_COMMANDS = [
    ("bundle", "validate", "bundle"),
    ("render", "bundle"),
    ("image", "ls"),
    ("image", "prune"),
    ("image", "pull", "oci:missing:1"),
    ("index", "add", "-b", "", "-i", "scratch", "-t", "example.com/catalog:0"),
    ("registry", "add", "-d", "index.db", "-b", "./bundle"),
]


@pytest.fixture
def bundle(newcomer: InstalledOpm) -> Path:
    """Return a bundle directory with annotations written by hand."""
    directory = newcomer.directory / "bundle"
    metadata = directory / "metadata" / "annotations.yaml"
    metadata.parent.mkdir(parents=True)
    shutil.copytree(MANIFESTS, directory / "manifests")
    prefix = "operators.operatorframework.io.bundle"
    metadata.write_text(
        f"annotations:\n  {prefix}.package.v1: lagoon-operator\n  {prefix}.channels.v1: alpha\n"
        f"  {prefix}.manifests.v1: manifests/\n  {prefix}.metadata.v1: metadata/\n"
        f"  {prefix}.mediatype.v1: registry+v1\n"
    )
    return directory


def store_of(newcomer: InstalledOpm) -> Path:
    return newcomer.home / ".local" / "share" / "opmkit"


@pytest.mark.usefixtures("bundle")
@pytest.mark.parametrize("first", FIRST_COMMANDS, ids=lambda argv: " ".join(argv[:2]))
def test_every_first_command_leaves_a_usable_store(newcomer: InstalledOpm, first: tuple[str, ...]) -> None:
    newcomer.attempt(*first)
    newcomer(*BUILD)
    newcomer("index", "add", "-b", "./bundle", "-i", "scratch", "-t", "example.com/catalog:1")
    newcomer("image", "prune")
    images = newcomer("image", "ls")
    assert "example.com/lagoon:1" in images
    assert "example.com/catalog:1" in images


@pytest.mark.usefixtures("bundle")
def test_a_store_with_cached_results_alone_is_repaired(newcomer: InstalledOpm) -> None:
    cached = store_of(newcomer) / "results" / "validation" / "00" / "0.json"
    cached.parent.mkdir(parents=True)
    cached.write_text("{}")
    newcomer("image", "prune")
    newcomer(*BUILD)
    assert "example.com/lagoon:1" in newcomer("image", "ls")
    assert (store_of(newcomer) / "oci-layout").is_file()


def test_directory_with_other_files_is_not_used_as_store(newcomer: InstalledOpm) -> None:
    directory = newcomer.directory / "notes"
    directory.mkdir()
    (directory / "letter.txt").write_text("Dear all")
    done = newcomer.with_env(OPM_STORE=str(directory)).attempt(*BUILD)
    assert done.returncode == 1
    assert str(directory) in done.stderr
    assert [path.name for path in directory.iterdir() if path.suffix != ".lock"] == ["letter.txt"]


def modes(directory: Path) -> set[str]:
    """Return the modes of a directory and of all that is in it, by kind."""
    return {
        f"{'d' if path.is_dir() else 'f'}{path.stat().st_mode & 0o777:o}" for path in (directory, *directory.rglob("*"))
    }


@pytest.mark.parametrize("umask", [0, 0o022])
def test_only_its_user_can_read_the_store(newcomer: InstalledOpm, bundle: Path, umask: int) -> None:
    def run(*arguments: str) -> None:
        newcomer.start(*arguments, umask=umask).communicate()

    run("bundle", "validate", "bundle")  # writes cached results alone
    assert modes(store_of(newcomer)) == {"d700", "f600"}
    run(*BUILD)
    assert (store_of(newcomer) / "index.json").exists()
    run("image", "prune")
    assert modes(store_of(newcomer)) == {"d700", "f600"}
    assert newcomer.home.joinpath(".local").stat().st_mode & 0o022 == 0


@pytest.mark.parametrize("writing", [BUILD, ("bundle", "validate", "bundle"), ("image", "prune")], ids=" ".join)
def test_a_store_that_others_can_read_is_restricted_by_the_next_write(
    newcomer: InstalledOpm, bundle: Path, writing: tuple[str, ...]
) -> None:
    newcomer(*BUILD)
    store = store_of(newcomer)
    for path in (store, *store.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    newcomer.attempt(*writing)
    assert modes(store) == {"d700", "f600"}


OTHER_UID = 12345


def _share(store: Path) -> None:
    store.chmod(0o777)


def _share_the_index(store: Path) -> None:
    (store / "index.json").chmod(0o666)


def _link_the_index(store: Path) -> None:
    (store.parent / "checkout.json").hardlink_to(store / "index.json")


def _let_others_move_it(store: Path) -> None:
    """Others could have renamed a checkout of the user, whose directories have this mode."""
    store.chmod(0o755)
    store.parent.chmod(0o777)


def _give_away(store: Path) -> None:
    os.chown(store, OTHER_UID, OTHER_UID)


@pytest.mark.usefixtures("bundle")
@pytest.mark.parametrize(
    "share",
    [
        _share,
        _share_the_index,
        _link_the_index,
        _let_others_move_it,
        pytest.param(
            _give_away, marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to other users")
        ),
    ],
)
def test_a_store_that_another_user_may_have_written_is_refused(
    newcomer: InstalledOpm, share: Callable[[Path], None]
) -> None:
    newcomer(*BUILD)
    store = store_of(newcomer)
    share(store)
    before = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}
    for command in (("image", "ls"), ("image", "rm", "example.com/lagoon:1"), ("image", "prune"), BUILD):
        done = newcomer.attempt(*command)
        assert done.returncode == 1
        assert done.stderr.startswith(f"Error: {store}")
        assert "not trusted: " in done.stderr
        assert "OPM_STORE" in done.stderr
    assert {path: path.read_bytes() for path in store.rglob("*") if path.is_file()} == before
    assert newcomer.with_env(OPM_STORE=str(store.parent / "new"))("image", "ls").count("example.com") == 0


def test_an_empty_directory_of_the_user_becomes_the_store(newcomer: InstalledOpm, bundle: Path) -> None:
    """The umask 002 lets the group write to what ``mkdir`` creates."""
    directory = newcomer.directory / "store"
    directory.mkdir()
    directory.chmod(0o775)
    user = newcomer.with_env(OPM_STORE=str(directory))
    assert "not trusted" not in user.attempt("bundle", "validate", str(bundle)).stderr
    user(*BUILD)
    assert "example.com/lagoon:1" in user("image", "ls")
    assert modes(directory) == {"d700", "f600"}


def test_a_directory_with_other_files_is_not_restricted(newcomer: InstalledOpm) -> None:
    other = newcomer.directory / "other"
    other.mkdir(mode=0o755)
    (other / "file").touch(mode=0o644)
    assert newcomer.with_env(OPM_STORE=str(other)).attempt(*BUILD).returncode == 1
    assert other.stat().st_mode & 0o777 == 0o755
    assert modes(other / "file") == {"f644"}


def test_layout_at_a_given_path_follows_the_umask(newcomer: InstalledOpm) -> None:
    tagged = (*BUILD[:-1], "oci:layout:1")
    assert newcomer.start(*tagged, umask=0o022).wait(60) == 0
    assert modes(newcomer.directory / "layout") == {"d755", "f644"}
