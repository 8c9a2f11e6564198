"""Decoded files with the source locations of their values."""

from __future__ import annotations

import codecs
import hashlib
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from opmkit.core.escape import escape_controls
from opmkit.documents.document import read_document
from opmkit.documents.errors import InvalidDocument

if TYPE_CHECKING:
    from opmkit.documents.block_locator import BlockLocator
    from opmkit.documents.errors import DuplicateKey
    from opmkit.documents.fields import FieldPath
    from opmkit.documents.json_value import JsonValue


_MAX_EXCERPT = 160
"""Maximum length of an excerpt."""
_TEXT_START = 8000
"""Bytes at the start of a file that contain no NUL if it is text."""


@dataclass(frozen=True)
class Content:
    """A file and its first document.

    Attributes:
        raw: The bytes of the file.
        value: Value of the first document.
        error: Why the document is invalid.
        is_json: Whether the document is JSON, not YAML.
        has_more: Whether other documents follow.
        duplicates: Keys that a mapping has more than once.
        memo: Results of rules for this content, by keys of the rules. Equal files of several bundles share them.
    """

    raw: bytes
    value: JsonValue = None
    error: InvalidDocument | None = None
    is_json: bool = False
    has_more: bool = False
    duplicates: tuple[DuplicateKey, ...] = ()
    memo: dict[object, object] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def read(cls, raw: bytes) -> Content:
        """Decode a file. Does not raise: errors are in ``error``."""
        try:
            document = read_document(raw)
        except InvalidDocument as error:
            return cls(raw, error=error)
        except RecursionError:
            return cls(raw, error=InvalidDocument("too deeply nested"))
        return cls(raw, document.value, None, document.is_json, document.has_more, document.duplicates)

    @classmethod
    def read_settings(cls, raw: bytes) -> Content:
        """Decode a file of settings, see `document_stream.read_settings`. Does not raise: errors are in ``error``."""
        from opmkit.documents.document_stream import read_settings  # slow to import: PyYAML

        try:
            return cls(raw, read_settings(raw))
        except InvalidDocument as error:
            return cls(raw, error=error)

    def locate(self, path: FieldPath) -> tuple[int, int]:
        """Return line and column, from 1, of the value at a path, or of its nearest existing parent; 0 if unknown."""
        if self.error is not None:  # it could be nested too deeply for libyaml
            return 0, 0
        if path not in self._locations:
            self._locations[path] = self._locator.locate(path) or self._parse_location(path)
        return self._locations[path]

    def _parse_location(self, path: FieldPath) -> tuple[int, int]:
        from opmkit.documents.source_nodes import locate  # slow to import: PyYAML

        return locate(self.raw, path)

    @cached_property
    def _locator(self) -> BlockLocator:
        from opmkit.documents.block_locator import BlockLocator  # slow to import: not needed without findings

        return BlockLocator(self.raw, self.value)

    @cached_property
    def _locations(self) -> dict[FieldPath, tuple[int, int]]:
        return {}

    def excerpt(self, line: int) -> str:
        """Return a line of a text, from 1, without surrounding whitespace and truncated, "" if it does not exist."""
        text = self._lines[line - 1].decode("utf-8", "replace") if 0 < line <= len(self._lines) else ""
        return escape_controls(" ".join(text.removeprefix("\ufeff")[:_MAX_EXCERPT].split()))

    @cached_property
    def _lines(self) -> list[bytes]:
        if self.raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return self.raw.decode("utf-16", "replace").encode().split(b"\n")
        if b"\0" in self.raw[:_TEXT_START]:
            return []
        return self.raw.split(b"\n")


class ContentCache:
    """LRU cache of decoded files; in real catalogs, two thirds of all manifests are duplicates.

    Safe for concurrent use.
    """

    def __init__(self, max_bytes: int = 8 * 1024 * 1024) -> None:
        """Create an empty cache for up to ``max_bytes`` of files."""
        self._max_bytes = max_bytes
        self._bytes = 0
        self._contents: OrderedDict[bytes, Content] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, raw: bytes) -> Content:
        """Return the cached result of `Content.read`."""
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
