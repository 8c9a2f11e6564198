"""Logs on stderr: warnings, and with ``--debug`` all messages."""

from __future__ import annotations

import logging
import sys

from opmkit.cli.output.terminal import fit_line
from opmkit.core.escape import escape_line


class _Formatter(logging.Formatter):
    """Formatter of warnings as the command prints them, and of other messages with time and logger."""

    def format(self, record: logging.LogRecord) -> str:
        if record.levelno >= logging.WARNING:
            return fit_line(escape_line(f"Warning: {record.getMessage()}"), sys.stderr)
        return escape_line(f"{self.formatTime(record, '%H:%M:%S')} {record.name}: {record.getMessage()}")


def configure_logs(*, debug: bool) -> None:
    """Log the messages of opmkit only: HTTP libraries log URLs with signatures."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter())
    logger = logging.getLogger("opmkit")
    logger.handlers = [handler]
    logger.setLevel(logging.DEBUG if debug else logging.WARNING)
    logger.propagate = False
    logging.getLogger("sigstore").setLevel(logging.ERROR)
