"""File-based catalogs as the records tell them: hashes in place of what is long, and no order where none is fixed."""

from __future__ import annotations

import base64
import json
from hashlib import sha256
from typing import Any


def read_stream(text: str) -> list[dict[str, Any]]:
    """The JSON documents that stand one behind the other."""
    decoder, documents, position = json.JSONDecoder(), [], 0
    while position < len(text):
        document, end = decoder.raw_decode(text, position)
        documents.append(document)
        assert text[end : end + 1] == "\n"
        position = end + 1
    return documents


def canonical_blobs(text: str, registry: str) -> list[dict[str, Any]]:
    """The blobs in a text, with ``registry`` as ``{registry}``, in a fixed order."""
    return in_fixed_order(_canonical(blob) for blob in read_stream(text.replace(registry, "{registry}")))


def in_fixed_order(values: Any) -> list[Any]:
    """Values by their JSON."""
    return sorted(values, key=_json)


def _canonical(blob: dict[str, Any]) -> dict[str, Any]:
    if blob["schema"] == "olm.bundle":
        blob.setdefault("name", "")  # which releases since leave out where it is empty
    if "icon" in blob:
        blob["icon"]["base64data_sha256"] = sha256(blob["icon"].pop("base64data").encode()).hexdigest()
    for one in blob.get("properties", ()):
        if one["type"] == "olm.bundle.object":
            one["value"] = _object(json.loads(base64.b64decode(one["value"]["data"])))
    for entry in blob.get("entries", ()):
        if "skips" in entry:
            entry["skips"] = sorted(entry["skips"])
    for name in ("properties", "relatedImages", "entries"):
        if name in blob:
            blob[name] = in_fixed_order(blob[name])
    return blob


def _object(value: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": value["kind"],
        "name": value.get("metadata", {}).get("name"),
        "sha256": sha256(_json(value).encode()).hexdigest(),
    }


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
