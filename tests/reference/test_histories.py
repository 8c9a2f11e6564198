"""Random histories of an index have the same results as with Go opm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.shared import needs_shared
from tests.reference.comparison import Comparison, needs_reference
from tests.reference.histories import FLAVOURS, histories, share_of_histories

if TYPE_CHECKING:
    from tests.reference.samples import Publisher

pytestmark = [needs_reference, needs_shared, pytest.mark.timeout(0)]


@pytest.mark.parametrize("flavour", FLAVOURS)
@share_of_histories(1 / len(FLAVOURS))
@given(data=st.data())
def test_history_has_the_results_of_go_opm(flavour: str, publisher: Publisher, data: st.DataObject) -> None:
    difference = Comparison(publisher).difference(data.draw(histories(flavour)))
    assert difference is None, str(difference)
