"""Manifests of an index for OLM v0: the CatalogSource, and the objects that install a package."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opmkit.core.errors import DiskError, LimitExceeded
from opmkit.imagetools.errors import ImageToolsError
from opmkit.imagetools.signatures.errors import SignatureError
from opmkit.index.address import parse_address
from opmkit.index.image.content import DatabaseContent
from opmkit.index.image.source import IndexSource
from opmkit.index.operations.manifests.names import as_label, parse_pullable_image
from opmkit.index.operations.manifests.resources import (
    CatalogSource,
    OlmManifests,
    PodConfig,
    build_manifests,
    is_available,
    resolve_in_catalog,
    resolve_in_database,
    with_server,
)

if TYPE_CHECKING:
    from opmkit.core.progress import OperationReporter
    from opmkit.index.image.source import GetRegistryTool, GetTool
    from opmkit.index.operations.manifests.resources import Installation


@dataclass(frozen=True, slots=True)
class CatalogSourceOptions:
    """Options of the CatalogSource for an index.

    Attributes:
        name: Name of the CatalogSource; by default that of the image or host.
        namespace: Namespace of the CatalogSource.
        address: Address of a server that serves the index, ``HOST:PORT``; by default OLM runs the index image.
        display_name: Name for users.
        publisher: Publisher for users.
        poll_interval: Interval at which OLM checks the tag for changes, as a Go duration such as ``30m``.
        secrets: Names of the pull secrets of the image.
        pod: Settings of the pod that OLM runs the image in.
        priority: Priority among catalogs with the same package.
    """

    name: str = ""
    namespace: str = "olm"
    address: str = ""
    display_name: str = ""
    publisher: str = ""
    poll_interval: str = ""
    secrets: tuple[str, ...] = ()
    pod: PodConfig = field(default_factory=PodConfig)
    priority: int = 0

    def source(self, index: str) -> CatalogSource:
        """Return the CatalogSource for an index image, or for the address.

        Raises:
            CatalogError: Clusters cannot pull the image, or would reject or ignore an option.
            ImageToolsError: The reference is invalid.
        """
        address, image = None, None
        if self.address:
            address = parse_address(self.address)
            default_name = address.host.partition(".")[0]
        else:
            image = parse_pullable_image(index)
            default_name = image.repository.rpartition("/")[2]
        return CatalogSource(
            name=self.name or as_label(default_name),
            namespace=self.namespace,
            image=image,
            address=address,
            display_name=self.display_name,
            publisher=self.publisher,
            poll_interval=self.poll_interval,
            secrets=self.secrets,
            pod=self.pod,
            priority=self.priority,
        )


def build_olm_v0_manifests(
    index: str,
    source: CatalogSource,
    installation: Installation | None,
    tool: GetTool,
    registry_tool: GetRegistryTool | None,
    reporter: OperationReporter,
) -> OlmManifests:
    """Return the manifests of an index for OLM v0; what cannot be read is not checked, and reported as a warning.

    Args:
        index: The index to look up the package in, or "" to not look it up.
        source: The CatalogSource.
        installation: The package to install.
        tool: Returns the tool that reads the index.
        registry_tool: Returns the tool that looks for the server in the image; None to assume that it is there.
        reporter: Receiver of the steps.

    Raises:
        CatalogError: The package cannot be installed from the index as the options ask for.
    """
    warnings = []
    try:
        if installation and index:
            installation = _resolve(installation, source, str(source.image or index), tool, reporter)
        if registry_tool:
            with reporter.step(f"Reading {source.image}"):
                source = with_server(source, registry_tool())
    except SignatureError:
        raise
    except (ImageToolsError, LimitExceeded, DiskError) as error:
        unchecked = "package, channel and install modes are" if installation else "the server in the image is"
        warnings.append(f"{unchecked} not checked: {error}")
    if installation and not is_available(source, installation):
        warnings.append(
            f"OLM by default offers a catalog only in its namespace {source.namespace}, not in {installation.namespace}"
        )
    return OlmManifests(tuple(build_manifests(source, installation)), tuple(warnings))


def _resolve(
    installation: Installation, source: CatalogSource, index: str, tool: GetTool, reporter: OperationReporter
) -> Installation:
    """Resolve the installation in the index."""
    opened = tool()
    found = IndexSource.find(lambda: opened, index, build_context=True)
    with reporter.step(f"Loading {index}"), found.open() as content:
        if not isinstance(content, DatabaseContent):
            return resolve_in_catalog(installation, content.blobs())
        source.check_database(index)
        with content.open() as database:
            return resolve_in_database(installation, database)
