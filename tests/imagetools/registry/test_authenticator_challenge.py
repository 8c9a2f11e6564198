"""Parsing of WWW-Authenticate headers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opmkit.imagetools.registry.authenticator import Challenge


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (
            'Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a/b:pull,push"',
            Challenge("bearer", "https://auth.docker.io/token", "registry.docker.io", "repository:a/b:pull,push"),
        ),
        ('Basic realm="Registry Realm"', Challenge("basic", "Registry Realm")),
        ("bearer realm=https://x/token , service=s", Challenge("bearer", "https://x/token", "s")),
        (
            'Basic realm="b", Bearer realm="https://t", service="s"',
            Challenge("bearer", "https://t", "s"),
        ),
        ('Negotiate, Basic realm="b"', Challenge("basic", "b")),
        (r'Bearer realm="a\"b"', Challenge("bearer", 'a"b')),
        ('BEARER REALM="x",Service="y",error="invalid_token"', Challenge("bearer", "x", "y")),
        ("Basic", Challenge("basic")),
        ("Digest realm=x", None),
        ("", None),
        ('Bearer realm="unterminated', Challenge("bearer")),
    ],
)
def test_headers(header: str, expected: Challenge | None) -> None:
    assert Challenge.parse(header) == expected


@given(st.text(max_size=200))
def test_random_headers(header: str) -> None:
    challenge = Challenge.parse(header)
    assert challenge is None or challenge.scheme in ("basic", "bearer")
