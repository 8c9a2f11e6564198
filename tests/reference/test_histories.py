"""Random histories of an index, the same here and in the reference tool."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.shared import needs_shared
from tests.reference.histories import FLAVOURS, histories, repeated
from tests.reference.play import Comparison, needs_reference

if TYPE_CHECKING:
    from tests.reference.samples import Publisher

pytestmark = [needs_reference, needs_shared, pytest.mark.timeout(0)]


@pytest.mark.parametrize("flavour", FLAVOURS)
@repeated(1 / len(FLAVOURS))
@given(data=st.data())
def test_history_comes_to_what_the_reference_makes_of_it(
    flavour: str, publisher: Publisher, data: st.DataObject
) -> None:
    found = Comparison(publisher).difference(data.draw(histories(flavour)))
    assert found is None, str(found)
