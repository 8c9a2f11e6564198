"""What a command shows of its tasks, reads and steps."""

from __future__ import annotations

import time
from typing import Self

import pytest

from opmkit.cli.progress import command
from opmkit.cli.progress.command import CommandProgress
from opmkit.cli.progress.sinks import ProgressItem, ProgressSink


class Recorder(ProgressSink):
    """A sink that remembers what it shows."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def __enter__(self) -> Self:
        self.shown.append("open")
        return self

    def __exit__(self, *_: object) -> None:
        self.shown.append("close")

    def begin(self, item: ProgressItem) -> None:
        self.shown.append(item.label)

    def end(self, item: ProgressItem) -> None:
        self.shown.append(f"{item.label}: {item.done} of {item.total}, {item.transferred} transferred")


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def test_a_task_hides_the_read_and_counts_its_bytes(recorder: Recorder) -> None:
    shown = CommandProgress(lambda: recorder)
    with shown.open() as tasks:
        with shown.reading("a:1"):
            shown.expect(10)
            shown.transferred(4)
            tasks.begin("Copying", 2, "images")
            shown.transferred(6)
            tasks.advance(1)
            with shown.reading("b:1"):
                tasks.advance(1)
        tasks.end()
    assert recorder.shown == [
        *("open", "Reading a:1", "Reading a:1: 4 of 10, 0 transferred"),
        *("Copying", "Copying: 2 of 2, 6 transferred", "close"),
    ]


def test_quick_reads_are_not_shown(recorder: Recorder) -> None:
    shown = CommandProgress(lambda: recorder, 60, 60)
    with shown.reading("a:1"):
        shown.transferred(1)
    assert recorder.shown == []


def test_a_nested_command_shows_its_tasks_on_the_same_display(recorder: Recorder) -> None:
    shown = CommandProgress(lambda: recorder)
    with shown.open() as outer:
        outer.begin("Outer", 1)
        with shown.open() as inner:
            inner.begin("Inner", 1)
        outer.begin("Outer", 1)
        outer.advance(1)
    assert [entry for entry in recorder.shown if ":" not in entry] == ["open", "Outer", "Inner", "Outer", "close"]
    assert recorder.shown[-2] == "Outer: 1 of 1, 0 transferred"


def test_steps_are_shown_between_tasks(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_DELAY", "_NEXT_DELAY", "_TICK"):
        monkeypatch.setattr(command, name, 0.01)
    shown = CommandProgress(lambda: recorder)

    def wait_for(count: int) -> None:
        deadline = time.monotonic() + 10
        while len([entry for entry in recorder.shown if entry == "Changing"]) < count:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    with shown.step("Changing"):
        wait_for(1)
        with shown.open() as tasks:
            tasks.begin("Copying", 1)
            tasks.end()
            wait_for(2)
    labels = [entry for entry in recorder.shown if ":" not in entry]
    assert labels[:2] == ["open", "Changing"]
    assert labels[-1] == "close"
    assert labels.index("Copying") < len(labels) - 1 - labels[::-1].index("Changing")
