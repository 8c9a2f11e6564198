"""Reading the requests of the service."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import DecodeError

from opmkit.index.api.messages import METHODS


def read_request(method: str, data: bytes) -> Any:
    """The request to a method of the service, by its name; raises ValueError where the bytes are none."""
    try:
        return METHODS[method].request.FromString(data)
    except DecodeError as error:
        raise ValueError(str(error)) from error
