"""Check which directories a layer contains, without extracting them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.imagetools.layer.limits import DISK_LIMITS, Limits, LimitTracker
from opmkit.imagetools.layer.paths import is_within, normalize_prefixes
from opmkit.imagetools.layer.reader import LayerReader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.imagetools.layer.types import LayerSource


@dataclass(frozen=True, slots=True)
class LayerScan:
    """Result of scanning a layer for directories.

    ``exclusive`` is true if the layer contains nothing else, ``hides_lower`` if it hides the content that lower layers
    have in the first directory. ``directories`` are those that the layer has entries in.
    """

    exclusive: bool
    hides_lower: bool
    directories: frozenset[str]


def scan_layer(layer: LayerSource, directories: Sequence[str], limits: Limits = DISK_LIMITS) -> LayerScan:
    """Scan a layer for directories of an image, such as ``configs``.

    Raises:
        InvalidImage: The layer is damaged or unsafe.
        LimitExceeded: The layer exceeds a limit.
    """
    wanted = normalize_prefixes(directories)
    exclusive, hides_lower = True, False
    found: set[str] = set()
    descriptor, opener = layer
    with LayerReader(descriptor, opener, LimitTracker(limits)) as entries:
        for entry in entries:
            if entry.kind in {"opaque", "whiteout"}:
                hides_lower |= is_within(wanted[0], entry.path)
            containing = [directory for directory in wanted if is_within(entry.path, directory)]
            found.update(containing)
            is_parent = entry.kind == "directory" and any(is_within(directory, entry.path) for directory in wanted)
            exclusive &= bool(containing) or is_parent
    return LayerScan(exclusive, hides_lower, frozenset(found))
