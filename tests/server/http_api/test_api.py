"""Dates, entity tags and ranges of HTTP."""

from __future__ import annotations

from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opmkit.server.http_api.api import (
    ByteRange,
    InvalidRange,
    Validators,
    check_preconditions,
    parse_date,
    requested_range,
)

NOV_94 = 784111777
VALIDATORS = Validators(NOV_94, "abc")
TEXT = st.text(alphabet=st.characters(max_codepoint=0x100), max_size=40)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Sun, 06 Nov 1994 08:49:37 GMT", NOV_94),
        ("sun, 06 nov 1994 08:49:37 gmt", NOV_94),
        ("Sunday, 06-Nov-94 08:49:37 GMT", NOV_94),
        ("Sun Nov  6 08:49:37 1994", NOV_94),
        ("Sunday, 06-Nov-68 08:49:37 GMT", 3119417377),
        ("Sun, 06 Nov 1994 08:49:37 +0200", None),
        ("Sun, 31 Feb 1994 08:49:37 GMT", None),
        ("Sun, 06 Xyz 1994 08:49:37 GMT", None),
        ("Sun, 06 Nov 1994 25:49:37 GMT", None),
        ("1994-11-06", None),
        ("", None),
        (None, None),
    ],
)
def test_dates_have_one_of_three_formats(text: str | None, seconds: int | None) -> None:
    assert parse_date(text) == seconds


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"if-none-match": 'W/"abc"'}, HTTPStatus.NOT_MODIFIED),
        ({"if-none-match": '"x", "abc"'}, HTTPStatus.NOT_MODIFIED),
        ({"if-none-match": 'abc, "abc"'}, HTTPStatus.OK),
        ({"if-match": '"abc"'}, HTTPStatus.PRECONDITION_FAILED),
        ({"if-match": '"x", *'}, HTTPStatus.OK),
        ({"if-match": "*", "if-unmodified-since": "Sun, 06 Nov 1984 08:49:37 GMT"}, HTTPStatus.OK),
        ({"if-unmodified-since": "Sun, 06 Nov 1994 08:49:36 GMT"}, HTTPStatus.PRECONDITION_FAILED),
        ({"if-modified-since": "Sun, 06 Nov 1994 08:49:37 GMT"}, HTTPStatus.NOT_MODIFIED),
        ({"if-modified-since": "Sun, 06 Nov 1994 08:49:36 GMT"}, HTTPStatus.OK),
        ({"if-modified-since": "Sun, 06 Nov 1994 08:49:37 GMT", "if-none-match": '"x"'}, HTTPStatus.OK),
    ],
)
def test_preconditions(headers: dict[str, str], status: HTTPStatus) -> None:
    assert check_preconditions(headers, VALIDATORS) is status


@pytest.mark.parametrize(
    ("text", "size", "expected"),
    [
        ("bytes=0-0", 10, ByteRange(0, 1)),
        ("bytes=3-", 10, ByteRange(3, 7)),
        ("bytes=-3", 10, ByteRange(7, 3)),
        ("bytes=-30", 10, ByteRange(0, 10)),
        ("bytes=5-99", 10, ByteRange(5, 5)),
        ("bytes=0-1,3-4", 10, None),
        ("bytes=0-1,20-", 10, ByteRange(0, 2)),
        ("bytes=5-", 0, None),
        ("", 10, None),
    ],
)
def test_ranges(text: str, size: int, expected: ByteRange | None) -> None:
    assert requested_range({"range": text}, size, NOV_94) == expected


@pytest.mark.parametrize(
    ("text", "outside"),
    [
        ("bytes=10-", True),
        ("bytes=5-4", False),
        ("bytes", False),
        ("bytes=a", False),
        ("bytes=" + "9" * 99 + "-", False),
    ],
)
def test_ranges_that_cannot_be_served(text: str, *, outside: bool) -> None:
    with pytest.raises(InvalidRange) as caught:
        requested_range({"range": text}, 10, NOV_94)
    assert caught.value.is_outside is outside


def test_range_of_other_content_is_ignored() -> None:
    headers = {"range": "bytes=1-2", "if-range": "Sun, 06 Nov 1994 08:49:36 GMT"}
    assert requested_range(headers, 10, NOV_94) is None
    assert requested_range({**headers, "if-range": 'W/"abc"'}, 10, NOV_94) is None


@given(TEXT, st.integers(0, 50))
def test_any_header_has_a_result(text: str, size: int) -> None:
    for name in ("if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "if-range", "range"):
        headers = {name: text, "range": f"bytes={text}"}
        assert check_preconditions(headers, VALIDATORS) in (
            HTTPStatus.OK, HTTPStatus.NOT_MODIFIED, HTTPStatus.PRECONDITION_FAILED
        )  # fmt: skip
        try:
            part = requested_range(headers, size, NOV_94)
        except InvalidRange:
            continue
        assert part is None or (part.offset >= 0 and part.offset + part.length <= size)
