"""Databases that opmkit and the reference tool change by turns, and that the reference tool reads."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opmkit.cli.main import run
from tests.kit.shared import needs_shared
from tests.reference.histories import FLAVOURS, histories, repeated
from tests.reference.play import Comparison, Player, Rows, needs_reference, reference, run_reference

if TYPE_CHECKING:
    from pathlib import Path

    from tests.reference.samples import Publisher

pytestmark = [needs_reference, needs_shared, pytest.mark.timeout(0)]

any_history = st.sampled_from(FLAVOURS).flatmap(histories)


@pytest.mark.parametrize("players", [(run, reference), (reference, run)], ids=["opmkit-first", "reference-first"])
@repeated(0.1)
@given(data=st.data())
def test_it_makes_no_difference_who_takes_a_step(
    players: tuple[Player, ...], publisher: Publisher, data: st.DataObject
) -> None:
    found = Comparison(publisher, players).difference(data.draw(any_history))
    assert found is None, str(found)


@repeated(0.1)
@given(data=st.data())
def test_the_reference_reads_the_same_from_both(publisher: Publisher, data: st.DataObject) -> None:
    found = Comparison(publisher, read=_as_the_reference_reads_it).difference(data.draw(any_history))
    assert found is None, str(found)


def _as_the_reference_reads_it(database: Path, _prefix: str, _exact: bool) -> Rows:
    """The catalog that the reference makes of a database, and its lists; the error where it can't."""
    rendered = run_reference("render", str(database))
    blobs = [json.loads(f"{blob}}}") for blob in rendered.stdout.split("\n}\n")[:-1]]
    lists = {
        kind: sorted(run_reference("alpha", "list", kind, str(database)).stdout.splitlines())
        for kind in ("packages", "channels", "bundles")
    }
    return {"statuses": [rendered.returncode], "render": sorted(map(_canonical, blobs)), **lists}


def _canonical(value: object) -> str:
    """One text for all values that differ in the order of their lists alone."""
    if isinstance(value, dict):
        return json.dumps({key: _canonical(entry) for key, entry in value.items()}, sort_keys=True)
    return json.dumps(sorted(map(_canonical, value)) if isinstance(value, list) else value)
