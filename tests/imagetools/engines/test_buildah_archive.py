"""Archives of files in buildah containers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.imagetools.engines.buildah import resolve_in_root

if TYPE_CHECKING:
    from pathlib import Path


def test_resolve_in_root(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "real").mkdir(parents=True)
    (root / "real" / "file").touch()
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "file").touch()
    for name, target in {
        "absolute": "/real",
        "relative": "real",
        "out": "../../secret",
        "host": str(tmp_path / "secret"),
        "loop": "loop",
    }.items():
        (root / name).symlink_to(target)
    for name in ("real", "absolute", "relative", "absolute/../real"):
        assert resolve_in_root(root, f"/{name}/file") == root / "real" / "file"
    for name in ("out/file", "host/file", "loop/file", "none", "../../secret/file"):
        assert resolve_in_root(root, name) is None
    assert resolve_in_root(root, "absolute") == root / "absolute"
    assert resolve_in_root(root, "/") == root
