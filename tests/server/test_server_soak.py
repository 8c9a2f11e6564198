"""Mixed calls, many of them cancelled, for some seconds; ``scripts/bench soak`` runs for half an hour."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kit.catalogs import write_library
from tests.kit.server import Server
from tests.kit.soak import soak

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.long  # test_server_leaks.py finds most leaks without a process
def test_files_and_memory_do_not_grow(tmp_path: Path) -> None:
    write_library(tmp_path / "library.db")
    with Server("-d", str(tmp_path / "library.db")) as server:
        result = soak(server.address, server.process.pid, tmp_path / "library.db", seconds=6)
        assert server.stop() == 0
    assert result.problems == []
    assert result.calls > 100
    assert result.cancelled > 10
    assert result.files_after <= result.files_before
    early, late = result.memory()
    assert late < early * 1.5
    assert server.err == ""
