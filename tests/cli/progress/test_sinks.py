"""Progress as JSON lines."""

from __future__ import annotations

import json
import threading
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from opmkit.cli.progress.command import CommandProgress, ProgressFormat, progress, set_progress_format
from opmkit.cli.progress.sinks import ProgressEvents
from opmkit.core.progress import NO_PROGRESS
from tests.kit.opm import LAGOON, run
from tests.kit.screen import run_on_terminal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _reset() -> Iterator[None]:
    yield
    set_progress_format(ProgressFormat.AUTO)


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def test_events_have_totals_units_and_rates(capsys: pytest.CaptureFixture[str]) -> None:
    seconds = count()
    with CommandProgress(lambda: ProgressEvents(lambda: float(next(seconds)))).open() as written:
        written.begin("Copying", 300)
        written.advance(100)
        written.advance(200)
        written.begin("Reading", None, "images")
    begin, first, second, end, reading, last = events(capsys.readouterr().err)
    assert begin == {
        "event": "begin", "task": "Copying", "unit": "bytes", "total": 300, "done": 0, "seconds": 1.0, "rate": 0.0,
    }  # fmt: skip
    assert (first["event"], first["done"], first["rate"]) == ("advance", 100, round(100 / first["seconds"], 1))
    assert (second["done"], second["total"]) == (300, 300)
    assert (end["event"], end["task"], end["done"]) == ("end", "Copying", 300)
    assert (reading["event"], reading["unit"], reading["total"]) == ("begin", "images", None)
    assert (last["event"], last["task"]) == ("end", "Reading")


def test_advances_of_many_threads_are_counted_and_few_are_written(capsys: pytest.CaptureFixture[str]) -> None:
    with CommandProgress(lambda: ProgressEvents(lambda: 1.0)).open() as written:
        written.begin("Copying", 4000)

        def work() -> None:
            for _ in range(1000):
                written.advance(1)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = events(capsys.readouterr().err)
    assert [event["event"] for event in found] == ["begin", "end"]
    assert found[-1]["done"] == 4000


def test_labels_are_harmless_on_terminals(capsys: pytest.CaptureFixture[str]) -> None:
    label = "a\n\x1b[2J\x7f\u202e\udc80"
    with CommandProgress(ProgressEvents).open() as written:
        written.begin(label, 1)
    printed = capsys.readouterr().err
    assert len(printed.splitlines()) == 2
    assert printed.replace("\n", "").isprintable()
    assert events(printed)[0]["task"] == label


def test_progress_off_shows_nothing() -> None:
    set_progress_format(ProgressFormat.NONE)
    with progress() as bars:
        assert bars is NO_PROGRESS


def test_a_command_writes_events_to_stderr_and_its_result_to_stdout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPM_STORE", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    bundle = LAGOON / "0.1.0"
    database = tmp_path / "index.db"
    command = ["registry", "add", "-d", str(database), "-b", f"{bundle}=quay.io/me/lagoon:0.1.0"]
    assert run([*command, "--progress", "json"]) == 0
    printed = capfd.readouterr()
    found = events(printed.err)
    assert (found[0]["event"], found[0]["task"], found[0]["total"]) == ("begin", "Pulling bundles", 1)
    assert (found[-1]["event"], found[-1]["done"]) == ("end", 1)
    assert "{" not in printed.out


def test_events_replace_the_bars_on_a_terminal(tmp_path: Path) -> None:
    env = {"OPM_STORE": str(tmp_path / "store")}
    screen = run_on_terminal(
        "render", str(LAGOON / "0.1.0"), "--progress", "json", "-o", "yaml", columns=80, directory=tmp_path, env=env
    )
    assert screen.status == 0
    assert "\x1b" not in screen.output
    assert [event["event"] for event in events(screen.output)][:1] == ["begin"]


def test_invalid_formats_are_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["render", "--progress", "xml", "."]) == 1
    assert "--progress" in capsys.readouterr().err
