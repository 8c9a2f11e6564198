"""Commands that run at once, each in a process of its own, forked from one that has loaded the program already."""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import subprocess
import sys
import tempfile
import traceback
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


@dataclass(frozen=True)
class Command:
    """A command line of ``opm``, and what its environment has beside the caller's."""

    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Done:
    """How a command ended, what it had to say, and the most memory that it had, in bytes."""

    status: int
    output: str
    memory: int


class Crowd:
    """The process that the others are forked from, as a context manager."""

    def __enter__(self) -> Self:
        self._parent = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self

    def __exit__(self, *_: object) -> None:
        self._parent.communicate(timeout=60)

    def run(self, commands: Sequence[Command]) -> list[Done]:
        """Let all commands go at the same moment; how each of them ended."""
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.write(json.dumps([asdict(command) for command in commands]).encode() + b"\n")
        self._parent.stdin.flush()
        return [Done(**done) for done in json.loads(self._parent.stdout.readline())]


def _main() -> None:
    from typer.main import get_command

    from opmkit.cli.main import build_app, run_app

    app: Any = get_command(build_app())

    def run(arguments: list[str]) -> int:
        return run_app(app, "opm", arguments)

    with contextlib.redirect_stdout(io.StringIO()):
        run(["index", "add", "-b", "", "--dry-run"])  # what takes long is loaded once
    gc.freeze()
    for line in sys.stdin:
        commands = [Command(**command) for command in json.loads(line)]
        print(json.dumps([asdict(done) for done in _at_once(commands, run)]), flush=True)


def _at_once(commands: Sequence[Command], run: Callable[[list[str]], int]) -> list[Done]:
    with tempfile.TemporaryDirectory() as directory:
        outputs = [Path(directory, str(number)) for number in range(len(commands))]
        gate, opener = os.pipe()
        children = []
        for command, output in zip(commands, outputs, strict=True):
            child = os.fork()
            if not child:
                os.close(opener)
                _be(command, output, gate, run)
            children.append(child)
        os.close(gate)
        os.close(opener)  # whoever reads from the gate reads its end now
        return [_ended(child, output) for child, output in zip(children, outputs, strict=True)]


def _ended(child: int, output: Path) -> Done:
    _, status, usage = os.wait4(child, 0)
    return Done(os.waitstatus_to_exitcode(status), output.read_text(), usage.ru_maxrss << 10)


def _be(command: Command, output: Path, gate: int, run: Callable[[list[str]], int]) -> None:
    """Be one of the processes; never returns."""
    status = 70
    try:
        with output.open("wb") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        os.environ.update(command.env)
        tempfile.tempdir = None  # the parent's
        os.read(gate, 1)
        status = run(list(command.argv))
        sys.stdout.flush()
    except BaseException:  # noqa: BLE001 (this process ends here)
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    _main()
