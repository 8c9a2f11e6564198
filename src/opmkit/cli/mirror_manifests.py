"""Flags for the manifests of a mirror, and the files that contain them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opmkit.cli.output.errors import UsageError, conflicting_flags, print_to_stderr
from opmkit.imagetools.registry_config.mirror_rules import MirrorScope

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from opmkit import Reference
    from opmkit.imagetools.tools.registry import RegistryTool
    from opmkit.supply.mirror.cluster_manifests import ClusterManifests
    from opmkit.supply.mirror.model import PlannedImage

MANIFESTS_PANEL = "Manifests for the cluster"
REGISTRIES_CONF = "registries.conf"


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

    def check_target(self, *, is_registry: bool, is_dry_run: bool, command: str) -> None:
        """Raise UsageError if manifests are requested for a target that clusters cannot pull from."""
        if self.manifests and is_dry_run:
            raise conflicting_flags("--manifests", "--dry-run", command)
        if self.manifests and not is_registry:
            raise UsageError("--manifests requires a registry as the target", command)

    def write(
        self, images: Iterable[PlannedImage], catalogs: Sequence[Reference], tool: RegistryTool, *, insecure: bool
    ) -> None:
        """Write the manifests for the mirrored images, if requested; raise OpmkitError if that fails.

        Args:
            images: The images that the mirror has.
            catalogs: The catalogs in the mirror.
            tool: Reads the catalogs.
            insecure: Whether the mirror has no TLS, or a certificate that is not trusted.
        """
        from opmkit.core.files import write_files
        from opmkit.imagetools.registry_config.mirror_rules import format_registries_conf
        from opmkit.supply.mirror.cluster_manifests import MirrorPolicy, cluster_manifests, repository_rules

        if self.manifests is None:
            return
        policy = MirrorPolicy(self.manifest_scope, self.never_contact_source, self.manifest_namespace)
        written = cluster_manifests(repository_rules(images), catalogs, policy, tool)
        files: dict[str, bytes | Path] = {**_documents(written)}
        files[REGISTRIES_CONF] = format_registries_conf(
            written.rules, insecure=insecure, block_sources=self.never_contact_source
        )
        self.manifests.mkdir(parents=True, exist_ok=True)
        write_files(self.manifests, files)
        print_to_stderr(f"manifests written to {self.manifests}: {', '.join(sorted(files))}")


def _documents(written: ClusterManifests) -> dict[str, bytes]:
    return {name: _dump(objects) for name, objects in written.files.items()}


def _dump(objects: list[dict[str, Any]]) -> bytes:
    import yaml

    documents: bytes = yaml.dump_all(
        objects, Dumper=yaml.CSafeDumper, sort_keys=False, explicit_start=True, encoding="utf-8"
    )
    return documents
