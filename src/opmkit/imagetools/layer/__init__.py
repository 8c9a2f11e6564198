"""Image layers: tar archives, written so that the same files give the same digest, and read as hostile input."""

from opmkit.imagetools.layer.compression import read_tar
from opmkit.imagetools.layer.extract import extract_tree
from opmkit.imagetools.layer.find import FoundFile, find_file
from opmkit.imagetools.layer.limits import IN_MEMORY, ON_DISK, Limits, Meter
from opmkit.imagetools.layer.reader import LayerSource
from opmkit.imagetools.layer.scan import survey_layer
from opmkit.imagetools.layer.tree import FileTree, read_tree
from opmkit.imagetools.layer.write import Layer, LayerFile, write_layer, write_tar

__all__ = [
    "IN_MEMORY",
    "ON_DISK",
    "FileTree",
    "FoundFile",
    "Layer",
    "LayerFile",
    "LayerSource",
    "Limits",
    "Meter",
    "extract_tree",
    "find_file",
    "read_tar",
    "read_tree",
    "survey_layer",
    "write_layer",
    "write_tar",
]
