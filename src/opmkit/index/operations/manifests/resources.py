"""CatalogSource, Namespace, OperatorGroup and Subscription objects.

The fields are those of the CustomResourceDefinitions of the group operators.coreos.com.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from opmkit.bundle.kubernetes_names import dns1035_label, dns1123_label, dns1123_subdomain
from opmkit.bundle.labels import INDEX_DATABASE
from opmkit.core.hints import Hint
from opmkit.imagetools.image import Image
from opmkit.imagetools.layer import Limits
from opmkit.index.errors import CatalogError
from opmkit.index.hint_terms import IndexOperation
from opmkit.index.image.content import catalog_path
from opmkit.index.operations.manifests.names import as_label, check_name
from opmkit.index.operations.manifests.pod_config import PodConfig

if TYPE_CHECKING:
    from opmkit.imagetools.reference import Reference
    from opmkit.imagetools.tools.registry import RegistryTool
    from opmkit.index.address import Address
    from opmkit.index.operations.manifests.installation import Installation


Manifest = dict[str, Any]

GLOBAL_NAMESPACES = frozenset({"olm", "openshift-marketplace"})
"""Namespaces whose catalogs OLM offers in all namespaces by default."""


def is_available(source: CatalogSource, installation: Installation) -> bool:
    """Return whether OLM, in its default configuration, offers the catalog in the namespace of the installation."""
    return source.namespace in GLOBAL_NAMESPACES or source.namespace == installation.namespace


def build_manifests(source: CatalogSource, installation: Installation | None = None) -> list[Manifest]:
    """Return the objects in the order of applying them: the CatalogSource, then those of the installation."""
    objects = [_catalog_source(source)]
    if installation is None:
        return objects
    if installation.creates_namespace:
        objects += [_namespace(installation), _operator_group(installation)]
    return [*objects, _subscription(source, installation)]


def _catalog_source(source: CatalogSource) -> Manifest:
    spec: Manifest = {"sourceType": "grpc"}
    if source.address is not None:
        spec["address"] = str(source.address)
    else:
        spec["image"] = str(source.image)
    texts = {"displayName": source.display_name, "publisher": source.publisher, "secrets": list(source.secrets)}
    spec |= {key: value for key, value in texts.items() if value}
    if source.priority:
        spec["priority"] = source.priority
    if pod_config := source.pod.manifest():
        spec["grpcPodConfig"] = pod_config
    if source.poll_interval:
        spec["updateStrategy"] = {"registryPoll": {"interval": source.poll_interval}}
    return _object("operators.coreos.com/v1alpha1", "CatalogSource", source.name, source.namespace, spec)


def _namespace(installation: Installation) -> Manifest:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": installation.namespace}}


def _operator_group(installation: Installation) -> Manifest:
    spec = {"targetNamespaces": list(installation.targets)} if installation.targets else {}
    name, namespace = as_label(installation.package), installation.namespace
    return _object("operators.coreos.com/v1", "OperatorGroup", name, namespace, spec)


def _subscription(source: CatalogSource, installation: Installation) -> Manifest:
    spec = {
        "name": installation.package,
        "source": source.name,
        "sourceNamespace": source.namespace,
        "channel": installation.channel,
        "startingCSV": installation.starting_csv,
        "installPlanApproval": installation.approval,
    }
    spec = {key: value for key, value in spec.items() if value}
    name, namespace = as_label(installation.package), installation.namespace
    return _object("operators.coreos.com/v1alpha1", "Subscription", name, namespace, spec)


def _object(version: str, kind: str, name: str, namespace: str, spec: Manifest) -> Manifest:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec}


@dataclass(frozen=True, slots=True)
class CatalogSource:
    """A catalog in a cluster: an image that OLM runs, or the address of a running server.

    Creating an instance raises CatalogError for values that the cluster would reject or ignore.

    Attributes:
        name: Name of the CatalogSource, which is also that of a Service.
        namespace: Namespace of the CatalogSource.
        image: Image of the index; either this or ``address`` is set.
        address: Address of a running server.
        display_name: Name for users.
        publisher: Publisher for users.
        poll_interval: Interval at which OLM checks the tag for changes, as a Go duration such as ``30m``.
        secrets: Names of the pull secrets of the image.
        pod: Settings of the pod that OLM runs the image in.
        priority: Priority of the catalog among those that have the same package; 0 by default.
    """

    name: str
    namespace: str
    image: Reference | None = None
    address: Address | None = None
    display_name: str = ""
    publisher: str = ""
    poll_interval: str = ""
    secrets: tuple[str, ...] = ()
    pod: PodConfig = field(default_factory=PodConfig)
    priority: int = 0

    def __post_init__(self) -> None:
        """Validate the fields."""
        check_name("catalog source name", self.name, dns1035_label)
        check_name("namespace", self.namespace, dns1123_label)
        for secret in self.secrets:
            check_name("pull secret", secret, dns1123_subdomain)
        if self.poll_interval:
            check_interval(self.poll_interval)
        if self.image is None:
            self._check_address()
        elif self.poll_interval and self.image.digest:
            raise CatalogError(
                f"{self.image}: polling unsupported: an image referenced by digest never changes",
                hint="reference the image by tag, or omit the interval",
            )

    def _check_address(self) -> None:
        """Check that the address is set, without settings of the catalog pod."""
        if self.address is None:
            raise CatalogError("no image and no address of the catalog", hint="set one of them")
        pod_settings = {
            "polling interval": self.poll_interval,
            "pull secrets": self.secrets,
            "pod configuration": self.pod.manifest(),
        }
        for setting, value in pod_settings.items():
            if value:
                raise CatalogError(
                    f"{self.address}: {setting} unsupported for a catalog with an address",
                    hint="omit it: it applies to the pod that OLM creates for an image",
                )

    def check_database(self, index: str) -> None:
        """Raise CatalogError if the settings require a file-based catalog, but the index ``index`` is a database."""
        if self.pod.catalog_directory:
            raise CatalogError(
                f"{index}: extracting content unsupported: it is an index with a database",
                hint=Hint("convert it to a file-based catalog with {}", IndexOperation.MIGRATE_INDEX),
            )


_LIMITS = Limits(total_bytes=1 << 30)
"""Limits for searching the program: beyond them, an image is assumed to contain it."""
_log = logging.getLogger(__name__)


def with_server(source: CatalogSource, tool: RegistryTool) -> CatalogSource:
    """Return a catalog source whose catalog can be served.

    If the image does not contain the program that it runs, as one without a base image, OLM extracts the file-based
    catalog and serves it with its own opm. For a database, which only the image itself could serve, a warning is
    logged.

    Raises:
        CatalogError: The image is not an index image.
        ImageToolsError: The image cannot be read.
    """
    if source.image is None or "extractContent" in source.pod.manifest():
        return source
    loaded = tool.load(source.image)
    image = loaded if isinstance(loaded, Image) else loaded.select()
    if tool.has_program(image, _LIMITS) is not False:
        return source
    if INDEX_DATABASE in image.labels:
        for program in (*image.config.entrypoint, *image.config.cmd)[:1]:
            _log.warning("%s: cannot serve its database: the image does not contain %s", source.image, program)
        return source
    directory = f"/{catalog_path(image, source.image)}"
    return replace(source, pod=replace(source.pod, catalog_directory=directory))


_UNIT = r"(?:ns|us|µs|μs|ms|s|m|h)"
_DURATION = re.compile(rf"(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+){_UNIT})+")


def check_interval(interval: str) -> None:
    """Raise CatalogError unless a polling interval is a positive Go duration."""
    if not _DURATION.fullmatch(interval):
        raise CatalogError(f"invalid polling interval {interval!r}", hint="write a Go duration: 30m, 1h30m, 45s")
    if not re.search("[1-9]", interval):
        raise CatalogError(f"invalid polling interval {interval!r}: zero", hint="set a longer one, such as 30m")
