"""Logs of servers in logfmt, one record per line: info to stdout, warnings and errors to stderr.

Fatal errors are also written to the termination log of the container, from which Kubernetes reads the reason.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import IO

from opmkit.cli.hints import format_hint
from opmkit.cli.output.errors import UsageError, format_os_error
from opmkit.core.errors import OpmkitError
from opmkit.core.escape import escape_line
from opmkit.core.hints import Hint

_PLAIN = re.compile(r"[A-Za-z0-9._/@^+-]+")
_LEVELS: Mapping[str, str] = MappingProxyType({"CRITICAL": "fatal"})


@contextmanager
def server_logs(termination_log: Path, *, debug: bool) -> Iterator[None]:
    """Log in the format of servers; an error in the block is logged as fatal and ends the command with exit code 1."""
    logger = logging.getLogger("opmkit")
    before = logger.handlers, logger.level
    try:
        with ExitStack() as stack:
            logger.setLevel(logging.DEBUG if debug else logging.INFO)
            try:
                logger.handlers = _handlers(stack.enter_context(_open(termination_log)))
            except OSError as error:
                logger.handlers = [_handler(sys.stderr, logging.DEBUG)]
                fields = {"error": format_os_error(error)}
                logger.warning(
                    "the termination log cannot be opened: all logs are written to stderr", extra={"fields": fields}
                )
            try:
                yield
            except UsageError:
                raise
            except (OpmkitError, OSError) as error:
                from typer import Exit  # slow to import: only servers need it

                _log_fatal(logger, error)
                raise Exit(1) from error
    finally:
        logger.handlers, level = before
        logger.setLevel(level)


def _log_fatal(logger: logging.Logger, error: OpmkitError | OSError) -> None:
    text = format_os_error(error) if isinstance(error, OSError) else error.message
    hint = format_hint(error.hint) if isinstance(error, OpmkitError) else ""
    logger.critical(text, extra={"fields": {"hint": hint} if hint else {}})
    logger.debug("traceback of the error", exc_info=error)


@contextmanager
def _open(path: Path) -> Iterator[IO[str]]:
    """Open the termination log, which is created if necessary and overwritten from its start."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o755)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        yield file


def _handlers(termination: IO[str]) -> list[logging.Handler]:
    return [
        _handler(sys.stdout, logging.DEBUG, logging.INFO),
        _handler(sys.stderr, logging.WARNING),
        _handler(termination, logging.CRITICAL),
    ]


def _handler(stream: IO[str], lowest: int, highest: int = logging.CRITICAL) -> logging.Handler:
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LogfmtFormatter())
    handler.addFilter(lambda record: lowest <= record.levelno <= highest)
    return handler


class LogfmtFormatter(logging.Formatter):
    """Formatter of records as one line: time, level, message, and the fields of ``extra={"fields": ...}`` by name."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        level = _LEVELS.get(record.levelname, record.levelname.lower())
        given = sorted(getattr(record, "fields", {}).items())
        fields = {name: format_hint(value) if isinstance(value, Hint) else value for name, value in given}
        if record.exc_info:
            fields["trace"] = self.formatException(record.exc_info)
        return format_record(level, record.getMessage(), fields, seconds=record.created)


def format_record(level: str, message: str, fields: Mapping[str, object], *, seconds: float | None = None) -> str:
    """Return a record as one line of logfmt; ``seconds`` is its Unix time, by default the current time."""
    time = datetime.now(UTC) if seconds is None else datetime.fromtimestamp(seconds, UTC)
    record = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ"), "level": level, "msg": message, **fields}
    return escape_line(" ".join(f"{name}={_quoted(str(value))}" for name, value in record.items()))


def _quoted(text: str) -> str:
    """Return the text as a logfmt value, in quotes where the Go library logrus writes quotes too."""
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=not text.replace("\n", "").isprintable())
