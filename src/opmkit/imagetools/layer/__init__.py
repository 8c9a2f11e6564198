"""Image layers: tar archives that are written reproducibly and read as untrusted input."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.core.lazy import lazy_exports

if TYPE_CHECKING:
    from opmkit.imagetools.layer.compression import Compression
    from opmkit.imagetools.layer.extract import extract_tree
    from opmkit.imagetools.layer.limits import DISK_LIMITS, MEMORY_LIMITS, LayerSource, Limits, LimitTracker
    from opmkit.imagetools.layer.reader import read_tar
    from opmkit.imagetools.layer.tree import (
        FileTree,
        FoundFile,
        contains_name,
        find_file,
        find_program,
        read_tree,
        scan_layer,
    )
    from opmkit.imagetools.layer.write import Layer, LayerFile, write_layer, write_tar

__all__ = [
    "DISK_LIMITS",
    "MEMORY_LIMITS",
    "Compression",
    "FileTree",
    "FoundFile",
    "Layer",
    "LayerFile",
    "LayerSource",
    "LimitTracker",
    "Limits",
    "contains_name",
    "extract_tree",
    "find_file",
    "find_program",
    "read_tar",
    "read_tree",
    "scan_layer",
    "write_layer",
    "write_tar",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "compression": ("Compression",),
        "extract": ("extract_tree",),
        "limits": ("DISK_LIMITS", "MEMORY_LIMITS", "LayerSource", "Limits", "LimitTracker"),
        "reader": ("read_tar",),
        "tree": ("FileTree", "FoundFile", "contains_name", "find_file", "find_program", "read_tree", "scan_layer"),
        "write": ("Layer", "LayerFile", "write_layer", "write_tar"),
    },
)
