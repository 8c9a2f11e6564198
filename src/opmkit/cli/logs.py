"""Logs of the packages on stderr: warnings always, all of it with ``--debug``."""

from __future__ import annotations

import logging
import sys

from opmkit.imagetools.escape import escape_controls


class _Formatter(logging.Formatter):
    """Warnings in the form of all others; the rest with time and place."""

    def format(self, record: logging.LogRecord) -> str:
        if record.levelno >= logging.WARNING:
            return escape_controls(f"Warning: {record.getMessage()}")
        return escape_controls(f"{self.formatTime(record, '%H:%M:%S')} {record.name}: {record.getMessage()}")


def configure_logs(*, debug: bool) -> None:
    """Show this project's logs alone: those of HTTP libraries hold URLs with signatures."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter())
    logger = logging.getLogger("opmkit")
    logger.handlers = [handler]
    logger.setLevel(logging.DEBUG if debug else logging.WARNING)
    logger.propagate = False
