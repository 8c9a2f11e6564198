"""Build the manifests of ``opm index manifests --olm v1``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opmkit import ImageToolsError
from opmkit.cli.flags.olm_v1 import InstallerPermissions, OlmV1Flags
from opmkit.cli.output.errors import print_warning
from opmkit.core.errors import DiskError, LimitExceeded, OpmkitError
from opmkit.index.hint_terms import IndexOperation
from opmkit.index.operations.manifests.names import as_label
from opmkit.index.operations.manifests.olm_v1.cluster_catalog import ClusterCatalog
from opmkit.index.operations.manifests.olm_v1.cluster_extension import ClusterExtension

if TYPE_CHECKING:
    from collections.abc import Callable

    from opmkit import Reference
    from opmkit.imagetools.tools.tool import ContainerTool
    from opmkit.index.operations.manifests.olm_v1.bundle_objects import BundleObjects
    from opmkit.index.operations.manifests.olm_v1.resolve import ResolvedExtension

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class OlmV1Manifests:
    """The manifests for an image and, unless ``package`` is "", a package; ``namespace`` "" is the package's name."""

    image: Reference
    name: str
    poll_interval: str
    priority: int
    package: str
    namespace: str
    channel: str
    target_namespaces: tuple[str, ...]
    creates_namespace: bool
    flags: OlmV1Flags

    def build(self, open_tool: Callable[[], ContainerTool]) -> list[Manifest]:
        """Return the objects in the order of applying them, and print warnings; raises OpmkitError."""
        catalog = ClusterCatalog(
            name=self.name or as_label(self.image.repository.rpartition("/")[2]),
            image=self.image,
            poll_interval=self.poll_interval,
            priority=self.priority,
            availability=self.flags.availability or "",
        )
        if not self.package:
            return [catalog.manifest()]
        extension = self._extension(catalog.name)
        tool = open_tool()
        resolved = _resolve(extension, str(self.image), tool)
        extension = resolved.extension if resolved else extension
        installer = self._installer(extension, resolved, tool)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": extension.namespace}}
        namespaces = [namespace] if self.creates_namespace else []
        return [*namespaces, *installer, catalog.manifest(), extension.manifest()]

    def _extension(self, catalog: str) -> ClusterExtension:
        from opmkit import CatalogError

        if len(self.target_namespaces) > 1:
            raise CatalogError(
                "several target namespaces unsupported by OLM v1", hint="name one, or omit it for all namespaces"
            )
        account = self.flags.service_account
        if not account and self.flags.installer_permissions is not InstallerPermissions.NONE:
            account = f"{as_label(self.package)}-installer"
        return ClusterExtension(
            package=self.package,
            namespace=self.namespace or as_label(self.package),
            catalog=catalog,
            channels=(self.channel,) if self.channel else (),
            version=self.flags.version,
            service_account=account,
            watch_namespace="".join(self.target_namespaces),
        )

    def _installer(
        self, extension: ClusterExtension, resolved: ResolvedExtension | None, tool: ContainerTool
    ) -> list[Manifest]:
        """Return the ServiceAccount of the installer with its permissions."""
        from opmkit.index.operations.manifests.olm_v1.installer import (
            cluster_admin_manifests,
            permission_manifests,
            service_account,
        )

        if self.flags.installer_permissions is InstallerPermissions.NONE:
            return []
        account = [service_account(extension)]
        if self.flags.installer_permissions is InstallerPermissions.CLUSTER_ADMIN:
            return [*account, *cluster_admin_manifests(extension)]
        objects = _bundle_objects(resolved, tool) if resolved else None
        if resolved is None or objects is None:
            print_warning(f"the permissions to install {self.package} are unknown: its installer is a cluster admin")
            return [*account, *cluster_admin_manifests(extension)]
        return [*account, *permission_manifests(extension, resolved.bundle, objects)]


def _resolve(extension: ClusterExtension, index: str, tool: ContainerTool) -> ResolvedExtension | None:
    """Find the bundle to install; print a warning and return None if the index cannot be read."""
    from opmkit import CatalogError, IndexSource
    from opmkit.core.hints import Hint
    from opmkit.index.image.content import DatabaseContent
    from opmkit.index.operations.manifests.olm_v1.resolve import resolve_extension

    try:
        with IndexSource.find(lambda: tool, index, build_context=True).open() as content:
            if isinstance(content, DatabaseContent):
                raise CatalogError(
                    f"{index}: OLM v1 requires a file-based catalog: it is an index with a database",
                    hint=Hint("convert it with {}", IndexOperation.MIGRATE_INDEX),
                )
            resolved = resolve_extension(extension, content.blobs())
    except (ImageToolsError, LimitExceeded, DiskError) as error:
        print_warning(f"package, channel and install modes are not checked: {error}")
        return None
    for warning in resolved.warnings:
        print_warning(warning)
    return resolved


def _bundle_objects(resolved: ResolvedExtension, tool: ContainerTool) -> BundleObjects | None:
    """Return the objects of a bundle; print a warning and return None if its image cannot be read."""
    from opmkit.bundle.load import load_bundle_image
    from opmkit.index.operations.manifests.olm_v1.bundle_objects import bundle_objects

    try:
        bundle = load_bundle_image(tool, resolved.image)
    except OpmkitError as error:
        print_warning(f"{resolved.bundle}: {error}")
        return None
    return bundle_objects(bundle, all_namespaces=not resolved.extension.watch_namespace)
