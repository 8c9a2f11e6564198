"""Flags for the manifests of a mirror."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit import MirrorScope

if TYPE_CHECKING:
    from opmkit import MirrorPolicy

MANIFESTS_PANEL = "Manifests for the cluster"


@dataclass(frozen=True, slots=True)
class MirrorManifestFlags:
    """Flags for the manifests of a mirror."""

    manifests: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Directory to write ImageDigestMirrorSet, ImageTagMirrorSet, CatalogSource and ClusterCatalog to, and "
            "registries.conf for podman",
            rich_help_panel=MANIFESTS_PANEL,
        ),
    ] = None
    manifest_scope: Annotated[
        MirrorScope,
        typer.Option(
            help="Size of what a mirror rule covers: namespace or repository", rich_help_panel=MANIFESTS_PANEL
        ),
    ] = MirrorScope.NAMESPACE
    manifest_namespace: Annotated[
        str,
        typer.Option(metavar="NAMESPACE", help="Namespace of the CatalogSource", rich_help_panel=MANIFESTS_PANEL),
    ] = "openshift-marketplace"
    never_contact_source: Annotated[
        bool,
        typer.Option(
            "--never-contact-source",
            help="Let the cluster fail to pull what the mirror lacks, instead of pulling it from its source",
            rich_help_panel=MANIFESTS_PANEL,
        ),
    ] = False

    def policy(self) -> MirrorPolicy:
        """Return the settings of the manifests."""
        from opmkit import MirrorPolicy

        return MirrorPolicy(self.manifest_scope, self.never_contact_source, self.manifest_namespace)
