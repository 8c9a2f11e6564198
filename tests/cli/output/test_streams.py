"""Standard streams of the command."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_PROGRAM = """
import os, sys
from opmkit.cli.output.streams import replace_streams
replace_streams()
print("status", file=getattr(sys, sys.argv[1]))
os._exit(0)  # nothing is flushed at exit
"""


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_unbuffered_python_writes_each_line_at_once(stream: str) -> None:
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-c", _PROGRAM, stream]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert getattr(done, stream) == "status\n"


def test_errors_are_written_at_once() -> None:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-c", _PROGRAM, "stderr"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == "status\n"
