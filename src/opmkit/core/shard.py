"""Shards: disjoint parts of a list of references, for runs that do not know of each other."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from opmkit.core.errors import OpmkitError

if TYPE_CHECKING:
    from collections.abc import Iterable

_FORM = re.compile(r"([0-9]{1,6})/([0-9]{1,6})")


class InvalidShard(OpmkitError):
    """The text is not a shard."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Part ``index`` of ``count`` parts, counted from 1.

    A reference belongs to a part by its SHA-256 alone, so that other references can be added and removed without
    moving it to another part.
    """

    index: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``K/N``; raise InvalidShard unless 1 <= K <= N."""
        match = _FORM.fullmatch(text)
        index, count = (int(match[1]), int(match[2])) if match else (0, 0)
        if not 1 <= index <= count:
            raise InvalidShard(f"invalid shard {text!r}", hint="write K/N with a number K from 1 to N, such as 1/4")
        return cls(index, count)

    def contains(self, reference: str) -> bool:
        """Return whether a reference belongs to this part."""
        import hashlib  # needs several MiB for OpenSSL

        number = int.from_bytes(hashlib.sha256(reference.encode(errors="surrogateescape")).digest()[:8], "big")
        return number % self.count == self.index - 1

    def select(self, references: Iterable[str]) -> list[str]:
        """Return the references of this part, in their order."""
        return [reference for reference in references if self.contains(reference)]

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"
