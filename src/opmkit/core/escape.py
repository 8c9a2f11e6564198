"""Escaping of untrusted text for terminals, logs, CI systems, Markdown, JSON and YAML."""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing takes longer than printing the version
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from re import Match, Pattern

_COMMANDS = ("##[", "##vso[", "##teamcity[")
"""Starts of commands to CI systems anywhere in a line; GitHub Actions also reads those after ``::`` at its start."""
_COMMAND = r"#(?=#(?:vso|teamcity)?\[)"
_IGNORABLE = (
    r"\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    r"\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Default ignorable code points of Unicode: invisible, or they change the order of others."""
_EMOJI = r"#*0-9\xa9\xae\u203c\u2049\u2122\u2139\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
_NOT_EMOJI = rf"(?<![{_EMOJI}])\ufe0f"
"""The selector of colored emoji, where none precedes it."""
_FORMATS = rf"[\x7f-\x9f\u2028\u2029{_IGNORABLE}]|{_NOT_EMOJI}"
"""Controls that JSON and YAML allow: DEL, C1, separators of lines, and invisible characters."""
_USER, _AT = r"[^\s/?#@:\"'`<>(){}\[\],;=]", r"@(?!sha\d{3}\b)"
_NO_LOGIN = "(?:pkg|dir|store|oci|(?:oci|docker)-archive|docker-daemon|containers-storage)"
_PASSWORD = rf"(?:[^\s@\"`<>]|{_AT}){{0,256}}"
_LOGIN = (
    rf"(?<![\w+.-])(?P<start>(?:[A-Za-z][\w+.-]{{0,30}}:)?/+)"
    rf"{_USER}{{0,256}}:(?:{_PASSWORD}|(?!\d+[\s,:;)])[^\s/@\"]{{1,256}}(?: [^\s/@\":]{{1,256}}){{1,3}}){_AT}"
    rf"|(?<![^\s\"'`(<=,/;\[{{])(?!{_NO_LOGIN}:){_USER}{{1,256}}:(?!/){_PASSWORD}{_AT}"
)
"""User and password before a host; an image with a tag and a digest has none."""
_COMPILED: dict[str, Pattern[str]] = {}


def escape_controls(text: str) -> str:
    r"""Return the text on one line, with an escape such as ``\x1b`` or ``\n`` for each unprintable character.

    These are control characters (C0, C1), line and paragraph separators, bidirectional controls, invisible characters
    and surrogates, which a terminal may interpret as commands or display out of order. Backslashes are not escaped.
    """
    if not text.isascii():
        text = _compiled(_FORMATS).sub(_unicode_escape, text)
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _unicode_escape(found: Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def escape_line(text: str) -> str:
    r"""Return a line of output with escaped controls, without logins, and without commands to CI systems.

    GitHub Actions, Azure Pipelines and TeamCity run commands such as ``::error::`` and ``##[group]`` in the output of
    a job; their first character becomes ``\x3a`` or ``\x23``.
    """
    text = without_logins(escape_controls(text))
    if "##" in text:
        for command in _COMMANDS:
            text = text.replace(command, rf"\x23{command[1:]}")
    if "::" in text and (command := text.lstrip()).startswith("::"):
        text = rf"{text[: -len(command)]}\x3a{command[1:]}"
    return text


def escape_lines(text: str) -> str:
    """Return several lines of output, see `escape_line`."""
    return "\n".join(map(escape_line, text.split("\n")))


def without_logins(text: str) -> str:
    """Return a text without the user names and passwords in it.

    They can be in URLs, or in what is not a valid URL: without a scheme, or with a password that should be encoded.
    """
    if "@" not in text or ":" not in text or text.count("@") == text.count("@sha256:"):
        return text
    text = _compiled(r"(?<=://)[^\s/?#]*@").sub("", text)
    return _compiled(_LOGIN).sub(lambda found: found["start"] or "", text)


def escape_json(document: bytes) -> bytes:
    """Return a JSON document with the same values and escapes for `_FORMATS` and for commands to CI systems."""
    if document.isascii() and b"\x7f" not in document and b"##" not in document:
        return document
    return _compiled(f"{_FORMATS}|{_COMMAND}").sub(_json_escape, document.decode()).encode()


def _json_escape(found: Match[str]) -> str:
    units = found[0].encode("utf-16-be").hex()
    return "".join(rf"\u{units[start : start + 4]}" for start in range(0, len(units), 4))


def needs_quotes(text: str) -> bool:
    """Return whether a string must be double-quoted on one line of YAML, because `escape_yaml` changes it there, or
    because a line of a folded or block scalar could start with a command to GitHub Actions.
    """
    if text.isascii() and "::" not in text and "##" not in text and "\x7f" not in text:
        return False
    return bool(_compiled(rf"{_FORMATS}|{_COMMAND}|(?:^|\s)::").search(text))


def escape_yaml(document: str) -> str:
    """Return a YAML document with the same values and the escapes of `escape_json`, see `needs_quotes`."""
    return _compiled(f"{_FORMATS}|{_COMMAND}").sub(_yaml_escape, document)


def _yaml_escape(found: Match[str]) -> str:
    code_point = ord(found[0])
    return rf"\u{code_point:04x}" if code_point < 1 << 16 else rf"\U{code_point:08x}"


def _compiled(pattern: str) -> Pattern[str]:
    """Return a compiled pattern; the module for them is slow to import, and hardly any output needs it."""
    if pattern not in _COMPILED:
        import re

        _COMPILED[pattern] = re.compile(pattern)
    return _COMPILED[pattern]


def code(text: str) -> str:
    r"""Quote text in more backticks than it contains, so that nothing in it is a link; escape bars for table cells.

    A bar after a backslash would end the cell nevertheless; it becomes ``\x7c``.
    """
    if not text:
        return ""
    text = without_logins(escape_controls(text)).replace(r"\|", r"\\x7c").replace("|", r"\|")
    fence = "`"
    while fence in text:
        fence += "`"
    gap = " " if "`" in text else ""
    return f"{fence}{gap}{text}{gap}{fence}"


def row(*cells: str) -> str:
    """Return a row of a table."""
    return f"| {' | '.join(cells)} |"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    return "\n".join([row(*header), f"|{'---|' * len(header)}", *(row(*cells) for cells in rows)])
