"""Flags of all commands."""

from __future__ import annotations

GLOBAL_FLAGS = {
    "--skip-tls": False,
    "--skip-tls-verify": False,
    "--use-http": False,
    "--debug": False,
    "--verbose": False,  # operator-sdk's name for it
    "--ca-file": True,
    "--cert-dir": True,
    "--authfile": True,
    "--progress": True,
}
"""Flags that are valid anywhere on the command line, and whether each takes a value."""
