"""Commands, each in a process of its own, forked from one that has loaded the program already; any number at once."""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import io
import itertools
import json
import os
import pkgutil
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from dataclasses import dataclass, field
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_PATIENCE = 240
"""The seconds after which a process that has not ended is killed, which its status shows."""


@dataclass(frozen=True)
class Command:
    """A command line without the program, what its environment has beside the caller's, and where it runs.

    The program is ``opm`` or one of its companions. ``killed_at`` names a function, and the number of the call of it
    at which the process is killed.
    """

    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    directory: str | Path = "."
    program: str = "opm"
    killed_at: tuple[str, int] | None = None


@dataclass(frozen=True)
class Done:
    """How a command ended, what it had to say, and the most memory that it had, in bytes."""

    status: int
    stdout: str
    stderr: str
    memory: int

    @property
    def output(self) -> str:
        return self.stdout + self.stderr


class ForkServer:
    """The process that the others are forked from, as a context manager."""

    def __enter__(self) -> Self:
        # gRPC reads this when it is loaded, and commands that ask servers set it before they load it.
        environment = {**os.environ, "GRPC_VERBOSITY": "NONE"}
        argv = [sys.executable, __file__]
        self._parent = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        return self

    def __exit__(self, *_: object) -> None:
        self._parent.communicate(timeout=60)

    def run(self, commands: Sequence[Command]) -> list[Done]:
        """Let all commands go at the same moment; how each of them ended."""
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        with tempfile.TemporaryDirectory() as outputs:
            self._parent.stdin.write(json.dumps([outputs, list(map(_whole, commands))]).encode() + b"\n")
            self._parent.stdin.flush()
            ends = json.loads(self._parent.stdout.readline())
            return [
                Done(status, _text(outputs, f"{number}.out"), _text(outputs, f"{number}.err"), memory)
                for number, (status, memory) in enumerate(ends)
            ]


def _text(directory: str, name: str) -> str:
    return Path(directory, name).read_text()


def _whole(command: Command) -> dict[str, object]:
    """A command with all that it takes over from this process, which is not the one that it is forked from."""
    return {
        "argv": command.argv,
        "env": {**os.environ, **command.env},
        "directory": str(Path.cwd() / command.directory),
        "program": command.program,
        "killed_at": command.killed_at,
    }


def _main() -> None:
    programs = _load()
    gc.freeze()
    for line in sys.stdin:
        outputs, commands = json.loads(line)
        gate, opener = os.pipe()
        children = []
        for number, command in enumerate(commands):
            child = os.fork()
            if not child:
                os.close(opener)
                _be(Command(**command), Path(outputs, str(number)), gate, programs)
            children.append(child)
        os.close(gate)
        os.close(opener)  # whoever reads from the gate reads its end now
        print(json.dumps([_end_of(child) for child in children]), flush=True)


def _load() -> dict[str, Callable[[], object]]:
    """Import the programs, and what they import when commands that use engines or registries run."""
    import opmkit
    from opmkit.cli.main import run

    for module in pkgutil.walk_packages(opmkit.__path__, "opmkit."):
        with contextlib.suppress(Exception):  # the commands that need it will tell
            importlib.import_module(module.name)
    with contextlib.redirect_stdout(io.StringIO()):
        run(["index", "add", "-b", "", "--dry-run"])
    installed = distribution("opmkit").entry_points.select(group="console_scripts")
    return {program.name: program.load() for program in installed}


def _end_of(child: int) -> tuple[int, int]:
    _, status, usage = os.wait4(child, 0)
    return os.waitstatus_to_exitcode(status), usage.ru_maxrss << 10


def _be(command: Command, output: Path, gate: int, programs: Mapping[str, Callable[[], object]]) -> NoReturn:
    """Be one of the processes."""
    status: object = 1
    try:
        signal.alarm(_PATIENCE)
        _redirect(Path(os.devnull), Path(f"{output}.out"), Path(f"{output}.err"))
        os.chdir(command.directory)
        os.environ.clear()
        os.environ.update(command.env)
        tempfile.tempdir = None  # the parent's
        os.read(gate, 1)
        if command.killed_at:
            _make_deadly(*command.killed_at)
        sys.argv = [command.program, *command.argv]
        programs[command.program]()
    except SystemExit as end:
        status = end.code
    except BaseException:  # noqa: BLE001 (this process ends here)
        traceback.print_exc()
    finally:
        _end(status)


def _redirect(stdin: Path, stdout: Path, stderr: Path) -> None:
    for number, (path, mode) in enumerate(((stdin, "rb"), (stdout, "wb"), (stderr, "wb"))):
        with path.open(mode) as file:
            os.dup2(file.fileno(), number)


def _make_deadly(name: str, at: int) -> None:
    """Have the call number ``at`` of the function ``module.function`` kill this process."""
    module_name, _, function_name = name.rpartition(".")
    module = importlib.import_module(module_name)
    function = getattr(module, function_name)
    calls = itertools.count(1)

    def deadly(*arguments: object, **keywords: object) -> object:
        if next(calls) == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **keywords)

    setattr(module, function_name, deadly)


def _end(status: object) -> NoReturn:
    """End as python does, but for taking down all that is loaded, which takes long."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status if isinstance(status, int) else 0 if status is None else 1)


if __name__ == "__main__":
    _main()
