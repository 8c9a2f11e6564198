"""The content of files as validation looks at it: the value of the first document, and where each part of it is."""

from __future__ import annotations

import codecs
import hashlib
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import yaml

from opmkit.bundle.document import read_document
from opmkit.bundle.errors import InvalidDocument
from opmkit.imagetools.escape import escape_controls

if TYPE_CHECKING:
    from opmkit.bundle.field_path import FieldPath
    from opmkit.bundle.go_yaml import Duplicate
    from opmkit.bundle.json_value import JsonValue


_EXCERPT = 160
"""Characters of a line that are shown."""


@dataclass(frozen=True)
class Content:
    """What the bytes of one file say. ``error`` is why they say nothing; ``value`` is that of the first document.

    ``more`` tells of other documents after it, ``duplicates`` of keys that a mapping of its YAML has twice.

    Contents are shared between the bundles that repeat them, so that each is read and judged once: ``memo`` is where
    rules keep what they found out about it, by a key of their own.
    """

    raw: bytes
    value: JsonValue = None
    error: InvalidDocument | None = None
    is_json: bool = False
    more: bool = False
    duplicates: tuple[Duplicate, ...] = ()
    memo: dict[object, object] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def read(cls, raw: bytes) -> Content:
        """Read it; what is wrong with it becomes its ``error``."""
        try:
            document = read_document(raw)
        except InvalidDocument as error:
            return cls(raw, error=error)
        except RecursionError:
            return cls(raw, error=InvalidDocument("it is nested too deeply"))
        return cls(raw, document.value, None, document.is_json, document.more, document.duplicates)

    def locate(self, path: FieldPath) -> tuple[int, int]:
        """Line and column, from 1, of the value that ``path`` leads to, or of the nearest there is on the way."""
        if self.error is not None:  # it may be nested deeper than libyaml can bear
            return 0, 0
        if path not in self._places:
            self._places[path] = _locate(_compose(self.raw), path)
        return self._places[path]

    @cached_property
    def _places(self) -> dict[FieldPath, tuple[int, int]]:
        return {}

    def excerpt(self, line: int) -> str:
        """That line, from 1, without the blanks around it, and shortened if it is long; "" if there is none."""
        found = self._lines[line - 1].decode("utf-8", "replace") if 0 < line <= len(self._lines) else ""
        return escape_controls(" ".join(found.removeprefix("\ufeff")[:_EXCERPT].split()))

    @cached_property
    def _lines(self) -> list[bytes]:
        if self.raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return self.raw.decode("utf-16", "replace").encode().split(b"\n")
        return self.raw.split(b"\n")


class _Composer(yaml.CBaseLoader):
    """Composes nodes without telling their types, which nothing here asks for."""

    def resolve(self, _kind: type[yaml.Node], _value: object, _implicit: object) -> str:
        return ""

    def descend_resolver(self, _parent: object, _index: object) -> None:
        pass

    def ascend_resolver(self) -> None:
        pass


@lru_cache(maxsize=4)
def _compose(raw: bytes) -> yaml.Node | None:
    """The first document as a graph of nodes, made for findings only: values are read without it.

    It takes many times the memory of the text, so few are kept.
    """
    loader = _Composer(raw)
    try:
        return loader.get_node() if loader.check_node() else None
    except (yaml.YAMLError, RecursionError):
        return None
    finally:
        loader.dispose()


def _locate(node: yaml.Node | None, path: FieldPath) -> tuple[int, int]:
    if node is None:
        return 0, 0
    mark = node.start_mark
    for step in path:
        key, child = _child(node, step)
        if child is None:
            break
        node, mark = child, (key or child).start_mark
    return mark.line + 1, mark.column + 1


def _child(node: yaml.Node, step: str | int) -> tuple[yaml.Node | None, yaml.Node | None]:
    """The key and the value of a member, or an item and no key."""
    if isinstance(node, yaml.MappingNode):
        for key, value in reversed(node.value):  # of duplicates, the last counts
            if isinstance(key, yaml.ScalarNode) and key.value == str(step):
                return key, value
    elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return None, node.value[step]
    return None, None


class ContentCache:
    """Contents by what they are, for two thirds of all manifests repeat byte for byte. Safe for several threads.

    It keeps those used last, up to ``max_bytes`` of files.
    """

    def __init__(self, max_bytes: int = 16 * 1024 * 1024) -> None:
        """Start empty."""
        self._max_bytes = max_bytes
        self._bytes = 0
        self._contents: OrderedDict[bytes, Content] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, raw: bytes) -> Content:
        """Do as `Content.read` does, unless these bytes were read before."""
        digest = hashlib.sha256(raw).digest()
        with self._lock:
            content = self._contents.get(digest)
            if content is not None:
                self._contents.move_to_end(digest)
                return content
        content = Content.read(raw)
        with self._lock:
            if digest not in self._contents:
                self._bytes += len(raw)
            content = self._contents.setdefault(digest, content)
            while self._bytes > self._max_bytes:
                self._bytes -= len(self._contents.popitem(last=False)[1].raw)
        return content
