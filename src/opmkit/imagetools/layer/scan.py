"""What a layer has besides some directories, told without keeping anything of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.imagetools.layer.limits import ON_DISK, Limits, Meter
from opmkit.imagetools.layer.paths import below, normal
from opmkit.imagetools.layer.reader import LayerReader, LayerSource

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Survey:
    """``alone``: the layer has nothing outside the directories; ``hides``: nothing under it counts in the first.

    ``found`` are those of the directories that the layer has something in.
    """

    alone: bool
    hides: bool
    found: frozenset[str]


def survey_layer(layer: LayerSource, directories: Sequence[str], limits: Limits = ON_DISK) -> Survey:
    """Look at a layer for directories of an image, such as ``configs``, of which the first is the one that matters.

    Raises InvalidImage and LimitExceeded, which name the layer.
    """
    wanted = normal(directories)
    alone, hides = True, False
    found: set[str] = set()
    descriptor, opener = layer
    with LayerReader(descriptor, opener, Meter(limits)) as entries:
        for entry in entries:
            if entry.kind in {"opaque", "whiteout"}:
                hides |= below(wanted[0], entry.path)
            inside = [directory for directory in wanted if below(entry.path, directory)]
            found.update(inside)
            above = entry.kind == "directory" and any(below(directory, entry.path) for directory in wanted)
            alone &= bool(inside) or above
    return Survey(alone, hides, frozenset(found))
