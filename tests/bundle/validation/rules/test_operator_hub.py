"""Validation of mail addresses, with the results of Go's net/mail."""

from __future__ import annotations

import pytest

from opmkit.bundle.validation.rules.operator_hub import is_single_address


@pytest.mark.parametrize(
    "text",
    [
        "a@b",
        "a.b@c.d",
        "Ann <a@b.c>",
        "<a@b.c>",
        '"a b"@c.d',
        "ü@ü.ü",
        "a@b (comment)",
        '"Ann, B" <a@b>',
        " a@b ",
        "list: a@b;",
    ],
)
def test_valid_addresses(text: str) -> None:
    assert is_single_address(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "@",
        "a",
        "a@",
        "a..b@c",
        "a@b.",
        "ann @example.com",
        "a@b, c@d",
        "https://example.com",
        "a@[127.0.0.1]",
        "<a@b",
        '""@b',
        "a@b\n",
        "list: a@b, c@d;",
        "(" * 50_000,
        "a" * 20_000 + "@b",
        '"' + "\\" * 9_000,
    ],
)
def test_invalid_addresses(text: str) -> None:
    assert not is_single_address(text)
