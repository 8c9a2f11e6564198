"""The command in a pod: a user id that nobody knows, no home, and nothing to write to but temporary files."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from kit.opm import LAGOON
from kit.stranger import UID, Stranger

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kit.registry import Registry


@pytest.fixture
def stranger(request: pytest.FixtureRequest) -> Iterator[Stranger]:
    """The user, with the home that the test asks for."""
    with Stranger(request.param) as user:
        yield user
        assert list(user.working.iterdir()) == []
        left = {path.name for path in user.temporary.iterdir()}
        assert left <= {f"opmkit-{UID}", "asked-for"}  # no scratch files


def home(*values: str | None) -> pytest.MarkDecorator:
    """Have a test run with each value of the variable HOME; the user may write to none of them."""
    return pytest.mark.parametrize("stranger", values, ids="HOME={}".format, indirect=True)


@pytest.fixture
def prefix(registry: Registry, tmp_path: Path) -> str:
    """A part of the registry that no other test uses."""
    return f"{registry.host}/anyuid-{tmp_path.name.replace('_', '-').replace('[', '').lower()}"


def build(stranger: Stranger, version: str, prefix: str) -> str:
    """Build and push a bundle; its name."""
    name = f"{prefix}/lagoon-operator:{version}"
    flags = ("--package", "lagoon-operator", "--channels", "alpha", "--default", "alpha", "--push", "--use-http")
    out = stranger.temporary / "asked-for" / version
    manifests = str(LAGOON / version / "manifests")
    stranger("bundle", "build", "--directory", manifests, "--output-dir", str(out), "--tag", name, *flags)
    return name


@home(None, "/root")
def test_from_manifests_to_a_catalog_in_a_registry(stranger: Stranger, prefix: str) -> None:
    first, second = (build(stranger, version, prefix) for version in ("0.1.0", "0.2.0"))
    catalog = f"{prefix}/catalog:latest"
    stranger("index", "add", "-b", first, "-i", "scratch", "-t", catalog, "--push", "--use-http")
    stranger("index", "add", "-b", second, "-f", catalog, "-t", catalog, "--push", "--use-http", "--settle", "0.1")
    rows = json.loads(stranger("alpha", "list", "bundles", catalog, "-o", "json", "--use-http"))
    assert {row["bundle"] for row in rows} == {"lagoon-operator.v0.1.0", "lagoon-operator.v0.2.0"}


@home("/", "/no/such/home")
def test_files_go_where_they_are_asked_for(stranger: Stranger, prefix: str) -> None:
    bundle = build(stranger, "0.1.0", prefix)
    out = stranger.temporary / "asked-for"
    stranger("bundle", "unpack", bundle, "--out", str(out / "unpacked"), "--use-http")
    assert (out / "unpacked" / "metadata" / "annotations.yaml").is_file()
    database = str(out / "index.db")
    stranger("registry", "add", "-d", database, "-b", bundle, "--use-http")
    stranger("index", "export", "--index", database, "-f", str(out / "exported"), "--use-http")
    assert (out / "exported" / "lagoon-operator" / "package.yaml").is_file()
    assert (out / "exported" / "lagoon-operator" / "0.1.0").stat().st_uid == UID


@home(None, "/", "/root", "/no/such/home")
def test_images_are_kept_among_the_temporary_files(stranger: Stranger, prefix: str) -> None:
    stranger("index", "add", "-b", "", "-i", "scratch", "-t", f"{prefix}/catalog:1")
    assert f"{prefix}/catalog:1" in stranger("image", "ls")
    stranger("image", "push", f"{prefix}/catalog:1", "--use-http")
    stranger("image", "prune")
    store = stranger.temporary / f"opmkit-{UID}"
    assert store.stat().st_mode & 0o777 == 0o700
    assert (store / "store" / "index.json").is_file()


@pytest.mark.parametrize(
    "argv",
    [
        ("index", "add", "-b", "", "--generate"),
        ("registry", "add", "-b", ""),
        ("index", "add", "-b", "", "-i", "scratch", "-t", "oci:layout:1"),
    ],
    ids=lambda argv: " ".join(argv),
)
def test_what_would_be_written_to_the_working_directory_is_refused_with_advice(argv: tuple[str, ...]) -> None:
    with Stranger() as stranger:
        done = stranger.attempt(*argv)
        assert done.returncode == 1
        assert done.stderr.startswith("Error: ")
        assert "Permission denied" in done.stderr
        assert "hint: " in done.stderr
        assert "Traceback" not in done.stderr
        assert list(stranger.working.iterdir()) == []


def test_a_directory_that_someone_else_made_first_is_not_used(registry: Registry) -> None:
    with Stranger() as stranger:
        trap = stranger.temporary / f"opmkit-{UID}"
        trap.mkdir(mode=0o777)
        assert trap.stat().st_uid == os.getuid() != UID
        done = stranger.attempt("image", "ls")
        assert done.returncode == 1
        assert str(trap) in done.stderr
        assert "TMPDIR" in done.stderr
        assert list(trap.iterdir()) == []
