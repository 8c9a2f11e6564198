"""Databases that opmkit and Go opm change in turn, and that Go opm reads."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opmkit.cli.main import run
from tests.kit.shared import needs_shared
from tests.reference.comparison import Comparison, Player, Rows, needs_reference, reference, run_reference
from tests.reference.histories import FLAVOURS, histories, share_of_histories

if TYPE_CHECKING:
    from pathlib import Path

    from tests.reference.samples import Publisher

pytestmark = [needs_reference, needs_shared, pytest.mark.timeout(0)]

any_history = st.sampled_from(FLAVOURS).flatmap(histories)


@pytest.mark.parametrize("players", [(run, reference), (reference, run)], ids=["opmkit-first", "go-opm-first"])
@share_of_histories(0.1)
@given(data=st.data())
def test_steps_can_be_run_by_either_program(
    players: tuple[Player, ...], publisher: Publisher, data: st.DataObject
) -> None:
    difference = Comparison(publisher, players).difference(data.draw(any_history))
    assert difference is None, str(difference)


@share_of_histories(0.1)
@given(data=st.data())
def test_go_opm_reads_the_same_from_both_databases(publisher: Publisher, data: st.DataObject) -> None:
    difference = Comparison(publisher, read=_read_with_go_opm).difference(data.draw(any_history))
    assert difference is None, str(difference)


def _read_with_go_opm(database: Path, _prefix: str, _exact: bool) -> Rows:
    """Return the catalog that Go opm renders from a database, its exit status, and the lists."""
    rendered = run_reference("render", str(database))
    blobs = [json.loads(f"{blob}}}") for blob in rendered.stdout.split("\n}\n")[:-1]]
    lists = {
        kind: sorted(run_reference("alpha", "list", kind, str(database)).stdout.splitlines())
        for kind in ("packages", "channels", "bundles")
    }
    return {"statuses": [rendered.returncode], "render": sorted(map(_canonical, blobs)), **lists}


def _canonical(value: object) -> str:
    """Return a text that does not depend on the order of lists."""
    if isinstance(value, dict):
        return json.dumps({key: _canonical(entry) for key, entry in value.items()}, sort_keys=True)
    return json.dumps(sorted(map(_canonical, value)) if isinstance(value, list) else value)
