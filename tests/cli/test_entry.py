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
    start = "from opmkit.cli import entry; entry._run('command', 'run')"
    done = subprocess.run(
        [sys.executable, "-c", start], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (143, "Error: interrupted by SIGTERM\n")
