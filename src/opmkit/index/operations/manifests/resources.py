"""The Kubernetes objects that put an index to use in a cluster with OLM.

A CatalogSource makes the catalog known there; Namespace, OperatorGroup and Subscription install a package from it. The
fields are those of the group operators.coreos.com as OLM's CustomResourceDefinitions describe them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opmkit.bundle.kubernetes_names import dns1035_label, dns1123_label, dns1123_subdomain
from opmkit.index.errors import CatalogError
from opmkit.index.operations.manifests.names import as_label, check_name

if TYPE_CHECKING:
    from opmkit.imagetools.reference import Reference
    from opmkit.index.client.address import Address
    from opmkit.index.operations.manifests.installation import Installation

Manifest = dict[str, Any]

GLOBAL_NAMESPACES = frozenset({"olm", "openshift-marketplace"})
"""Namespaces whose catalogs OLM offers in all others, unless it is set up otherwise."""

_UNIT = r"(?:ns|us|µs|μs|ms|s|m|h)"
_DURATION = re.compile(rf"(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+){_UNIT})+")


@dataclass(frozen=True, slots=True)
class Source:
    """A catalog for a cluster: an image that OLM runs, or the address of a server that runs already.

    ``poll_interval`` (as Go writes durations, such as ``30m``) is how often OLM looks whether the image's tag was
    moved. ``secrets`` hold the credentials to pull it, and ``security_context`` is ``legacy`` or ``restricted``. Making
    one raises CatalogError for what the cluster would raise_findings, or ignore.
    """

    name: str
    namespace: str
    image: Reference | None = None
    address: Address | None = None
    display_name: str = ""
    publisher: str = ""
    poll_interval: str = ""
    secrets: tuple[str, ...] = ()
    security_context: str = ""

    def __post_init__(self) -> None:
        """Check all of it."""
        check_name("catalog source name", self.name, dns1035_label)  # it is the name of a service, too
        check_name("namespace", self.namespace, dns1123_label)
        for secret in self.secrets:
            check_name("pull secret", secret, dns1123_subdomain)
        if self.poll_interval:
            _check_interval(self.poll_interval)
        if self.image is None:
            self._check_address()
        elif self.poll_interval and self.image.digest:
            raise CatalogError(
                f"{self.image}: an image named by its digest never changes, so there is nothing to poll",
                advice="name it by a tag, or leave out the interval",
            )

    def _check_address(self) -> None:
        """What is for the pod of an image has no place beside an address."""
        if self.address is None:
            raise CatalogError("a catalog source has an image or an address", advice="name one of them")
        unused = {
            "polling interval": self.poll_interval,
            "pull secrets": self.secrets,
            "security context": self.security_context,
        }
        for what, value in unused.items():
            if value:
                raise CatalogError(
                    f"{self.address}: a catalog at an address has no {what}",
                    advice="leave it out: these are for the pod that OLM makes of an image",
                )


def reaches(source: Source, installation: Installation) -> bool:
    """Whether OLM offers the catalog where the package is to be installed, as it is set up out of the box."""
    return source.namespace in GLOBAL_NAMESPACES or source.namespace == installation.namespace


def manifests(source: Source, installation: Installation | None = None) -> list[Manifest]:
    """The objects in the order in which they are to be applied: the CatalogSource, and what installs a package."""
    found = [_catalog_source(source)]
    if installation is None:
        return found
    if installation.makes_namespace:
        found += [_namespace(installation), _operator_group(installation)]
    return [*found, _subscription(source, installation)]


def _catalog_source(source: Source) -> Manifest:
    spec: Manifest = {"sourceType": "grpc"}
    if source.address is not None:
        spec["address"] = str(source.address)
    else:
        spec["image"] = str(source.image)
    texts = {"displayName": source.display_name, "publisher": source.publisher, "secrets": list(source.secrets)}
    spec |= {key: value for key, value in texts.items() if value}
    if source.security_context:
        spec["grpcPodConfig"] = {"securityContextConfig": source.security_context}
    if source.poll_interval:
        spec["updateStrategy"] = {"registryPoll": {"interval": source.poll_interval}}
    return _object("operators.coreos.com/v1alpha1", "CatalogSource", source.name, source.namespace, spec)


def _namespace(installation: Installation) -> Manifest:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": installation.namespace}}


def _operator_group(installation: Installation) -> Manifest:
    spec = {"targetNamespaces": list(installation.targets)} if installation.targets else {}
    name, namespace = as_label(installation.package), installation.namespace
    return _object("operators.coreos.com/v1", "OperatorGroup", name, namespace, spec)


def _subscription(source: Source, installation: Installation) -> Manifest:
    spec = {
        "name": installation.package,
        "source": source.name,
        "sourceNamespace": source.namespace,
        "channel": installation.channel,
        "startingCSV": installation.starting_csv,
        "installPlanApproval": installation.approval,
    }
    spec = {key: value for key, value in spec.items() if value}
    name, namespace = as_label(installation.package), installation.namespace
    return _object("operators.coreos.com/v1alpha1", "Subscription", name, namespace, spec)


def _object(version: str, kind: str, name: str, namespace: str, spec: Manifest) -> Manifest:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def _check_interval(interval: str) -> None:
    if not _DURATION.fullmatch(interval):
        advice = "write it as Go does: 30m, 1h30m, 45s"
        raise CatalogError(f"polling interval {interval!r} is no duration", advice=advice)
    if not re.search("[1-9]", interval):
        raise CatalogError(f"polling interval {interval!r} is no time at all", advice="give one, such as 30m")
