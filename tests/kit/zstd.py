"""Zstandard, from the standard library where it has it."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 14):
    from compression.zstd import compress, decompress
else:
    from backports.zstd import compress, decompress

__all__ = ["compress", "decompress"]
