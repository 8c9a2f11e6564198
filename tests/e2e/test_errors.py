"""Errors: one line with a hint, and no partial results."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from typing import TYPE_CHECKING

import pytest

from opmkit.cli.main import build_app
from opmkit.cli.parser.go_commands import GoGroup
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from tests.kit.corpus import save_files
from tests.kit.forkserver import Command
from tests.kit.opm import LAGOON, Opm
from tests.kit.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.forkserver import ForkServer


@pytest.fixture
def prefix(registry: Registry, tmp_path: Path) -> str:
    """Return a unique repository prefix in the registry."""
    return f"{registry.host}/{tmp_path.name.replace('_', '-').lower()}"


@pytest.fixture
def bundle(opm_http: Opm, prefix: str) -> str:
    """Push a bundle and return its reference."""
    name = f"{prefix}/lagoon-operator:0.1.0"
    opm_http.build_bundle("0.1.0", name, "--push")
    return name


def assert_fails(opm: Opm, *argv: str, status: int = 1, contains: tuple[str, ...]) -> None:
    """Run a command that must fail with the texts in its ``Error:`` line, without a traceback or changed files."""
    before = {path: path.stat().st_mtime_ns for path in opm.directory.iterdir()}
    done = opm.attempt(*argv)
    assert done.returncode == status, done.stderr
    lines = done.stderr.splitlines()
    assert [line for line in lines if line.startswith("Error: ")], done.stderr
    assert "Traceback" not in done.stderr
    for text in contains:
        assert text in done.stderr
    assert done.stdout == ""
    assert {path: path.stat().st_mtime_ns for path in opm.directory.iterdir()} == before


def add(*bundles: str) -> tuple[str, ...]:
    return ("registry", "add", "-d", "index.db", "-b", ",".join(bundles))


def group_paths(group: GoGroup, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the words of all groups of commands."""
    yield path
    for name, command in group.commands.items():
        if isinstance(command, GoGroup):
            yield from group_paths(group.get_command(None, name), (*path, name))


def test_unknown_command_of_any_group_is_an_error(forkserver: ForkServer) -> None:
    groups = list(group_paths(build_app(load_all=False)))
    assert len(groups) > 15
    for path, done in zip(groups, forkserver.run([Command([*path, "nonsense"]) for path in groups]), strict=True):
        first, hint = done.stderr.splitlines()
        assert (done.status, done.stdout) == (1, "")
        assert first == f'Error: unknown command "nonsense" for "{" ".join(("opm", *path))}"'
        assert hint.startswith("  hint: ")


def test_missing_tag_is_an_error(opm_http: Opm, bundle: str) -> None:
    missing = bundle.replace("0.1.0", "9.9.9")
    assert_fails(opm_http, *add(bundle, missing), contains=(missing, "hint:"))


def test_missing_and_wrong_credentials_are_errors(opm_http: Opm) -> None:
    with Registry(users={"me": "secret"}) as registry:
        name = f"{registry.host}/x:1"
        assert_fails(opm_http, *add(name), contains=(f"{registry.host}/x", "podman login"))
        authfile = opm_http.directory / "auth.json"
        authfile.write_text(json.dumps({"auths": {registry.host: {"username": "me", "password": "wr0ng"}}}))
        done = opm_http.attempt(*add(name), "--authfile", str(authfile))
        assert done.returncode == 1
        assert "wr0ng" not in done.stderr


def test_plain_http_registry_without_the_flag(opm: Opm, bundle: str) -> None:
    assert_fails(opm, *add(bundle), contains=(bundle.partition("/")[0], "--use-http"))


def test_untrusted_certificate_is_an_error(opm: Opm) -> None:
    with Registry(tls=True) as registry:
        assert_fails(opm, *add(f"{registry.host}/x:1"), contains=(registry.host, "--ca-file"))


def test_index_image_is_rejected_as_bundle(opm_http: Opm, prefix: str, bundle: str) -> None:
    opm_http("index", "add", "-b", bundle, "-i", "scratch", "-t", f"{prefix}/catalog:1", "--push")
    assert_fails(opm_http, *add(f"{prefix}/catalog:1"), contains=(f"{prefix}/catalog:1", "index image"))


def test_bundle_image_is_rejected_as_index(opm_http: Opm, bundle: str) -> None:
    argv = ("index", "add", "-b", "", "-f", bundle, "-t", "x:1", "-i", "scratch")
    assert_fails(opm_http, *argv, contains=(bundle, "operators.operatorframework.io.index.database.v1"))


def test_existing_bundle_exits_with_2_and_existing_version_with_3(opm_http: Opm, prefix: str, bundle: str) -> None:
    opm_http(*add(bundle))
    assert_fails(opm_http, *add(bundle), status=2, contains=("already exists",))
    other = f"{prefix}/elsewhere:0.1.0"
    opm_http.build_bundle("0.1.0", other, "--push")
    assert_fails(opm_http, *add(other), status=3, contains=("lagoon-operator.v0.1.0 already exists",))


