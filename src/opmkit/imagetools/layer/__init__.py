"""Image layers: tar archives that are written reproducibly and read as untrusted input."""

from opmkit.imagetools.layer.compression import Compression
from opmkit.imagetools.layer.extract import extract_tree
from opmkit.imagetools.layer.find import FoundFile, find_file
from opmkit.imagetools.layer.limits import DISK_LIMITS, MEMORY_LIMITS, Limits, LimitTracker
from opmkit.imagetools.layer.reader import read_tar
from opmkit.imagetools.layer.scan import scan_layer
from opmkit.imagetools.layer.tree import FileTree, read_tree
from opmkit.imagetools.layer.types import LayerSource
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
    "extract_tree",
    "find_file",
    "read_tar",
    "read_tree",
    "scan_layer",
    "write_layer",
    "write_tar",
]
