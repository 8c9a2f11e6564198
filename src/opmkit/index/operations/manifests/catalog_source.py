"""The catalog that a CatalogSource refers to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opmkit.bundle.kubernetes_names import dns1035_label, dns1123_label, dns1123_subdomain
from opmkit.core.hints import Hint
from opmkit.index.errors import CatalogError
from opmkit.index.hint_terms import IndexOperation
from opmkit.index.operations.manifests.durations import check_interval
from opmkit.index.operations.manifests.names import check_name
from opmkit.index.operations.manifests.pod_config import PodConfig

if TYPE_CHECKING:
    from opmkit.imagetools.reference import Reference
    from opmkit.index.address import Address


@dataclass(frozen=True, slots=True)
class CatalogSource:
    """A catalog in a cluster: an image that OLM runs, or the address of a running server.

    Creating an instance raises CatalogError for values that the cluster would reject or ignore.

    Attributes:
        name: name of the CatalogSource, which is also that of a Service.
        namespace: namespace of the CatalogSource.
        image: image of the index; either this or ``address`` is set.
        address: address of a running server.
        display_name: name for users.
        publisher: publisher for users.
        poll_interval: interval at which OLM checks the tag for changes, as a Go duration such as ``30m``.
        secrets: names of the pull secrets of the image.
        pod: settings of the pod that OLM runs the image in.
        priority: priority of the catalog among those that have the same package; 0 by default.
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
