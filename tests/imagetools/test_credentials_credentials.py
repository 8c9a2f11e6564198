"""Credentials values."""

from __future__ import annotations

from opmkit.imagetools.credentials import Credentials


def test_repr_has_no_secrets() -> None:
    text = repr(Credentials("user", "pass-secret", "identity-secret", "registry-secret"))
    assert "user" in text
    assert "secret" not in text


def test_basic_header() -> None:
    assert Credentials("Aladdin", "open sesame").basic() == "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="
