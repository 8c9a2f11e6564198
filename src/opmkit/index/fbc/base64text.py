"""Base64 fields of catalogs, decoded and encoded as Go's ``encoding/json`` does."""

from __future__ import annotations

import base64
import binascii


def decode_base64(text: str) -> bytes | None:
    """Decode base64 text, which may contain line breaks; return None if it is invalid."""
    if "\n" in text or "\r" in text:
        text = text.replace("\n", "").replace("\r", "")
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        return None


def normalize_base64(text: str) -> str:
    """Return base64 text without line breaks, as Go writes it; return invalid text unchanged."""
    data = decode_base64(text)
    return text if data is None else base64.b64encode(data).decode()
