"""Options of operations in a cluster."""

from __future__ import annotations

from dataclasses import dataclass, field

from opmkit.author.run.registry_pod import DEFAULT_IMAGE, PodOptions

DEFAULT_TIMEOUT = 120.0
"""Seconds until an operation in a cluster fails."""


@dataclass(frozen=True, slots=True)
class OperatorRunOptions:
    """Options to run an operator in a cluster.

    Attributes:
        install_mode: ``OwnNamespace``, ``AllNamespaces``, ``SingleNamespace=NAME`` or ``MultiNamespace=NAME,...``; ""
            for AllNamespaces or OwnNamespace, as the operator supports.
        index: Index to add the bundle to, for its dependencies; the default has no catalog.
        pod: Options of the pod that serves the catalog. Without an image, the pod has that of the index if it contains
            opm, or that of the present pod for an upgrade.
        ca_secret: Secret whose key ``cert.pem`` has certificate authorities to trust when images are pulled.
        timeout: Seconds until the operation fails.
    """

    install_mode: str = ""
    index: str = DEFAULT_IMAGE
    pod: PodOptions = field(default_factory=lambda: PodOptions(image=""))
    ca_secret: str = ""
    timeout: float = DEFAULT_TIMEOUT


@dataclass(frozen=True, slots=True)
class CleanupOptions:
    """Options to remove an operator from a cluster.

    Attributes:
        delete_crds: Whether to delete its CustomResourceDefinitions, with all custom resources.
        delete_groups: Whether to delete the OperatorGroup that was created for it.
        timeout: Seconds until the operation fails.
    """

    delete_crds: bool = True
    delete_groups: bool = True
    timeout: float = DEFAULT_TIMEOUT
