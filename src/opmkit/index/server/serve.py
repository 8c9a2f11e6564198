"""Serving an index database."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from typing import TYPE_CHECKING

from opmkit.index.database.serving import served_database
from opmkit.index.server.ports import ReservedPort
from opmkit.index.server.processes import run_processes

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit.index.server.processes import Life
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
        # The heavy modules are loaded before the processes part, so that they share them; none of them starts a thread.
        from opmkit.index.server.from_database import DatabaseAnswers, record_count
        from opmkit.index.server.listener import Listener
        from opmkit.index.server.prepared import PreparedAnswers

        listener = Listener(port.number, settings)
        prepared = stack.enter_context(PreparedAnswers(record_count(database)))

        def work(life: Life) -> None:
            with DatabaseAnswers.open(database, prepared) as answers:
                listener.run(answers, life)

        fields = {"database": name or str(path), "port": port.number}
        if not database.tables:
            _log.warning("no tables found in db", extra={"fields": fields})
        run_processes(work, settings, lambda: _log.info("serving registry", extra={"fields": fields}))
