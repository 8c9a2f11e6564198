"""Canonical form of rendered catalogs: digests in place of long values, and a fixed order of blobs and lists."""

from __future__ import annotations

import base64
import json
from hashlib import sha256
from typing import Any


def read_stream(text: str) -> list[dict[str, Any]]:
    """Return the JSON documents of a stream."""
    decoder, documents, position = json.JSONDecoder(), [], 0
    while position < len(text):
        document, end = decoder.raw_decode(text, position)
        documents.append(document)
        assert text[end : end + 1] == "\n"
        position = end + 1
    return documents


def canonical_blobs(text: str, registry: str) -> list[dict[str, Any]]:
    """Return the blobs of a JSON stream in a fixed order, with ``registry`` as ``{registry}``."""
    return in_fixed_order(_canonical(blob) for blob in read_stream(text.replace(registry, "{registry}")))


def in_fixed_order(values: Any) -> list[Any]:
    """Return the values sorted by their JSON."""
    return sorted(values, key=_json)


def _canonical(blob: dict[str, Any]) -> dict[str, Any]:
    if blob["schema"] == "olm.bundle":
        blob.setdefault("name", "")  # later releases omit an empty name
    if "icon" in blob:
        blob["icon"]["base64data_sha256"] = sha256(blob["icon"].pop("base64data").encode()).hexdigest()
    for prop in blob.get("properties", ()):
        if prop["type"] == "olm.bundle.object":
            prop["value"] = _object_digest(json.loads(base64.b64decode(prop["value"]["data"])))
    for entry in blob.get("entries", ()):
        if "skips" in entry:
            entry["skips"] = sorted(entry["skips"])
    for name in ("properties", "relatedImages", "entries"):
        if name in blob:
            blob[name] = in_fixed_order(blob[name])
    return blob


def _object_digest(value: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": value["kind"],
        "name": value.get("metadata", {}).get("name"),
        "sha256": sha256(_json(value).encode()).hexdigest(),
    }


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
