"""Random histories of an index, the same here and in the reference tool."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from kit.shared import needs_shared
from reference.histories import FLAVOURS, histories
from reference.play import difference, needs_reference
from reference.samples import Publisher

if TYPE_CHECKING:
    from kit.registry import Registry

pytestmark = [needs_reference, needs_shared, pytest.mark.timeout(0)]

HISTORIES = int(os.environ.get("OPMKIT_HISTORIES", "510"))
"""How many are played in all."""
SEED = int(os.environ.get("OPMKIT_HISTORIES_SEED", "0"))


@pytest.fixture(scope="module")
def publisher(registry: Registry) -> Publisher:
    return Publisher(registry.host)


@pytest.mark.parametrize("flavour", FLAVOURS)
@seed(SEED)
@settings(
    max_examples=HISTORIES // len(FLAVOURS),
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_history_comes_to_what_the_reference_makes_of_it(
    flavour: str, publisher: Publisher, data: st.DataObject
) -> None:
    steps = data.draw(histories(flavour))
    found = difference(steps, publisher)
    assert found is None, str(found)
