"""Fixtures of the tests that compare two implementations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.reference.samples import Publisher

if TYPE_CHECKING:
    from tests.kit.registry import Registry


@pytest.fixture(scope="session")
def publisher(registry: Registry) -> Publisher:
    return Publisher(registry.host)
