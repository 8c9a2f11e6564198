"""Syntax errors of YAML: problem and location."""

from __future__ import annotations

import pytest

from opmkit.documents.document import read_document
from opmkit.documents.errors import InvalidDocument


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("a: b\nfoo bar\n---\nx: y\n", 2, "a key without ':'"),
        ("a: b\nc: 'd\ne: f\n", 2, "quoted text without a closing quote"),
        ("a: [1,\n2\nb: 1\n", 3, "expected ',' or ']' in the list that begins in line 1"),
        ("a: {b: 1\nc: 2\n", 2, "expected ',' or '}' in the mapping that begins in line 1"),
        ("- a\nb: 1\n", 2, "expected '-' as in the list that begins in line 1"),
        ("x: 1\na: 'x' y\n", 2, "expected a key of the mapping that begins in line 1"),
        ("a:\n\tb: 1\n", 2, "indented by a tab instead of spaces"),
        ("b: ü\na: @x\n", 2, "a value that begins with '@' and has no quotes"),
    ],
)
def test_problem_and_line(text: str, line: int, problem: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        read_document(text.encode())
    assert (caught.value.line, caught.value.problem) == (line, problem)
