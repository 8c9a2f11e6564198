"""Fork server that runs commands, one or many at once, in processes forked from one that has imported opmkit."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import importlib
import io
import itertools
import json
import os
import pkgutil
import pty
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import traceback
from dataclasses import dataclass, field
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_PATIENCE = 240
"""Seconds until SIGALRM ends a process that hangs."""


@dataclass(frozen=True)
class Command:
    """A command line without the program, additional environment variables, and the working directory.

    ``program`` is one of the installed entry points. ``killed_at`` is the dotted name of a function and the number of
    the call to it at which the process kills itself. With ``columns``, stdout and stderr are a terminal of that width,
    and what it receives is the result's stdout.
    """

    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    directory: str | Path = "."
    program: str = "opm"
    killed_at: tuple[str, int] | None = None
    columns: int = 0


@dataclass(frozen=True)
class Done:
    """The exit status, output, and peak memory in bytes of a command."""

    status: int
    stdout: str
    stderr: str
    memory: int

    @property
    def output(self) -> str:
        return self.stdout + self.stderr


class ForkServer:
    """The parent process of the commands, as a context manager."""

    def __enter__(self) -> Self:
        # gRPC reads this variable on import; commands set it before they import gRPC.
        environment = {**os.environ, "GRPC_VERBOSITY": "NONE"}
        argv = [sys.executable, __file__]
        self._parent = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        return self

    def __exit__(self, *_: object) -> None:
        self._parent.communicate(timeout=60)

    def run(self, commands: Sequence[Command]) -> list[Done]:
        """Start all commands at the same moment and return their results."""
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        with tempfile.TemporaryDirectory() as outputs:
            self._parent.stdin.write(json.dumps([outputs, list(map(_with_environment, commands))]).encode() + b"\n")
            self._parent.stdin.flush()
            results = json.loads(self._parent.stdout.readline())
            return [
                Done(status, _text(outputs, f"{number}.out"), _text(outputs, f"{number}.err"), memory)
                for number, (status, memory) in enumerate(results)
            ]


def _text(directory: str, name: str) -> str:
    return Path(directory, name).read_text()


def _with_environment(command: Command) -> dict[str, object]:
    """Return a command as JSON with the environment and directory of this process, which differ from the parent's."""
    return {
        "argv": command.argv,
        "env": {**os.environ, **command.env},
        "directory": str(Path.cwd() / command.directory),
        "program": command.program,
        "killed_at": command.killed_at,
        "columns": command.columns,
    }


def _main() -> None:
    programs = _load()
    gc.freeze()
    for line in sys.stdin:
        outputs, commands = json.loads(line)
        gate, opener = os.pipe()
        children, terminals = [], []
        for number, fields in enumerate(commands):
            command, output = Command(**fields), Path(outputs, str(number))
            terminal = _open_terminal(command.columns) if command.columns else None
            child = os.fork()
            if not child:
                os.close(opener)
                _run_child(command, output, terminal, gate, programs)
            children.append(child)
            if terminal:
                os.close(terminal[1])
                terminals.append((terminal[0], Path(f"{output}.out")))
        os.close(gate)
        os.close(opener)  # ends the read that the children wait in
        readers = [threading.Thread(target=_copy_screen, args=terminal) for terminal in terminals]
        for reader in readers:
            reader.start()
        results = [_wait_for(child) for child in children]
        for reader in readers:
            reader.join()  # before the next commands are forked
        print(json.dumps(results), flush=True)


def _open_terminal(columns: int) -> tuple[int, int]:
    """Return the descriptors of the two ends of a terminal."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    return leader, follower


def _copy_screen(leader: int, output: Path) -> None:
    """Copy what a terminal receives until its last writer closes it, which Linux reports as an error."""
    with output.open("wb") as file, contextlib.suppress(OSError):
        while chunk := os.read(leader, 1 << 16):
            file.write(chunk)
    os.close(leader)


def _load() -> dict[str, Callable[[], object]]:
    """Import the entry points and all modules, and run a command for the imports that it defers."""
    import opmkit
    from opmkit.cli.main import run

    for module in pkgutil.walk_packages(opmkit.__path__, "opmkit."):
        with contextlib.suppress(Exception):  # reported by the commands that need the module
            importlib.import_module(module.name)
    with contextlib.redirect_stdout(io.StringIO()):
        run(["index", "add", "-b", "", "--dry-run"])
    installed = distribution("opmkit").entry_points.select(group="console_scripts")
    return {program.name: program.load() for program in installed}


def _wait_for(child: int) -> tuple[int, int]:
    _, status, usage = os.wait4(child, 0)
    return os.waitstatus_to_exitcode(status), usage.ru_maxrss << 10


def _run_child(
    command: Command,
    output: Path,
    terminal: tuple[int, int] | None,
    gate: int,
    programs: Mapping[str, Callable[[], object]],
) -> NoReturn:
    """Run a command in a forked process and end the process."""
    status: object = 1
    try:
        signal.alarm(_PATIENCE)
        _redirect(Path(os.devnull), Path(f"{output}.out"), Path(f"{output}.err"))
        if terminal:
            os.dup2(terminal[1], 1)
            os.dup2(terminal[1], 2)
            for descriptor in terminal:
                os.close(descriptor)
        os.chdir(command.directory)
        os.environ.clear()
        os.environ.update(command.env)
        tempfile.tempdir = None  # inherited from the parent
        os.read(gate, 1)
        if command.killed_at:
            _kill_at_call(*command.killed_at)
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


def _kill_at_call(name: str, at: int) -> None:
    """Kill this process at call number ``at`` of the function ``module.function``."""
    module_name, _, function_name = name.rpartition(".")
    module = importlib.import_module(module_name)
    function = getattr(module, function_name)
    calls = itertools.count(1)

    def counted(*arguments: object, **keywords: object) -> object:
        if next(calls) == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **keywords)

    setattr(module, function_name, counted)


def _end(status: object) -> NoReturn:
    """Exit as Python does, but without the slow teardown of modules."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status if isinstance(status, int) else 0 if status is None else 1)


if __name__ == "__main__":
    _main()
