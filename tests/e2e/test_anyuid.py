"""The command in a pod: an arbitrary user id, no HOME, and write access to temporary files only."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kit.opm import LAGOON, PROGRAM
from tests.kit.unprivileged import UID, UnprivilegedUser

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kit.registry import Registry


@pytest.fixture
def unprivileged(request: pytest.FixtureRequest) -> Iterator[UnprivilegedUser]:
    """Return an unprivileged user with the HOME of the test's parameter."""
    with UnprivilegedUser(request.param) as user:
        yield user
        assert list(user.working.iterdir()) == []
        left = {path.name for path in user.temporary.iterdir()}
        assert left <= {f"opmkit-{UID}", "requested"}  # no scratch files


def home(*values: str | None) -> pytest.MarkDecorator:
    """Parametrize a test with values of HOME, none of which is writable."""
    return pytest.mark.parametrize("unprivileged", values, ids="HOME={}".format, indirect=True)


@pytest.fixture
def prefix(registry: Registry, tmp_path: Path) -> str:
    """Return a unique repository prefix in the registry."""
    return f"{registry.host}/anyuid-{tmp_path.name.replace('_', '-').replace('[', '').lower()}"


def build(unprivileged: UnprivilegedUser, version: str, prefix: str) -> str:
    """Build and push a bundle and return its reference."""
    name = f"{prefix}/lagoon-operator:{version}"
    flags = ("--package", "lagoon-operator", "--channels", "alpha", "--default", "alpha", "--push", "--use-http")
    out = unprivileged.temporary / "requested" / version
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
def test_output_is_written_to_the_requested_paths(unprivileged: UnprivilegedUser, prefix: str) -> None:
    bundle = build(unprivileged, "0.1.0", prefix)
    out = unprivileged.temporary / "requested"
    unprivileged("bundle", "unpack", bundle, "--out", str(out / "unpacked"), "--use-http")
    assert (out / "unpacked" / "metadata" / "annotations.yaml").is_file()
    database = str(out / "index.db")
    unprivileged("registry", "add", "-d", database, "-b", bundle, "--use-http")
    unprivileged("index", "export", "--index", database, "-f", str(out / "exported"), "--use-http")
    assert (out / "exported" / "lagoon-operator" / "package.yaml").is_file()
    assert (out / "exported" / "lagoon-operator" / "0.1.0").stat().st_uid == UID


@home(None, "/", "/root", "/no/such/home")
def test_images_are_stored_in_the_temporary_directory(unprivileged: UnprivilegedUser, prefix: str) -> None:
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
def test_writing_to_a_read_only_working_directory_fails_with_a_hint(argv: tuple[str, ...]) -> None:
    with UnprivilegedUser() as unprivileged:
        done = unprivileged.attempt(*argv)
        assert done.returncode == 1
        assert done.stderr.startswith("Error: ")
        assert "Permission denied" in done.stderr
        assert "hint: " in done.stderr
        assert "Traceback" not in done.stderr
        assert list(unprivileged.working.iterdir()) == []


def test_a_file_that_cannot_be_read_gets_a_hint_for_reading() -> None:
    with UnprivilegedUser() as user:
        private = user.path / "private.yaml"
        private.write_text("schema: olm.package\n")
        private.chmod(0o600)
        done = user.attempt("alpha", "render-template", "basic", str(private))
        if "Permission denied" not in done.stderr:
            pytest.skip("the user can read all files, or it could not run the program")
        assert done.returncode == 1
        assert done.stderr.endswith("  hint: make the file readable for this user, as with 'chmod u+r'\n")


def test_store_directory_of_another_user_is_rejected() -> None:
    with UnprivilegedUser() as unprivileged:
        trap = unprivileged.temporary / f"opmkit-{UID}"
        trap.mkdir(mode=0o777)
        os.chown(trap, UID + 1, 0)
        done = unprivileged.attempt("image", "ls")
        assert done.returncode == 1
        assert str(trap) in done.stderr
        assert "TMPDIR" in done.stderr
        assert list(trap.iterdir()) == []


def test_bundles_are_validated_without_a_store_of_another_user() -> None:
    with UnprivilegedUser() as unprivileged:
        trap = unprivileged.temporary / f"opmkit-{UID}"
        trap.mkdir()
        os.chown(trap, UID + 1, 0)
        done = unprivileged.attempt("bundle", "validate", str(LAGOON / "0.1.0"))
        assert done.returncode == 0
        assert done.stderr.count("not trusted: ") == 1
        assert list(trap.iterdir()) == []


def test_a_home_directory_that_the_group_can_write_has_a_store() -> None:
    """As in images for OpenShift: HOME belongs to root and its group, which each pod has with another user id."""
    with UnprivilegedUser() as unprivileged:
        unprivileged.home = str(unprivileged.path / "home")
        home = Path(unprivileged.home)
        home.mkdir()
        home.chmod(0o775)
        for _ in range(2):
            done = unprivileged.attempt("bundle", "validate", str(LAGOON / "0.1.0"))
            assert (done.returncode, done.stderr) == (0, "")
        store = home / ".local/share/opmkit"
        assert store.stat().st_mode & 0o777 == 0o700
        assert list(store.rglob("*.json"))


def test_a_store_in_an_image_belongs_to_root(tmp_path: Path) -> None:
    with UnprivilegedUser() as unprivileged:
        store = unprivileged.path / "store"
        unprivileged.env["OPM_STORE"] = str(store)
        environment = {**os.environ, "OPM_STORE": str(store)}
        build = ("bundle", "build", "-d", str(LAGOON / "0.1.0" / "manifests"), "-t", "example.com/lagoon:1")
        for command in (build, ("bundle", "validate", str(LAGOON / "0.1.0"))):
            subprocess.run([PROGRAM, *command], cwd=tmp_path, env=environment, check=True, capture_output=True)
        for path in (store, *store.rglob("*")):  # as by COPY, or RUN with the umask of a build
            path.chmod(0o755 if path.is_dir() else 0o644)
        assert "example.com/lagoon:1" in unprivileged("image", "ls")
        done = unprivileged.attempt("bundle", "validate", str(LAGOON / "0.1.0"))
        assert (done.returncode, done.stderr) == (0, "")
