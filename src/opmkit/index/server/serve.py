"""Serving an index database."""

from __future__ import annotations

import logging
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from opmkit.index.database.serving import served_database
from opmkit.index.server.ports import ReservedPort
from opmkit.index.server.prepared import PreparedAnswers
from opmkit.index.server.processes import run_processes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from opmkit.index.database.serving import ServedDatabase
    from opmkit.index.server.service import Loaded
    from opmkit.index.server.settings import ServerSettings

_log = logging.getLogger(__name__)


def serve_database(path: Path, settings: ServerSettings, *, migrate: bool = True, name: str = "") -> None:
    """Serve the index database at ``path`` until a signal (INT, TERM) or the timeout, then stop gracefully.

    The file is only read. One of an older schema is migrated on a private copy, unless ``migrate`` is false. Logs go to
    the loggers of this package; ``name`` is what they call the database.

    Raises:
        InvalidDatabase: no index database, a damaged one, or a schema that is too new.
        DatabaseUnavailable: no such file, or it can't be read.
        ServerError: the port or the certificate can't be used, or a process of the server has died.
    """
    with ExitStack() as stack:
        database = stack.enter_context(served_database(path, migrate=migrate))
        port = stack.enter_context(ReservedPort(settings.port))
        # What every process needs to listen is loaded before they part, so that they share it. It starts no thread.
        from opmkit.index.server.listener import Listener

        listener = Listener(port.number, settings)
        prepared = stack.enter_context(PreparedAnswers(database.bundles))
        fields = {"database": name or str(path), "port": port.number}
        if not database.tables:
            _log.warning("no tables found in db", extra={"fields": fields})
        run_processes(
            lambda life: listener.run(lambda: _loaded(database, prepared), life),
            settings,
            lambda: _log.info("serving registry", extra={"fields": fields}),
        )


@contextmanager
def _loaded(database: ServedDatabase, prepared: PreparedAnswers) -> Iterator[Loaded]:
    """What a process answers calls with."""
    from opmkit.index.server.from_database import DatabaseAnswers
    from opmkit.index.server.requests import read_request
    from opmkit.index.server.service import Loaded

    with DatabaseAnswers.open(database, prepared) as answers:
        yield Loaded(answers, read_request)
