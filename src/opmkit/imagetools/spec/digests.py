"""Content digests in the form ``<algorithm>:<hex>``."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from opmkit.imagetools.errors import InvalidImage

if TYPE_CHECKING:
    from hashlib import _Hash

_DIGEST = re.compile(r"sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128}")


def is_digest(text: str) -> bool:
    """Return whether the text is a sha256, sha384 or sha512 digest."""
    return _DIGEST.fullmatch(text) is not None


def check_digest(text: str) -> str:
    """Return the text unchanged.

    Raises:
        InvalidImage: The text is not a valid digest.
    """
    if not is_digest(text):
        raise InvalidImage(
            f"invalid digest {text[:200]!r}", hint="a digest is 'sha256:' and 64 lower-case hexadecimal digits"
        )
    return text


def sha256_digest(data: bytes) -> str:
    """Return the digest of ``data`` as ``sha256:<hex>``."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def new_hash(digest: str) -> _Hash:
    """Return a new hash object for the algorithm of ``digest``."""
    return hashlib.new(check_digest(digest).partition(":")[0])
