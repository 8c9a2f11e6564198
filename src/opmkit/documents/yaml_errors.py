"""Errors of YAML parsers: the problem in plain words, and where it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from opmkit.documents.errors import InvalidDocument

if TYPE_CHECKING:
    from collections.abc import Mapping

_AT_CONTEXT: Mapping[str, str] = {
    "could not find expected ':'": "a key without ':'",
    "found unexpected end of stream": "quoted text without a closing quote",
}
"""libyaml notices these where the text ends; the mistake is where it begins."""
_IN_CONTEXT: Mapping[str, str] = {
    "did not find expected ',' or ']'": "expected ',' or ']' in the list that begins in line {}",
    "did not find expected ',' or '}'": "expected ',' or '}}' in the mapping that begins in line {}",
    "did not find expected '-' indicator": "expected '-' as in the list that begins in line {}",
    "did not find expected key": "expected a key of the mapping that begins in line {}",
}
_NO_START = "found character that cannot start any token"


def syntax_error(error: yaml.YAMLError, content: bytes) -> InvalidDocument:
    """Return the error of a parser with the line and column of the mistake, if they are known."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return _marked_error(error, error.problem_mark, content)
    if isinstance(error, yaml.reader.ReaderError):
        before = content[: error.position]
        return InvalidDocument(str(error.reason), line=before.count(b"\n") + 1)
    return InvalidDocument(" ".join(str(error).split()))


def _marked_error(error: yaml.MarkedYAMLError, mark: yaml.Mark, content: bytes) -> InvalidDocument:
    problem = error.problem or error.context or "invalid YAML"
    if error.context_mark is not None:
        if problem in _AT_CONTEXT:
            mark = error.context_mark
        problem = _AT_CONTEXT.get(problem) or _IN_CONTEXT.get(problem, problem).format(error.context_mark.line + 1)
    if problem == _NO_START:
        problem = _no_start(_character(content, mark))
    return InvalidDocument(problem, line=mark.line + 1, column=mark.column + 1)


def _character(content: bytes, mark: yaml.Mark) -> str:
    try:
        return content.decode("utf-8-sig").splitlines()[mark.line][mark.column]
    except (UnicodeDecodeError, IndexError):
        return ""


def _no_start(character: str) -> str:
    """Return the problem of a character with which no value can begin."""
    if character == "\t":
        return "indented by a tab instead of spaces"
    return f"a value that begins with {character!r} and has no quotes" if character else _NO_START
