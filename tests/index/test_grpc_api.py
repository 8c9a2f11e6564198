"""The list of methods, compared with the messages and the interface of backends."""

from __future__ import annotations

import inspect

import pytest

from opmkit.index.grpc_api import METHODS, request_class
from opmkit.server.backend import QueryBackend


@pytest.mark.parametrize("name", METHODS)
def test_backends_take_the_arguments_of_requests(name: str) -> None:
    method = METHODS[name]
    fields = {field.name for field in request_class(name).DESCRIPTOR.fields}
    assert set(method.arguments) == fields - {"plural"}
    parameters = list(inspect.signature(getattr(QueryBackend, method.python_name)).parameters)
    assert len(parameters) == 1 + len(method.arguments)


def test_python_name() -> None:
    assert METHODS["GetChannelEntriesThatReplace"].python_name == "get_channel_entries_that_replace"
