"""YAML files as Red Hat's pipelines read them: with PyYAML, as one document in UTF-8."""

from __future__ import annotations

import re

_SUSPICIOUS = re.compile(rb"\n---|(?:^|[\s,\[:-])(?:=(?:[\s,\]}]|$)|!)")
"""Occurs in each file in UTF-8 that Kubernetes can read, but PyYAML cannot."""
_PREAMBLE = re.compile(rb"(?:[ \t]*(?:#[^\n]*)?\r?\n)+---(?=[ \t]*\r?\n)")
_NOT_NEWLINE = re.compile(rb"[^\n]")
_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}"
    for name in (
        "null",
        "bool",
        "int",
        "float",
        "binary",
        "timestamp",
        "omap",
        "pairs",
        "set",
        "str",
        "seq",
        "map",
        "merge",
    )
)


def blank_preamble(raw: bytes) -> bytes:
    """Replace comments and a separator before the first document by blank lines.

    Kubernetes' decoders take the comments for an empty first document.
    """
    preamble = _PREAMBLE.match(raw)
    return _NOT_NEWLINE.sub(b"", preamble[0]) + raw[preamble.end() :] if preamble else raw


def unreadable_for_pipelines(raw: bytes) -> tuple[str, int] | None:
    """Return why PyYAML cannot read a file that Kubernetes can read, with the line; None if it can."""
    try:
        raw.decode()
    except UnicodeDecodeError:
        return "another encoding than UTF-8", 1
    if not _SUSPICIOUS.search(raw):
        return None
    import yaml  # slow to import: few files need it

    from opmkit.documents.yaml_errors import syntax_error

    documents = 0
    try:
        for event in yaml.parse(raw, Loader=yaml.CSafeLoader):
            line = event.start_mark.line + 1 if event.start_mark else 0
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    return "several documents", line
            tag = getattr(event, "tag", None)
            if tag not in (None, "!") and tag not in _TAGS:
                return f"the unknown tag {tag}", line
            if isinstance(event, yaml.ScalarEvent) and event.value == "=" and event.implicit[0]:
                return "the value = without quotes", line
    except yaml.YAMLError as error:
        found = syntax_error(error, raw)
        return f"invalid syntax: {found.message}", found.line
    return None
