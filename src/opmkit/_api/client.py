"""The client class of the public API."""

from __future__ import annotations

from dataclasses import dataclass

from opmkit._api.bundles import BundleOperations
from opmkit._api.contents import ContentOperations
from opmkit._api.indexes import IndexOperations
from opmkit._api.inspection import InspectionOperations
from opmkit._api.mirroring import MirrorOperations
from opmkit._api.signing import SigningOperations
from opmkit._api.templates import TemplateOperations


@dataclass(frozen=True)
class Opm(
    BundleOperations,
    IndexOperations,
    ContentOperations,
    InspectionOperations,
    MirrorOperations,
    SigningOperations,
    TemplateOperations,
):
    """Operations on bundles, indexes and images.

    Images are read from and written to registries, the embedded image store, OCI layouts (``oci:DIR:TAG``) and
    archives; no container engine is required. Threads can share an instance. Instances share nothing, unless they have
    the same store, which processes can share as well.

    Attributes:
        registries: Settings for registries.
        store: Directory of the embedded image store, by default that of the command line (``OPM_STORE``).
    """
