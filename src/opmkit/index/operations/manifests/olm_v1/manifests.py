"""Manifests of an index for OLM v1: the ClusterCatalog, and the objects that install a package."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opmkit.bundle.load import fetch_bundle_files
from opmkit.bundle.rendering.registry_v1 import read_registry_v1
from opmkit.bundle.source import BundleSource
from opmkit.core.errors import DiskError, LimitExceeded, OpmkitError
from opmkit.core.hints import Hint
from opmkit.imagetools.errors import ImageToolsError
from opmkit.imagetools.signatures.errors import SignatureError
from opmkit.index.errors import CatalogError
from opmkit.index.hint_terms import IndexOperation
from opmkit.index.image.content import DatabaseContent
from opmkit.index.image.source import IndexSource
from opmkit.index.modes import InstallerPermissions
from opmkit.index.operations.manifests.names import as_label, parse_pullable_image
from opmkit.index.operations.manifests.olm_v1.bundle_objects import (
    bundle_objects,
    cluster_admin_manifests,
    permission_manifests,
    service_account,
)
from opmkit.index.operations.manifests.olm_v1.cluster_extension import ClusterCatalog, ClusterExtension
from opmkit.index.operations.manifests.olm_v1.resolve import resolve_extension
from opmkit.index.operations.manifests.resources import OlmManifests

if TYPE_CHECKING:
    from opmkit.imagetools.tools.tool import ContainerTool
    from opmkit.index.image.source import GetTool
    from opmkit.index.operations.manifests.olm_v1.resolve import ResolvedExtension

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ClusterCatalogOptions:
    """Options of the ClusterCatalog for an index image.

    Attributes:
        name: Name of the ClusterCatalog; by default that of the image.
        poll_interval: Interval at which the tag is checked for changes, as a Go duration in whole minutes.
        priority: Priority among catalogs with the same package.
        availability: ``Available`` or ``Unavailable``; "" for the default.
    """

    name: str = ""
    poll_interval: str = ""
    priority: int = 0
    availability: str = ""

    def catalog(self, index: str) -> ClusterCatalog:
        """Return the ClusterCatalog for an index image.

        Raises:
            CatalogError: Clusters cannot pull the image, or would reject an option.
            ImageToolsError: The reference is invalid.
        """
        image = parse_pullable_image(index)
        name = self.name or as_label(image.repository.rpartition("/")[2])
        return ClusterCatalog(name, image, self.poll_interval, self.priority, self.availability)


@dataclass(frozen=True, slots=True)
class ClusterExtensionOptions:
    """Options of the ClusterExtension that installs a package.

    Attributes:
        package: Name of the package.
        namespace: Namespace to install to; by default it is named after the package.
        channel: Channel to install from; by default all.
        version: Version, or range of versions; "" for the latest version.
        service_account: ServiceAccount to install with, which OLM v1 requires up to 1.10; by default
            ``PACKAGE-installer``, or none without permissions.
        permissions: Permissions of the ServiceAccount; without any it is not created.
        target_namespaces: The namespace that the operator watches; empty for all.
        existing_namespace: Whether the namespace exists.
    """

    package: str
    namespace: str = ""
    channel: str = ""
    version: str = ""
    service_account: str = ""
    permissions: InstallerPermissions = InstallerPermissions.BUNDLE
    target_namespaces: tuple[str, ...] = ()
    existing_namespace: bool = False

    def extension(self, catalog: str) -> ClusterExtension:
        """Return the ClusterExtension that installs from a ClusterCatalog.

        Raises:
            CatalogError: OLM v1 or the cluster would reject an option.
        """
        if len(self.target_namespaces) > 1:
            raise CatalogError(
                "several target namespaces unsupported by OLM v1", hint="name one, or omit it for all namespaces"
            )
        account = self.service_account
        if not account and self.permissions is not InstallerPermissions.NONE:
            account = f"{as_label(self.package)}-installer"
        return ClusterExtension(
            package=self.package,
            namespace=self.namespace or as_label(self.package),
            catalog=catalog,
            channels=(self.channel,) if self.channel else (),
            version=self.version,
            service_account=account,
            watch_namespace="".join(self.target_namespaces),
        )


def build_olm_v1_manifests(
    catalog: ClusterCatalog, options: ClusterExtensionOptions | None, tool: GetTool
) -> OlmManifests:
    """Return the manifests of an index for OLM v1; what cannot be read is not checked, and reported as a warning.

    Args:
        catalog: The ClusterCatalog.
        options: Options of the package to install, if any.
        tool: Returns the tool that reads the index and the bundle.

    Raises:
        CatalogError: The package cannot be installed from the index as the options ask for.
    """
    if options is None:
        return OlmManifests((catalog.manifest(),))
    extension = options.extension(catalog.name)
    opened = tool()
    resolved, warnings = _resolve(extension, str(catalog.image), opened)
    extension = resolved.extension if resolved else extension
    installer, unknown = _installer(extension, options.permissions, resolved, opened)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": extension.namespace}}
    namespaces = [] if options.existing_namespace else [namespace]
    return OlmManifests((*namespaces, *installer, catalog.manifest(), extension.manifest()), (*warnings, *unknown))


def _resolve(
    extension: ClusterExtension, index: str, tool: ContainerTool
) -> tuple[ResolvedExtension | None, tuple[str, ...]]:
    """Return the bundle to install, unless the index cannot be read, and warnings."""
    try:
        with IndexSource.find(lambda: tool, index, build_context=True).open() as content:
            if isinstance(content, DatabaseContent):
                raise CatalogError(
                    f"{index}: OLM v1 requires a file-based catalog: it is an index with a database",
                    hint=Hint("convert it with {}", IndexOperation.MIGRATE_INDEX),
                )
            resolved = resolve_extension(extension, content.blobs())
    except SignatureError:
        raise
    except (ImageToolsError, LimitExceeded, DiskError) as error:
        return None, (f"package, channel and install modes are not checked: {error}",)
    return resolved, resolved.warnings


def _installer(
    extension: ClusterExtension,
    permissions: InstallerPermissions,
    resolved: ResolvedExtension | None,
    tool: ContainerTool,
) -> tuple[list[Manifest], tuple[str, ...]]:
    """Return the ServiceAccount of the installer with its permissions, and warnings."""
    if permissions is InstallerPermissions.NONE:
        return [], ()
    admin = [service_account(extension), *cluster_admin_manifests(extension)]
    if permissions is InstallerPermissions.CLUSTER_ADMIN:
        return admin, ()
    unknown = f"the permissions to install {extension.package} are unknown: its installer is a cluster admin"
    if resolved is None:
        return admin, (unknown,)
    try:
        bundle = read_registry_v1(fetch_bundle_files(tool, BundleSource.from_image(resolved.image)))
    except SignatureError:
        raise
    except OpmkitError as error:
        return admin, (f"{resolved.bundle}: {error}", unknown)
    objects = bundle_objects(bundle, all_namespaces=not resolved.extension.watch_namespace)
    return [service_account(extension), *permission_manifests(extension, resolved.bundle, objects)], ()
