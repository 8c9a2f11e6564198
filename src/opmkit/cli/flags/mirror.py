"""Flags for the manifests of a mirror."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from opmkit import MirrorScope
from opmkit.cli.parser.declaration import flag

if TYPE_CHECKING:
    from opmkit import MirrorPolicy

MANIFESTS_PANEL = "Manifests for the cluster"


@dataclass(frozen=True, slots=True)
class MirrorManifestFlags:
    """Flags for the manifests of a mirror."""

    panel: ClassVar[str] = MANIFESTS_PANEL

    manifests: Path | None = flag(
        None,
        "Directory to write ImageDigestMirrorSet, ImageTagMirrorSet, CatalogSource and ClusterCatalog to, and "
        "registries.conf for podman",
        metavar="DIR",
    )
    manifest_scope: MirrorScope = flag(
        MirrorScope.NAMESPACE, "Size of what a mirror rule covers: namespace or repository"
    )
    manifest_namespace: str = flag("openshift-marketplace", "Namespace of the CatalogSource", metavar="NAMESPACE")
    never_contact_source: bool = flag(
        False, "Let the cluster fail to pull what the mirror lacks, instead of pulling it from its source"
    )

    def policy(self) -> MirrorPolicy:
        """Return the settings of the manifests."""
        from opmkit import MirrorPolicy

        return MirrorPolicy(self.manifest_scope, self.never_contact_source, self.manifest_namespace)