def test_missing_replaced_bundle_is_an_error(opm_http: Opm, prefix: str) -> None:
    name = f"{prefix}/lagoon-operator:0.2.0"
    opm_http.build_bundle("0.2.0", name, "--push")
    assert_fails(opm_http, *add(name), contains=("lagoon-operator.v0.2.0", "lagoon-operator.v0.1.0"))


def test_missing_channels_are_an_error(opm_http: Opm, prefix: str) -> None:
    metadata = opm_http.directory / "b" / "metadata"
    push_directory(opm_http, f"{prefix}/x:1", {"metadata/annotations.yaml": annotations_yaml(channels="")})
    assert not metadata.exists()
    assert_fails(opm_http, *add(f"{prefix}/x:1"), contains=("channel",))


def test_missing_annotations_are_an_error(opm_http: Opm, prefix: str) -> None:
    push_directory(opm_http, f"{prefix}/x:1", {})
    assert_fails(opm_http, *add(f"{prefix}/x:1"), contains=(f"{prefix}/x:1", "annotations"))


def test_invalid_yaml_is_reported_with_its_line(opm_http: Opm, prefix: str) -> None:
    files = {
        "metadata/annotations.yaml": annotations_yaml(),
        "manifests/lagoon.clusterserviceversion.yaml": "kind: ClusterServiceVersion\nmetadata:\n  name: [x\n",
    }
    push_directory(opm_http, f"{prefix}/x:1", files, manifests=False)
    assert_fails(opm_http, *add(f"{prefix}/x:1"), contains=("manifests/lagoon.clusterserviceversion.yaml:4:1",))


def test_first_of_two_csvs_is_used_with_a_warning(opm_http: Opm, prefix: str) -> None:
    second = (LAGOON / "0.2.0" / "manifests").glob("*clusterserviceversion.yaml")
    files = {
        "metadata/annotations.yaml": annotations_yaml(),
        "manifests/zz-second.yaml": next(second).read_text(),
    }
    push_directory(opm_http, f"{prefix}/x:1", files)
    done = opm_http.attempt(*add(f"{prefix}/x:1"))
    assert done.returncode == 0, done.stderr
    assert "Warning: " in done.stderr
    assert "zz-second.yaml" in done.stderr
    with sqlite3.connect(opm_http.directory / "index.db") as database:
        assert database.execute("SELECT name FROM operatorbundle").fetchall() == [("lagoon-operator.v0.1.0",)]


def test_unreachable_registry_is_an_error(opm_http: Opm, tmp_path: Path) -> None:
    with Registry() as registry:
        host = registry.host
    assert_fails(opm_http, *add(f"{host}/x:1"), contains=(f"{host}/x:1", "hint:"))


def test_invalid_references_and_modes_are_errors(opm_http: Opm, bundle: str) -> None:
    assert_fails(opm_http, *add("UPPER/case:1"), contains=("UPPER/case",))
    assert_fails(opm_http, *add(bundle), "--mode", "other", contains=("other", "replaces"))


def test_invalid_database_remains_unchanged(opm_http: Opm, bundle: str) -> None:
    (opm_http.directory / "index.db").write_bytes(b"not a database at all, but somebody's notes\n" * 100)
    assert_fails(opm_http, *add(bundle), contains=("index.db", "database"))


def annotations_yaml(channels: str = "alpha") -> str:
    prefix = "operators.operatorframework.io.bundle"
    return (
        f"annotations:\n  {prefix}.package.v1: lagoon-operator\n  {prefix}.channels.v1: {channels!r}\n"
        f"  {prefix}.mediatype.v1: registry+v1\n"
    )


def push_directory(opm: Opm, name: str, files: dict[str, str], *, manifests: bool = True) -> None:
    """Push an image with the sample's manifests and these files, without validation."""
    sources: dict[str, Path] = {}
    if manifests:
        sources = {f"manifests/{path.name}": path for path in (LAGOON / "0.1.0" / "manifests").iterdir()}
    for number, (path, text) in enumerate(files.items()):
        sources[path] = opm.directory.parent / f"{opm.directory.name}-file-{number}"
        sources[path].write_text(text)
    reference = Reference.parse(name)
    client = RegistryClient(RegistryOptions(plain_http=True))
    save_files(sources, {}, client.repository(reference), reference.identifier)


@pytest.mark.parametrize("blocks", [8, 40, 120])
def test_full_disk_is_an_error(blocks: int, opm_http: Opm, bundle: str) -> None:
    """Limit the size of files, so that writes fail at different points as on a full disk."""
    opm_http(*add(bundle))
    database = opm_http.directory / "index.db"
    before = database.read_bytes()
    newer = bundle.replace("0.1.0", "0.2.0")
    opm_http.build_bundle("0.2.0", newer, "--push")
    limited = ["bash", "-c", f'ulimit -f {blocks}; exec "$@"', "bash", *opm_http.argv(*add(newer))]
    done = subprocess.run(limited, cwd=opm_http.directory, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith("Error: ")
    assert "Traceback" not in done.stderr
    assert database.read_bytes() == before
    assert not [path.name for path in opm_http.directory.iterdir() if path.name.startswith(".")]
    opm_http(*add(newer))
