"""Progress of commands that wait for something else than a registry.

Commands that read an index from a named pipe wait until the test writes to it.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from tests.e2e.test_index_merge import write_package
from tests.kit.opm import PROGRAM
from tests.kit.screen import Screen, run_on_terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

STEPS = {
    "validate pipe": "Validating pipe",
    "render pipe": "Rendering",
    "migrate pipe migrated": "Rendering",
    "alpha list bundles pipe": "Loading pipe",
    "alpha render-graph pipe": "Loading pipe",
    "index graph pipe --output graph.html": "Loading pipe",
    "index diff pipe catalog": "Comparing indexes",
    "index images pipe": "Loading pipe",
    "index export -i pipe": "Exporting pipe",
}
"""Commands that read an index, and the step that they show."""
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
DURATION = re.compile(r"\d+ s")


def release(pipe: Path) -> None:
    """Let a command that waits for the pipe read an empty file."""
    with suppress(OSError):  # nobody waits
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))


def when(text: str, action: Callable[[], object]) -> Callable[[str], None]:
    """Return a callback that acts on each output, as soon as it contains ``text``."""

    def on_output(output: str) -> None:
        if text in ESCAPES.sub("", output):
            action()

    return on_output


def rows(screen: Screen) -> list[str]:
    """Return the states of all lines of a terminal, without colours."""
    return [ESCAPES.sub("", line) for line in re.split(r"[\r\n]+", screen.output)]


def run_until_shown(directory: Path, command: str, step: str, *flags: str, columns: int = 80) -> Screen:
    directory.mkdir()
    write_package(directory / "catalog", "atoll", "quay.io/me/atoll:1")
    pipe = directory / "pipe"
    os.mkfifo(pipe)
    env = {"OPM_STORE": str(directory / "store")}
    on_output = when(step, lambda: release(pipe))
    words = (*command.split(), *flags)
    return run_on_terminal(*words, columns=columns, directory=directory, env=env, on_output=on_output)


def test_commands_show_the_step_that_takes_long(tmp_path: Path) -> None:
    with ThreadPoolExecutor(6) as pool:
        jobs = [
            pool.submit(run_until_shown, tmp_path / str(number), command, step)
            for number, (command, step) in enumerate(STEPS.items())
        ]
    for (command, step), job in zip(STEPS.items(), jobs, strict=True):
        screen = job.result()
        assert screen.status == 1, (command, screen.output)  # the pipe contains no index
        shown = [row for row in rows(screen) if step in row and "━" in row]
        assert shown, (command, screen.output)
        assert step == "Rendering" or any(DURATION.search(row) for row in shown), shown
        assert screen.output.count("\x1b[?25l") == screen.output.count("\x1b[?25h")


def test_programs_get_steps_as_events(tmp_path: Path) -> None:
    screen = run_until_shown(tmp_path / "json", "alpha list packages pipe", '"event": "begin"', "--progress", "json")
    first, *others = (json.loads(line) for line in screen.lines if line.startswith("{"))
    assert (first["event"], first["task"], first["unit"], first["total"]) == (
        "begin",
        "Loading pipe",
        "seconds",
        None,
    )
    assert others[-1]["event"] == "end"
    assert {event["task"] for event in others} == {"Loading pipe"}


def test_pipes_get_no_steps(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(
        [PROGRAM, "validate", "pipe"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        time.sleep(1.3)  # longer than commands wait until they show a step
        while process.poll() is None:
            release(pipe)
        output, errors = process.communicate()
    assert output == b""
    assert errors.decode().splitlines()[0].startswith("Error: pipe")


@pytest.fixture
def silent_address() -> Iterator[str]:
    """Return the address of a server that accepts connections and does not answer."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_terminals_of_any_kind_show_waits_for_a_server(silent_address: str) -> None:
    command = ("catalog", "health", "--address", silent_address, "--timeout", "2")
    with ThreadPoolExecutor() as pool:
        narrow = pool.submit(run_on_terminal, *command, columns=40)
        plain = pool.submit(run_on_terminal, *command, columns=80, env={"NO_COLOR": "1"})
        dumb = pool.submit(run_on_terminal, *command, columns=80, env={"TERM": "dumb"})
        none = pool.submit(run_on_terminal, *command, "--progress", "none", columns=80)
    bars = [row for row in rows(narrow.result()) if "Waiti" in row]
    assert bars
    assert max(map(len, bars)) <= 40
    assert "\x1b[1A" not in narrow.result().output  # a bar of several lines
    assert f"Waiting for {silent_address}" in plain.result().output
    assert not re.search(r"\x1b\[3\dm", plain.result().output)
    assert dumb.result().lines[0] == f"Waiting for {silent_address} ..."
    assert none.result().lines[0].startswith(f"Error: {silent_address}")


def test_an_interrupted_wait_leaves_one_line(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    step = "Validating pipe"
    screen = run_on_terminal("validate", "pipe", columns=80, directory=tmp_path, interrupt_at=step)
    assert screen.status == 130
    assert [row for row in rows(screen) if row and step not in row] == ["Error: interrupted by SIGINT"]
    assert screen.output.count("\x1b[?25l") == screen.output.count("\x1b[?25h")


def test_servers_show_that_they_wait_for_the_cache(tmp_path: Path) -> None:
    write_package(tmp_path / "catalog", "atoll", "quay.io/me/atoll:1")
    (tmp_path / "cache").mkdir()
    cache = os.open(tmp_path / "cache", os.O_RDONLY)
    fcntl.flock(cache, fcntl.LOCK_EX)  # as by another server that builds the cache
    command = ("serve", "catalog", "--cache-dir", "cache", "--cache-only")
    unlock = when("Building the cache", lambda: fcntl.flock(cache, fcntl.LOCK_UN))
    screen = run_on_terminal(*command, columns=80, directory=tmp_path, on_output=unlock)
    os.close(cache)
    assert screen.status == 0
    assert "Building the cache" in screen.output
