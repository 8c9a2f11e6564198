"""ClusterCatalogs of OLM v1 (``olm.operatorframework.io/v1``)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from opmkit.bundle.kubernetes_names import dns1123_subdomain
from opmkit.index.errors import CatalogError
from opmkit.index.operations.manifests.names import check_name
from opmkit.index.operations.manifests.resources import check_interval

if TYPE_CHECKING:
    from opmkit.imagetools.reference import Reference

API_VERSION = "olm.operatorframework.io/v1"
NAME_LABEL = "olm.operatorframework.io/metadata.name"
"""Label of every ClusterCatalog, with its name."""
AVAILABLE, UNAVAILABLE = "Available", "Unavailable"
_TERM = re.compile(r"([0-9.]+)([a-zµμ]+)")
_SECONDS = {
    "h": Fraction(3600),
    "m": Fraction(60),
    "s": Fraction(1),
    "ms": Fraction(1, 10**3),
    "ns": Fraction(1, 10**9),
    **dict.fromkeys(("us", "µs", "μs"), Fraction(1, 10**6)),
}
_MAX_PRIORITY = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ClusterCatalog:
    """A catalog of OLM v1 in an image.

    Creating an instance raises CatalogError for values that the cluster would reject.

    Attributes:
        name: Name of the ClusterCatalog.
        image: Image of a file-based catalog.
        poll_interval: Interval at which the tag is checked for changes, as a Go duration in whole minutes.
        priority: Priority among catalogs with the same package.
        availability: ``Available`` or ``Unavailable``; "" for the default.
    """

    name: str
    image: Reference
    poll_interval: str = ""
    priority: int = 0
    availability: str = ""

    def __post_init__(self) -> None:
        """Validate the fields."""
        check_name("catalog name", self.name, dns1123_subdomain)
        if self.poll_interval and self.image.digest:
            raise CatalogError(
                f"{self.image}: polling unsupported: an image referenced by digest never changes",
                hint="reference the image by tag, or omit the interval",
            )
        if not -_MAX_PRIORITY - 1 <= self.priority <= _MAX_PRIORITY:
            raise CatalogError(f"priority {self.priority}: not an integer of 32 bits", hint="choose a smaller number")
        if self.availability not in {"", AVAILABLE, UNAVAILABLE}:
            raise CatalogError(f"invalid availability {self.availability!r}", hint=f"use {AVAILABLE} or {UNAVAILABLE}")
        if self.poll_interval:
            _minutes(self.poll_interval)

    def manifest(self) -> dict[str, Any]:
        """Return the object."""
        image: dict[str, Any] = {"ref": str(self.image)}
        if self.poll_interval:
            image["pollIntervalMinutes"] = _minutes(self.poll_interval)
        spec: dict[str, Any] = {"source": {"type": "Image", "image": image}}
        if self.priority:
            spec["priority"] = self.priority
        if self.availability:
            spec["availabilityMode"] = self.availability
        return {"apiVersion": API_VERSION, "kind": "ClusterCatalog", "metadata": {"name": self.name}, "spec": spec}


def _minutes(interval: str) -> int:
    """Convert a Go duration to minutes; raise CatalogError unless it is a positive number of them."""
    check_interval(interval)
    seconds = sum(Fraction(number) * _SECONDS[unit] for number, unit in _TERM.findall(interval))
    minutes = Fraction(seconds) / 60
    if minutes.denominator != 1:
        raise CatalogError(f"polling interval {interval!r}: not in whole minutes", hint="set 1m, 30m or 1h")
    return int(minutes)
