"""Errors for the messages of engines."""

from __future__ import annotations

import pytest

from opmkit.imagetools.engines.engine import CONTAINERS_INSECURE_HINT, engine_error
from opmkit.imagetools.errors import (
    AuthenticationFailed,
    EngineError,
    ImageToolsError,
    InsecureTransport,
    NotFound,
    RegistryUnavailable,
)


@pytest.mark.parametrize(
    ("message", "error_type"),
    [
        ('Get "https://r/v2/": http: server gave HTTP response to HTTPS client', InsecureTransport),
        ("x509: certificate signed by unknown authority", InsecureTransport),
        ("pull access denied for x, repository does not exist or may require 'docker login'", AuthenticationFailed),
        ("unauthorized: authentication required", AuthenticationFailed),
        ("manifest unknown: manifest unknown", NotFound),
        ("dial tcp: lookup nowhere: no such host", RegistryUnavailable),
        ("received unexpected HTTP status: 502 Bad Gateway", RegistryUnavailable),
        ("toomanyrequests: rate limit exceeded", RegistryUnavailable),
        ("something else", EngineError),
    ],
)
def test_error_types(message: str, error_type: type[ImageToolsError]) -> None:
    error = engine_error("x:1", "podman", message, insecure_hint=CONTAINERS_INSECURE_HINT)
    assert type(error) is error_type
    assert message in error.message


def test_messages_are_truncated_and_printable() -> None:
    error = engine_error("x:1", "podman", "\x1b[31mred\n" * 1000, insecure_hint="")
    assert len(error.message) < 600
    assert error.message.isprintable()
