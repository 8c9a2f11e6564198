"""ClusterCatalogs and ClusterExtensions of OLM v1 (``olm.operatorframework.io/v1``)."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from opmkit.bundle.kubernetes_names import dns1123_label, dns1123_subdomain
from opmkit.index.errors import CatalogError
from opmkit.index.operations.manifests.names import as_label, check_name
from opmkit.index.operations.manifests.resources import check_interval
from opmkit.index.plan.constraint import VersionConstraint

if TYPE_CHECKING:
    from opmkit.imagetools.reference import Reference


_MAX_VERSION_LENGTH = 64


class ClusterExtension(Struct, frozen=True):
    """A package that OLM v1 installs.

    Creating an instance raises CatalogError for values that the cluster would reject.

    Attributes:
        package: Name of the package.
        namespace: Namespace to install to.
        catalog: Name of the only ClusterCatalog to install from.
        channels: Channels to install from; all if empty.
        version: Version, or range of versions; "" for the latest version.
        service_account: Name of the ServiceAccount that OLM v1 up to 1.10 installs with; "" to omit it.
        watch_namespace: Namespace that the operator watches, or "" for all.
    """

    package: str
    namespace: str
    catalog: str
    channels: tuple[str, ...] = ()
    version: str = ""
    service_account: str = ""
    watch_namespace: str = ""

    def __post_init__(self) -> None:
        """Validate the fields."""
        check_name("package", self.package, dns1123_subdomain)
        check_name("install namespace", self.namespace, dns1123_label)
        for channel in self.channels:
            check_name("channel", channel, dns1123_subdomain)
        if self.service_account:
            check_name("service account", self.service_account, dns1123_subdomain)
        if self.watch_namespace:
            check_name("target namespace", self.watch_namespace, dns1123_label)
        if self.version:
            self.constraint()

    @property
    def name(self) -> str:
        """The name of the object."""
        return as_label(self.package)

    def constraint(self) -> VersionConstraint:
        """Return the constraint on the version; raises CatalogError if it is invalid."""
        try:
            if len(self.version) > _MAX_VERSION_LENGTH:
                raise ValueError(f"longer than {_MAX_VERSION_LENGTH} characters")
            return VersionConstraint.parse(self.version)
        except ValueError as error:
            raise CatalogError(
                f"invalid version range {self.version!r}: {error}",
                hint="write a version or a range: 1.2.3, '>=1.2, <2', ~1.2",
            ) from error

    def manifest(self) -> dict[str, Any]:
        """Return the object."""
        catalog: dict[str, Any] = {"packageName": self.package}
        if self.version:
            catalog["version"] = self.version
        if self.channels:
            catalog["channels"] = list(self.channels)
        catalog["selector"] = {"matchLabels": {NAME_LABEL: self.catalog}}
        spec: dict[str, Any] = {"namespace": self.namespace}
        if self.service_account:
            spec["serviceAccount"] = {"name": self.service_account}
        spec["source"] = {"sourceType": "Catalog", "catalog": catalog}
        if self.watch_namespace:
            spec["config"] = {"configType": "Inline", "inline": {"watchNamespace": self.watch_namespace}}
        return {"apiVersion": API_VERSION, "kind": "ClusterExtension", "metadata": {"name": self.name}, "spec": spec}


API_VERSION = "olm.operatorframework.io/v1"
NAME_LABEL = "olm.operatorframework.io/metadata.name"
"""Label of every ClusterCatalog, with its name."""
AVAILABLE, UNAVAILABLE = "Available", "Unavailable"
_DURATION_TERM = re.compile(r"([0-9.]+)([a-zµμ]+)")
_SECONDS = {
    "h": Fraction(3600),
    "m": Fraction(60),
    "s": Fraction(1),
    "ms": Fraction(1, 10**3),
    "ns": Fraction(1, 10**9),
    **dict.fromkeys(("us", "µs", "μs"), Fraction(1, 10**6)),
}
_MAX_PRIORITY = 2**31 - 1


class ClusterCatalog(Struct, frozen=True):
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
    seconds = sum(Fraction(number) * _SECONDS[unit] for number, unit in _DURATION_TERM.findall(interval))
    minutes = Fraction(seconds) / 60
    if minutes.denominator != 1:
        raise CatalogError(f"polling interval {interval!r}: not in whole minutes", hint="set 1m, 30m or 1h")
    return int(minutes)
