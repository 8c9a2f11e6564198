"""Commands whose standard streams are closed, full or broken."""

from __future__ import annotations

import os
import pty
import shlex
from typing import TYPE_CHECKING

import pytest

from tests.kit.opm import LAGOON

if TYPE_CHECKING:
    import subprocess

    from tests.kit.installed import InstalledOpm
    from tests.kit.registry import Registry


def shell(newcomer: InstalledOpm, redirection: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return newcomer.shell_out(["sh", "-c", f"opm {shlex.join(arguments)} {redirection}"])


def write_catalog(newcomer: InstalledOpm) -> str:
    catalog = newcomer.directory / "catalog"
    catalog.mkdir()
    (catalog / "catalog.json").write_text('{"schema": "olm.package", "name": "a", "defaultChannel": "b"}')
    return "catalog"


@pytest.mark.parametrize(
    ("redirection", "cause"), [(">&-", "Bad file descriptor"), (">/dev/full", "No space left on device")]
)
@pytest.mark.parametrize("command", [("version",), ("--help",), ("render", "catalog"), ("image", "ls", "-o", "json")])
def test_unwritable_stdout_is_one_error(
    newcomer: InstalledOpm, command: tuple[str, ...], redirection: str, cause: str
) -> None:
    write_catalog(newcomer)

    done = shell(newcomer, redirection, *command)

    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == f"Error: standard output: write failed: {cause}"
    assert len(done.stderr.splitlines()) == 2


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full", ">&- 2>&- <&-"])
def test_exit_codes_do_not_depend_on_stderr(newcomer: InstalledOpm, redirection: str) -> None:
    write_catalog(newcomer)
    closed = ">&-" in redirection.split()

    assert shell(newcomer, redirection, "render", "catalog").returncode == int(closed)
    assert shell(newcomer, redirection, "render", "missing").returncode == 1
    assert shell(newcomer, redirection, "validate", "catalog").returncode == 1
    assert shell(newcomer, redirection, "generate", "dockerfile", "catalog").returncode == 0


def test_closed_descriptors_do_not_corrupt_written_files(newcomer: InstalledOpm) -> None:
    write_catalog(newcomer)

    shell(newcomer, ">&- 2>&-", "migrate", "catalog", "out", "--debug")

    assert [path.name for path in (newcomer.directory / "out").rglob("*.*")] == ["catalog.json"]
    assert (newcomer.directory / "out/a/catalog.json").read_text().startswith("{")


def test_published_image_without_a_report(newcomer: InstalledOpm, registry: Registry) -> None:
    bundle, index = f"{registry.host}/streams/bundle:1", f"{registry.host}/streams/index:1"
    source = ("-d", str(LAGOON / "0.1.0/manifests"), "-p", "lagoon-operator", "-c", "stable", "-e", "stable")

    built = shell(newcomer, ">/dev/full", "bundle", "build", *source, "-u", "out", "-t", bundle, "--push", "--use-http")
    options = ("-b", bundle, "-t", index, "-i", "scratch", "--push", "--use-http")
    added = shell(newcomer, ">/dev/full", "index", "add", *options)

    for done, name, verb in ((built, bundle, "pushed"), (added, index, "published")):
        digest = newcomer("image", "inspect", name, "--use-http").split("Digest:")[1].split()[0]
        assert done.returncode == 1
        assert f"{name}@{digest}: " in done.stderr
        assert f"{verb}, but the result cannot be printed: standard output: No space left on device" in done.stderr
        assert "nothing was changed" not in done.stderr


@pytest.mark.parametrize(
    "line",
    ["alpha render-template basic", "alpha convert-template basic -", "index plan c=catalog --cluster -"],
)
def test_waiting_for_standard_input_is_said_on_a_terminal(newcomer: InstalledOpm, line: str) -> None:
    write_catalog(newcomer)
    leader, follower = pty.openpty()
    os.write(leader, b"\x04")
    with newcomer.start(*line.split(), stdin=follower) as process:
        stderr = process.communicate()[1]
    os.close(follower)
    os.close(leader)
    assert stderr.startswith("Reading standard input; Ctrl-D ends it\n"), stderr
