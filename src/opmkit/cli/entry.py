"""Process startup of the installed commands: signals are handled before anything else is imported."""

from __future__ import annotations

import atexit
import gc
import os
import sys

from opmkit.core.search_paths import restrict_search_paths

TYPE_CHECKING = False  # importing typing takes longer than everything else here
if TYPE_CHECKING:
    from typing import NoReturn

_GC_THRESHOLD = 50_000
"""Allocations between garbage collections: modules and manifests are many objects, and hardly any are in cycles."""


def opm() -> NoReturn:
    """Run ``opm``, or ``operator-sdk`` if that is its name or the first argument.

    ``opm version``, which programs call first, runs without importing other commands.
    """
    if os.path.basename(sys.argv[0]).startswith("operator-sdk") or sys.argv[1:2] == ["operator-sdk"]:  # noqa: PTH119 - pathlib is slow to import
        _run("opmkit.cli.operator_sdk", "run")
    _run("opmkit.cli.version" if sys.argv[1:] == ["version"] else "opmkit.cli.main", "run")


def initializer() -> NoReturn:
    """Run ``initializer``."""
    _run("opmkit.cli.entrypoints", "run_initializer")


def registry_server() -> NoReturn:
    """Run ``registry-server``."""
    _run("opmkit.cli.entrypoints", "run_registry_server")


def configmap_server() -> NoReturn:
    """Run ``configmap-server``."""
    _run("opmkit.cli.entrypoints", "run_configmap_server")


def _run(module: str, function: str) -> NoReturn:
    """Run a function of a module with the command line's arguments, and exit with the code that it returns."""
    restrict_search_paths()
    from opmkit.core import interrupts  # after the search paths: it imports modules

    process_end = _ProcessEnd()
    atexit.register(process_end)  # the first handler runs last
    gc.set_threshold(_GC_THRESHOLD)
    _open_closed_descriptors()
    interrupts.install()
    from importlib import import_module

    from opmkit.cli.output.streams import replace_streams

    replace_streams()
    try:
        status = getattr(import_module(module), function)(sys.argv[1:])
        sys.stdout.flush()
    except interrupts.Interrupted:
        status = 1
    except BrokenPipeError:  # the reader of the output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        status = 1
    except SystemExit:
        if not interrupts.received_signal():
            raise
        status = 1  # a library turned the interruption into another error
    except Exception as error:  # noqa: BLE001 - of imports, for example in an incomplete installation
        status = 1 if interrupts.received_signal() else _report(error)
    interrupts.end_command()
    number = interrupts.received_signal()
    process_end.status = interrupts.report(number) if number else status
    sys.exit(process_end.status)


class _ProcessEnd:
    """Ends the process with an exit status, without destroying the objects and modules of the interpreter.

    This saves a tenth of the time of a short command. It is called when threads and other handlers have ended.
    """

    status: int | None = None
    """The exit status; None if the command did not end as expected."""

    def __call__(self) -> None:
        if self.status is None or sys.gettrace():  # a debugger or a program that measures coverage
            return
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except Exception:  # noqa: BLE001 - the interpreter reports it
            return
        os._exit(self.status)


def _report(error: Exception) -> int:
    """Print an error that the program has not handled, and return the exit code."""
    from opmkit.cli.output.errors import exit_code, print_error, print_traceback, to_opmkit_error

    if "--debug" in sys.argv:
        print_traceback(error)
    reported = to_opmkit_error(error)
    print_error(reported)
    return exit_code(reported)


def _open_closed_descriptors() -> None:
    """Open standard descriptors that are closed: otherwise the next file or socket would get their number.

    Standard output gets a descriptor that is not writable, so that writes fail as they do for a closed one.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_WRONLY if number == 2 else os.O_RDONLY)  # the lowest free number
