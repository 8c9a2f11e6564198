"""The client class of the public API."""

from __future__ import annotations

from dataclasses import dataclass

from opmkit.api.bundles import BundleOperations
from opmkit.api.catalogs import CatalogOperations
from opmkit.api.clusters import ClusterOperations
from opmkit.api.contents import ContentOperations
from opmkit.api.graphs import GraphOperations
from opmkit.api.images import ImageOperations
from opmkit.api.indexes import IndexOperations
from opmkit.api.inspection import InspectionOperations
from opmkit.api.manifests import ManifestOperations
from opmkit.api.mirroring import MirrorOperations
from opmkit.api.pinning import PinOperations
from opmkit.api.planning import PlanOperations
from opmkit.api.projects import ProjectOperations
from opmkit.api.serving import ServingOperations
from opmkit.api.signing import SigningOperations
from opmkit.api.templates import TemplateOperations


@dataclass(frozen=True)
class Opm(
    BundleOperations,
    IndexOperations,
    CatalogOperations,
    ContentOperations,
    InspectionOperations,
    GraphOperations,
    PlanOperations,
    ManifestOperations,
    ImageOperations,
    MirrorOperations,
    SigningOperations,
    TemplateOperations,
    ProjectOperations,
    PinOperations,
    ClusterOperations,
    ServingOperations,
):
    """Operations on bundles, indexes, images, and operators in clusters.

    Images are read from and written to registries, the embedded image store, OCI layouts (``oci:DIR:TAG``) and
    archives; no container engine is required, unless one is chosen. Threads can share an instance. Instances share
    nothing, unless they have the same store, which processes can share as well.

    Attributes:
        registries: Settings for registries.
        store: Directory of the embedded image store, by default that of the command line (``OPM_STORE``).
        container_tool: Tool that pulls and builds images: ``none``, ``docker``, ``podman`` or ``buildah``.
        build_tool: Tool that builds images, if it is another one.
        image_format: Format of built images, by default OCI, and with docker its own.
    """
