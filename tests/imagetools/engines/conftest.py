"""Fixtures that run a test with each engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.reference import Reference
from tests.imagetools.engines.helpers import ENGINES, HTTP, open_engine, use_engine

if TYPE_CHECKING:
    from opmkit.imagetools.tools.engine import EngineTool
    from tests.kit.registry import Registry


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of an engine that is running."""
    name: str = request.param
    use_engine(name, request, monkeypatch)
    return name


@pytest.fixture
def tool(engine: str) -> EngineTool:
    return open_engine(engine, HTTP)


@pytest.fixture
def reference(registry: Registry, engine: str, request: pytest.FixtureRequest) -> Reference:
    name = request.node.name.partition("[")[0].removeprefix("test_")
    return Reference(registry.host, f"engines/{engine}/{name}", "1.0")
