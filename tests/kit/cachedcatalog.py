"""A small catalog with the cache files and the digest that operator-registry 1.73.0 computes for it."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

DIGEST = "945a1ef0c3c198d9"
"""Digest of the catalog and its cache, as `opm serve --cache-only` of operator-registry stores it (format ``json``)."""
FILES = [
    "cache/lagoon_fast-<1>_lagoon.v2.json",
    "cache/lagoon_stable_lagoon.v1.json",
    "cache/lagoon_stable_lagoon.v2.json",
    "cache/metas/acme.notes/lagoon/1c17382ab9a127ab.json",
    "cache/packages.json",
    "digest",
]
"""Files of the cache that `opm serve --cache-only` writes."""
_CSV = {"kind": "ClusterServiceVersion", "metadata": {"name": "lagoon.v1", "annotations": {"a": "<&> \u2028 é"}}}


def _bundle(version: int, image: str, *properties: dict[str, object]) -> dict[str, object]:
    own: dict[str, object] = {"type": "olm.package", "value": {"packageName": "lagoon", "version": f"{version}.0.0"}}
    return {
        "schema": "olm.bundle",
        "package": "lagoon",
        "name": f"lagoon.v{version}",
        "image": image,
        "properties": [own, *properties],
        "relatedImages": [{"name": "pump", "image": "example.com/pump:1"}],
    }


BLOBS: list[dict[str, object]] = [
    {
        "schema": "olm.package",
        "name": "lagoon",
        "defaultChannel": "stable",
        "icon": {"base64data": base64.b64encode(b"<svg xmlns='a'/>").decode(), "mediatype": "image/svg+xml"},
        "description": "Pools & ponds",
    },
    {
        "schema": "olm.channel",
        "package": "lagoon",
        "name": "stable",
        "entries": [
            {"name": "lagoon.v2", "replaces": "lagoon.v1", "skips": ["lagoon.v0"], "skipRange": "<2.0.0"},
            {"name": "lagoon.v1"},
        ],
    },
    {"schema": "olm.channel", "package": "lagoon", "name": "fast-<1>", "entries": [{"name": "lagoon.v2"}]},
    _bundle(
        1,
        "",
        {"type": "olm.bundle.object", "value": {"data": base64.b64encode(json.dumps(_CSV).encode()).decode()}},
        {"type": "olm.gvk.required", "value": {"group": "g", "version": "v1", "kind": "K"}},
        {"type": "olm.package.required", "value": {"packageName": "water", "versionRange": ">=1.0.0"}},
    ),
    _bundle(
        2,
        "example.com/lagoon:2",
        {"type": "olm.gvk", "value": {"group": "g", "version": "v1", "kind": "K"}},
        {"type": "acme.size", "value": {"b": [1, 2.5, 1e30], "a": "<&>"}},
    ),
    {
        "schema": "olm.deprecations",
        "package": "lagoon",
        "entries": [
            {"reference": {"schema": "olm.package"}, "message": "use pools"},
            {"reference": {"schema": "olm.channel", "name": "stable"}, "message": "use fast"},
            {"reference": {"schema": "olm.bundle", "name": "lagoon.v1"}, "message": "use v2"},
        ],
    },
    {"schema": "acme.notes", "package": "lagoon", "name": "one", "text": "<&> é", "count": 3},
    {"schema": "acme notes", "text": "clients of operator-registry cannot ask for this schema"},
]


def write_catalog(root: Path) -> Path:
    """Write the catalog, with modes that enter the digest, and return its directory."""
    root.mkdir(mode=0o755)
    (root / "lagoon").mkdir(mode=0o755)
    write_file(root / ".indexignore", b"*.md\n")
    write_file(root / "README.md", b"# Lagoon\n", 0o600)
    (root / "link.md").symlink_to("README.md")
    write_file(root / "lagoon" / "catalog.json", "\n".join(map(json.dumps, BLOBS[:-1])).encode())
    for path in (root, root / "lagoon"):
        path.chmod(0o755)
    return root


def write_file(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Write a file with these permission bits."""
    path.write_bytes(data)
    path.chmod(mode)


def write_odd_tree(root: Path) -> Path:
    """Write a tree with names that need each form of tar header, and return its directory."""
    directories = ["empty", "d" * 90, f"{'d' * 90}/{'e' * 90}", "ünïcode", f"ünïcode/{'é' * 60}"]
    files = {
        "b.yaml": 0o644,
        "a b": 0o600,
        "a-b": 0o4755,
        "a.b": 0o640,
        "Z": 0,
        "f" * 99: 0o644,
        "f" * 100: 0o644,
        "f" * 101: 0o644,
        "g" * 200: 0o644,
        f"{'d' * 90}/{'h' * 9}": 0o644,
        f"{'d' * 90}/{'h' * 10}": 0o644,
        f"{'d' * 90}/{'e' * 90}/short": 0o644,
        f"{'d' * 90}/{'e' * 90}/{'h' * 120}": 0o644,
        "ünïcode/é": 0o644,
        f"ünïcode/{'é' * 60}/x": 0o644,
        "日本": 0o644,
    }
    root.mkdir()
    for name in directories:
        (root / name).mkdir()
    for number, (name, mode) in enumerate(files.items()):
        write_file(root / name, bytes(range(256)) * number * 3 + b"x" * number, mode)
    (root / "link").symlink_to("b.yaml")
    (root / "broken").symlink_to("none")
    for name in directories:
        (root / name).chmod(0o755)
    (root / "empty").chmod(0o2750)
    root.chmod(0o1755)
    return root


ODD_TREE_DIGEST = "f6b6aa239983cf57"
"""Digest that operator-registry computes for the odd tree with an empty cache directory of mode 750."""
