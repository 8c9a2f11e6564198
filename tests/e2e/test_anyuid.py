"""The command in a pod: a user id that nobody knows, no home, and nothing to write to but temporary files."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from tests.kit.opm import LAGOON
from tests.kit.unprivileged import UID, UnprivilegedUser

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.registry import Registry


@pytest.fixture
def unprivileged(request: pytest.FixtureRequest) -> Iterator[UnprivilegedUser]:
    """The user, with the home that the test asks for."""
    with UnprivilegedUser(request.param) as user:
        yield user
        assert list(user.working.iterdir()) == []
        left = {path.name for path in user.temporary.iterdir()}
        assert left <= {f"opmkit-{UID}", "asked-for"}  # no scratch files


def home(*values: str | None) -> pytest.MarkDecorator:
    """Have a test run with each value of the variable HOME; the user may write to none of them."""
    return pytest.mark.parametrize("unprivileged", values, ids="HOME={}".format, indirect=True)


@pytest.fixture
def prefix(registry: Registry, tmp_path: Path) -> str:
    """A part of the registry that no other test uses."""
    return f"{registry.host}/anyuid-{tmp_path.name.replace('_', '-').replace('[', '').lower()}"


def build(unprivileged: UnprivilegedUser, version: str, prefix: str) -> str:
    """Build and push a bundle; its name."""
    name = f"{prefix}/lagoon-operator:{version}"
    flags = ("--package", "lagoon-operator", "--channels", "alpha", "--default", "alpha", "--push", "--use-http")
    out = unprivileged.temporary / "asked-for" / version
    manifests = str(LAGOON / version / "manifests")
    unprivileged("bundle", "build", "--directory", manifests, "--output-dir", str(out), "--tag", name, *flags)
    return name


@home(None, "/root")
def test_from_manifests_to_a_catalog_in_a_registry(unprivileged: UnprivilegedUser, prefix: str) -> None:
    first, second = (build(unprivileged, version, prefix) for version in ("0.1.0", "0.2.0"))
    catalog = f"{prefix}/catalog:latest"
    unprivileged("index", "add", "-b", first, "-i", "scratch", "-t", catalog, "--push", "--use-http")
    unprivileged("index", "add", "-b", second, "-f", catalog, "-t", catalog, "--push", "--use-http", "--settle", "0.1")
    rows = json.loads(unprivileged("alpha", "list", "bundles", catalog, "-o", "json", "--use-http"))
    assert {row["bundle"] for row in rows} == {"lagoon-operator.v0.1.0", "lagoon-operator.v0.2.0"}


@home("/", "/no/such/home")
def test_files_go_where_they_are_asked_for(unprivileged: UnprivilegedUser, prefix: str) -> None:
    bundle = build(unprivileged, "0.1.0", prefix)
    out = unprivileged.temporary / "asked-for"
    unprivileged("bundle", "unpack", bundle, "--out", str(out / "unpacked"), "--use-http")
    assert (out / "unpacked" / "metadata" / "annotations.yaml").is_file()
    database = str(out / "index.db")
    unprivileged("registry", "add", "-d", database, "-b", bundle, "--use-http")
    unprivileged("index", "export", "--index", database, "-f", str(out / "exported"), "--use-http")
    assert (out / "exported" / "lagoon-operator" / "package.yaml").is_file()
    assert (out / "exported" / "lagoon-operator" / "0.1.0").stat().st_uid == UID


@home(None, "/", "/root", "/no/such/home")
def test_images_are_kept_among_the_temporary_files(unprivileged: UnprivilegedUser, prefix: str) -> None:
    unprivileged("index", "add", "-b", "", "-i", "scratch", "-t", f"{prefix}/catalog:1")
    assert f"{prefix}/catalog:1" in unprivileged("image", "ls")
    unprivileged("image", "push", f"{prefix}/catalog:1", "--use-http")
    unprivileged("image", "prune")
    store = unprivileged.temporary / f"opmkit-{UID}"
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
    with UnprivilegedUser() as unprivileged:
        done = unprivileged.attempt(*argv)
        assert done.returncode == 1
        assert done.stderr.startswith("Error: ")
        assert "Permission denied" in done.stderr
        assert "hint: " in done.stderr
        assert "Traceback" not in done.stderr
        assert list(unprivileged.working.iterdir()) == []


def test_a_directory_that_someone_else_made_first_is_not_used(registry: Registry) -> None:
    with UnprivilegedUser() as unprivileged:
        trap = unprivileged.temporary / f"opmkit-{UID}"
        trap.mkdir(mode=0o777)
        assert trap.stat().st_uid == os.getuid() != UID
        done = unprivileged.attempt("image", "ls")
        assert done.returncode == 1
        assert str(trap) in done.stderr
        assert "TMPDIR" in done.stderr
        assert list(trap.iterdir()) == []
