"""Exit codes of the installed commands."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

COMMAND = """
import os, signal, time
from opmkit.core import interrupts

def run(arguments):
    interrupts.begin_command()
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)
    except interrupts.Interrupted:
        raise {error}
"""


@pytest.mark.parametrize("error", ['RuntimeError("connection is in use")', "SystemExit(1)", 'OSError("closed")', ""])
def test_interrupted_command_has_the_status_of_the_signal(error: str, tmp_path: Path) -> None:
    (tmp_path / "command.py").write_text(COMMAND.format(error=error))
    start = (
        f"import sys; sys.path.append({str(tmp_path)!r}); from opmkit.cli import entry; entry._run('command', 'run')"
    )
    done = subprocess.run(
        [sys.executable, "-c", start], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (143, "Error: interrupted by SIGTERM\n")


ENDING = """
import atexit, os, sys, threading, time

class Global:
    def __del__(self, write=os.write):
        write(1, b"destroyed\\n")

kept = Global()

def run(arguments):
    def work():
        time.sleep(0.2)
        print("thread")

    threading.Thread(target=work).start()
    atexit.register(print, "handler")
    print("error", file=sys.stderr)
    print("result")
    {trace}
    return 7
"""


@pytest.mark.parametrize(
    ("trace", "end"), [("", ""), ("sys.settrace(lambda *_: None)", "destroyed\n")], ids=["command", "debugger"]
)
def test_process_ends_without_teardown(trace: str, end: str, tmp_path: Path) -> None:
    """Threads and handlers have ended, and all output is written."""
    (tmp_path / "command.py").write_text(ENDING.format(trace=trace))
    start = (
        f"import sys; sys.path.append({str(tmp_path)!r}); from opmkit.cli import entry; entry._run('command', 'run')"
    )
    done = subprocess.run([sys.executable, "-c", start], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (7, f"result\nthread\nhandler\n{end}", "error\n")


FINALIZED = """
from opmkit.core.scratch import finalize

class Owner:
    pass

owner = Owner()

def run(arguments):
    finalize(owner, print, "stopped")
    return 0
"""


def test_process_ends_after_finalizers(tmp_path: Path) -> None:
    """Finalizers are called even if another module has registered the handler of ``weakref`` before."""
    (tmp_path / "command.py").write_text(FINALIZED)
    early = "import sys, weakref; Early = type('Early', (), {}); weakref.finalize(Early, id, 0)"
    start = f"{early}; sys.path.append({str(tmp_path)!r}); from opmkit.cli import entry; entry._run('command', 'run')"
    done = subprocess.run([sys.executable, "-c", start], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "stopped\n" in done.stdout
