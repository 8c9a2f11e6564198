"""Markers of Go sources: ``+NAME:ARGUMENT=VALUE,...``, with the syntax and the arguments of controller-tools."""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from opmkit.documents.errors import InvalidDocument

if TYPE_CHECKING:
    from collections.abc import Mapping

_SPACE = " \t\n\r"
_TOKEN = re.compile(r'[^\W\d]\w*|"(?:\\.|[^"\\\n])*"|`[^`]*`|.', re.DOTALL)
_IDENTIFIER = re.compile(r"[^\W\d]\w*")
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_ESCAPE = re.compile(r'\\(?:([abfnrtv\\"])|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})|(.?))')
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", '"': '"'}
_ENDS_STRING = frozenset(",;:}")
_MAX_CODE_POINT = 0x10FFFF


class ArgumentType(Enum):
    """Type of an argument of a marker."""

    STRING = auto()
    INTEGER = auto()
    STRINGS = auto()
    STRING_LISTS = auto()


_ITEM_TYPES = {ArgumentType.STRINGS: ArgumentType.STRING, ArgumentType.STRING_LISTS: ArgumentType.STRINGS}


class Definition(Struct, frozen=True):
    """The arguments of a marker by name. A marker without arguments has one value, of the type ``anonymous``."""

    arguments: Mapping[str, ArgumentType] = {}
    anonymous: ArgumentType | None = None


class Marker(Struct, frozen=True):
    """A marker and the values of its arguments; the value of an anonymous argument has the name ""."""

    name: str
    values: Mapping[str, Any]


CSV_MARKER = "operator-sdk:csv:customresourcedefinitions"
RESOURCE_MARKER = "kubebuilder:resource"
GROUP_MARKER = "groupName"
VERSION_MARKER = "versionName"
SKIP_MARKER = "kubebuilder:skip"

PACKAGE_MARKERS = {
    GROUP_MARKER: Definition(anonymous=ArgumentType.STRING),
    VERSION_MARKER: Definition(anonymous=ArgumentType.STRING),
    SKIP_MARKER: Definition(),
}
TYPE_MARKERS = {
    CSV_MARKER: Definition(
        {
            "resources": ArgumentType.STRING_LISTS,
            "displayName": ArgumentType.STRING,
            "order": ArgumentType.INTEGER,
        }
    ),
    RESOURCE_MARKER: Definition(
        {
            "path": ArgumentType.STRING,
            "shortName": ArgumentType.STRINGS,
            "categories": ArgumentType.STRINGS,
            "singular": ArgumentType.STRING,
            "scope": ArgumentType.STRING,
        }
    ),
}
FIELD_MARKERS = {
    CSV_MARKER: Definition(
        {
            "type": ArgumentType.STRING,
            "displayName": ArgumentType.STRING,
            "xDescriptors": ArgumentType.STRINGS,
            "order": ArgumentType.INTEGER,
        }
    ),
}


def parse_marker(text: str, definitions: Mapping[str, Definition]) -> Marker | None:
    """Parse a marker, which begins with ``+``; return None if it is not among the definitions.

    Raises:
        InvalidDocument: Its arguments are invalid.
    """
    full_name, equals, value = text.removeprefix("+").partition("=")
    name, _, argument = full_name.rpartition(":")
    if full_name in definitions:
        definition, arguments, name = definitions[full_name], value, full_name
    elif equals and name in definitions:
        definition, arguments = definitions[name], f"{argument}={value}"
    else:
        return None
    parser = _Parser(arguments)
    values: dict[str, Any] = {}
    if definition.anonymous and arguments:
        values[""] = parser.value(definition.anonymous)
    elif definition.arguments and arguments:
        values = parser.arguments(definition.arguments)
    parser.expect_end()
    return Marker(name, values)


class _Parser:
    """Parses the arguments of one marker."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0

    def arguments(self, types: Mapping[str, ArgumentType]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        while True:
            name = self._match(_IDENTIFIER, "the name of an argument")
            self._expect("=")
            if name not in types:
                raise InvalidDocument(f'unknown argument "{name}": not one of {", ".join(types)}')
            values[name] = self.value(types[name])
            if self._position >= len(self._text):
                return values
            self._expect(",")

    def value(self, kind: ArgumentType) -> Any:
        if kind is ArgumentType.STRING:
            return self._string()
        if kind is ArgumentType.INTEGER:
            return int(self._match(_INTEGER, "an integer"))
        return self._list(_ITEM_TYPES[kind])

    def expect_end(self) -> None:
        """Raise an error if there is more text."""
        if self._peek():
            raise InvalidDocument(f"unexpected {self._text[self._position :]!r} at the end")

    def _list(self, item_type: ArgumentType) -> list[Any]:
        """Parse ``{a,b}`` or, as in old markers, ``a;b``."""
        items: list[Any] = []
        braces = self._peek() == "{"
        if braces:
            self._expect("{")
        end, separator = ("}", ",") if braces else (",}", ";")
        while (following := self._peek()) and following not in end:
            items.append(self.value(item_type))
            if (following := self._peek()) in end or (not braces and not following):
                break
            self._expect(separator)
        if braces:
            self._expect("}")
        return items

    def _string(self) -> str:
        """Parse a quoted string, or plain text up to a separator."""
        token = self._token()
        if token.startswith("`"):
            return token[1:-1].replace("\r", "")
        if token.startswith('"'):
            return _unquote(token[1:-1])
        start = end = self._position - len(token)
        if token:
            end = self._position
        while (following := self._peek()) and following not in _ENDS_STRING:
            self._token()
            end = self._position
        return self._text[start:end]

    def _peek(self) -> str:
        """Skip spaces and return the next character, "" at the end."""
        while self._position < len(self._text) and self._text[self._position] in _SPACE:
            self._position += 1
        return self._text[self._position : self._position + 1]

    def _token(self) -> str:
        self._peek()
        match = _TOKEN.match(self._text, self._position)
        token = match.group() if match else ""
        if token in ('"', "`"):
            raise InvalidDocument("missing quote at the end of a string")
        self._position += len(token)
        return token

    def _match(self, pattern: re.Pattern[str], wanted: str) -> str:
        self._peek()
        match = pattern.match(self._text, self._position)
        if not match:
            raise self._unexpected(wanted)
        self._position = match.end()
        return match.group()

    def _expect(self, character: str) -> None:
        if self._peek() != character:
            raise self._unexpected(f'"{character}"')
        self._position += 1

    def _unexpected(self, wanted: str) -> InvalidDocument:
        rest = self._text[self._position :]
        return InvalidDocument(f"expected {wanted} before {rest!r}" if rest else f"expected {wanted} at the end")


def _unquote(text: str) -> str:
    return _ESCAPE.sub(_unescape, text)


def _unescape(match: re.Match[str]) -> str:
    simple, *codes, octal, other = match.groups()
    if other is not None:
        raise InvalidDocument(f"invalid escape sequence \\{other} in a string")
    if simple:
        return _ESCAPED[simple]
    code = int(octal, 8) if octal else int(next(filter(None, codes)), 16)
    if code > _MAX_CODE_POINT or 0xD800 <= code < 0xE000:
        raise InvalidDocument(f"invalid escape sequence {match.group()} in a string")
    return chr(code)
