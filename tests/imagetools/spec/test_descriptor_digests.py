"""Content digests."""

from __future__ import annotations

import pytest

from opmkit.imagetools.errors import InvalidImage
from opmkit.imagetools.spec import check_digest, sha256_digest

DIGEST = "sha256:" + "a" * 64


def test_sha256_digest() -> None:
    assert sha256_digest(b"") == "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_check_digest() -> None:
    assert check_digest(DIGEST) == DIGEST
    for invalid in ("", "sha256:", "sha256:" + "A" * 64, DIGEST + "0", "md5:" + "a" * 32, DIGEST + "\n", "sha256:../x"):
        with pytest.raises(InvalidImage):
            check_digest(invalid)
