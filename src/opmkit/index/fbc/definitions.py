"""CustomResourceDefinitions of bundles, and the updates between bundles that OLM refuses because of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from opmkit.bundle.finding import Severity
from opmkit.bundle.kinds import CRD_KIND
from opmkit.bundle.validation.compat import OlmVersion
from opmkit.core.json_types import JsonResult
from opmkit.documents.errors import InvalidDocument
from opmkit.documents.lenient import mapping, text
from opmkit.index.fbc.blobs import BUNDLE_OBJECT, BundleBlob
from opmkit.index.fbc.csv_metadata import bundle_objects

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from opmkit.index.fbc.blobs import ChannelBlob

Definition: TypeAlias = Mapping[str, Any]
ReadBundles: TypeAlias = Callable[[Sequence[str]], Mapping[str, BundleBlob]]
"""Reads bundle images, and returns the bundles with their objects by image."""


@dataclass(frozen=True, slots=True)
class RefusedUpdate(JsonResult):
    """An update that OLM refuses because of a CustomResourceDefinition.

    Attributes:
        package: Name of the package.
        installed: Name of the installed bundle.
        next: Name of the bundle that would be installed.
        definition: Name of the CustomResourceDefinition.
        reason: Its unsafe change, with the version and the path in its schema.
        olm: The OLM that refuses it.
    """

    package: str
    installed: str
    next: str
    definition: str
    reason: str
    olm: OlmVersion = OlmVersion.V0

    def __str__(self) -> str:
        """Return the update in one line."""
        return f"{self.installed} to {self.next}: {self.definition}: {self.reason}"


def bundle_definitions(blob: BundleBlob) -> dict[str, Definition]:
    """Return the CustomResourceDefinitions that are embedded in a bundle, by name.

    Raises:
        InvalidDocument: One of them cannot be decoded.
    """
    objects = map(mapping, bundle_objects(blob, containing=CRD_KIND.encode()))
    definitions = (value for value in objects if value.get("kind") == CRD_KIND)
    return {text(mapping(definition.get("metadata")).get("name")): definition for definition in definitions}


def has_objects(blob: BundleBlob) -> bool:
    """Return whether a bundle contains its objects."""
    return any(item.type == BUNDLE_OBJECT for item in blob.properties)


def read_missing_objects(bundles: Iterable[BundleBlob], read: ReadBundles | None) -> dict[str, BundleBlob]:
    """Return the bundles of images by image, for all bundles without objects; nothing without ``read``."""
    images = {blob.image: None for blob in bundles if blob.image and not has_objects(blob)} if read else {}
    return dict(read(list(images))) if read and images else {}


def new_edges(
    channels: Iterable[ChannelBlob], bundles: Mapping[str, BundleBlob], added: Collection[str]
) -> list[tuple[BundleBlob, BundleBlob]]:
    """Return each added bundle of a package after each bundle that it replaces in a channel, sorted by name."""
    edges = {(entry.replaces, entry.name) for channel in channels for entry in channel.entries if entry.name in added}
    return [(bundles[old], bundles[new]) for old, new in sorted(edges) if old in bundles and new in bundles]


def refused_edges(
    edges: Sequence[tuple[BundleBlob, BundleBlob]], complete: Mapping[str, BundleBlob]
) -> Iterator[RefusedUpdate]:
    """Yield what OLM v0 refuses of updates between two bundles; definitions that cannot be decoded are ignored.

    Args:
        edges: The bundle before and after each update.
        complete: Bundles with their objects by image, instead of those of the edges.
    """
    if not edges:
        return
    from opmkit.bundle.crd_upgrade import olm_v0_changes  # slow to import: API types, not needed without new bundles

    for before, after in edges:
        try:
            old, new = (bundle_definitions(complete.get(blob.image, blob)) for blob in (before, after))
        except InvalidDocument:  # the validation of the catalog reports it
            continue
        for name in sorted(old.keys() & new.keys()):
            for change in olm_v0_changes(old[name], new[name]):
                if change.severity is Severity.ERROR:
                    yield RefusedUpdate(after.package, before.name, after.name, name, str(change))
