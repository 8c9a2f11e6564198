"""ClusterExtensions of OLM v1 (``olm.operatorframework.io/v1``), and their installation in a namespace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from opmkit.bundle.kubernetes_names import dns1123_label, dns1123_subdomain
from opmkit.index.errors import CatalogError
from opmkit.index.operations.manifests.names import as_label, check_name
from opmkit.index.operations.manifests.olm_v1.cluster_catalog import API_VERSION, NAME_LABEL
from opmkit.index.operations.manifests.olm_v1.version_constraint import VersionConstraint

_MAX_VERSION_LENGTH = 64


@dataclass(frozen=True, slots=True)
class ClusterExtension:
    """A package that OLM v1 installs.

    Creating an instance raises CatalogError for values that the cluster would reject.

    Attributes:
        package: name of the package.
        namespace: namespace to install to.
        catalog: name of the only ClusterCatalog to install from.
        channels: channels to install from; all if empty.
        version: version, or range of versions; "" for the latest version.
        service_account: name of the ServiceAccount that OLM v1 up to 1.10 installs with; "" to omit it.
        watch_namespace: namespace that the operator watches, "" for all.
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
