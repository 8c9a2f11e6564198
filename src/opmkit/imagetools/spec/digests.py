"""Content digests: ``algorithm:hex``."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from opmkit.imagetools.errors import InvalidImage

if TYPE_CHECKING:
    from hashlib import _Hash

_DIGEST = re.compile(r"sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128}")


def is_digest(text: str) -> bool:
    """Whether the text is a digest by an algorithm that is known here (sha256, sha384, sha512)."""
    return _DIGEST.fullmatch(text) is not None


def check_digest(text: str) -> str:
    """The text itself; raises InvalidImage if it is no digest."""
    if not is_digest(text):
        raise InvalidImage(
            f"{text[:200]!r} is no digest", advice="a digest is 'sha256:' and 64 lower-case hexadecimal digits"
        )
    return text


def sha256_digest(data: bytes) -> str:
    """The digest of the bytes."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def new_hash(digest: str) -> _Hash:
    """A fresh hash object of the digest's algorithm."""
    return hashlib.new(check_digest(digest).partition(":")[0])
