"""Upgrade an installed operator to a version that its catalog does not have yet."""

from __future__ import annotations

import base64
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.author.run.errors import NotInstalled, OlmError
from opmkit.author.run.hint_terms import OlmOperation
from opmkit.author.run.install_mode import group_targets
from opmkit.author.run.installation import InstalledOperator, Rollout
from opmkit.author.run.objects import field, items, name_of, namespace_of, subject, text
from opmkit.author.run.registry_pod import DEFAULT_IMAGE
from opmkit.author.run.resources import POD_ANNOTATION, InjectedBundles, is_empty_index
from opmkit.author.run.serving import (
    ServedCatalog,
    add_sequence,
    append_to_channel,
    config_map_names,
    remove_former,
    serve_catalog,
)
from opmkit.author.run.session import OperatorSession, list_subscriptions
from opmkit.core.errors import OpmkitError
from opmkit.core.hints import Hint
from opmkit.index.fbc.blobs import Blobs
from opmkit.index.fbc.load import parse_blobs
from opmkit.kube.api import CATALOG_SOURCE, CONFIG_MAP, OPERATOR_GROUP, POD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from opmkit.author.run.package_manifests import OperatorVersion
    from opmkit.author.run.registry_pod import PodOptions
    from opmkit.author.run.session import Reporter, WaitDeadline
    from opmkit.index.fbc.blobs import BundleBlob
    from opmkit.kube import Cluster
    from opmkit.kube.api import Object

MAX_CATALOG = 1 << 30
"""Maximum size in bytes of a catalog in ConfigMaps after decompression."""


class UpgradeRequest(Struct, frozen=True):
    """A version to upgrade to.

    Attributes:
        operator: The version.
        bundle: Its blob.
        options: Options of the pod; an empty image stands for that of the present pod.
        render: Returns the blobs of index images and bundle images.
    """

    operator: OperatorVersion
    bundle: BundleBlob
    options: PodOptions
    render: Callable[[Sequence[str]], Blobs]


def upgrade_operator(
    cluster: Cluster, request: UpgradeRequest, namespace: str, deadline: WaitDeadline, reporter: Reporter
) -> InstalledOperator:
    """Add a version to the catalog of an installed operator, upgrade to it, and wait until it runs.

    Raises:
        OlmNotInstalled: The cluster does not have OLM.
        NotInstalled: The package is not installed in the namespace.
        CatalogError: The version cannot be added to the catalog; nothing was changed.
        InstallationFailed: OLM did not install the version; the details list the reasons.
        ClusterError: The cluster cannot be reached or rejects a request; nothing was changed.
    """
    operator = request.operator
    subscription = _find_subscription(cluster, namespace, operator.package)
    former_plan = text(subscription, "status", "installPlanRef", "name")
    installed = text(subscription, "status", "installedCSV") or text(subscription, "status", "currentCSV")
    source = _find_source(cluster, subscription)
    channel = text(subscription, "spec", "channel")
    present = _Present.read(cluster, source)
    blobs = present.with_bundle(request, channel)
    injected = InjectedBundles(present.index, (*present.injected, *filter(None, [operator.image])))
    options = request.options if request.options.image else replace(request.options, image=present.pod_image)
    session = OperatorSession(cluster, namespace, operator.package, deadline, reporter)
    session.involve(
        catalog_source=name_of(source),
        catalog_namespace=namespace_of(source),
        subscription=name_of(subscription),
        bundle_image=operator.image,
    )
    try:
        connected = serve_catalog(session, source, ServedCatalog(blobs, injected, options))
        plan = Rollout(session, operator, name_of(subscription), namespace_of(source), former_plan).run()
        remove_former(cluster, connected)
    except OpmkitError as error:
        raise session.explain(error, f"{installed or operator.package}: not upgraded to {operator.name}") from error
    groups = cluster.list(OPERATOR_GROUP, namespace)
    return InstalledOperator(
        package=operator.package,
        csv=operator.name,
        version=operator.version,
        namespace=namespace,
        channel=channel,
        catalog_source=name_of(source),
        subscription=name_of(subscription),
        install_plan=plan,
        operator_group=name_of(groups[0]) if groups else "",
        watched_namespaces=group_targets(groups[0]) if groups else (),
        replaced=installed,
    )


def _find_subscription(cluster: Cluster, namespace: str, package: str) -> Object:
    found = list_subscriptions(cluster, namespace, package)
    if not found:
        raise NotInstalled(
            f"package {package}: not installed in namespace {namespace}: no Subscription found",
            hint=Hint("install it with {}", OlmOperation.RUN_BUNDLE),
        )
    return found[0]


def _find_source(cluster: Cluster, subscription: Object) -> Object:
    name, namespace = text(subscription, "spec", "source"), text(subscription, "spec", "sourceNamespace")
    found = cluster.find(CATALOG_SOURCE, name, namespace)
    if found is None:
        raise OlmError(
            f"{subject(subscription)}: CatalogSource {namespace}/{name} not found",
            hint=Hint("remove the operator with {} and install it again", OlmOperation.CLEAN_UP),
        )
    return found


class _Present(Struct, frozen=True):
    """The catalog of a CatalogSource before an upgrade.

    Attributes:
        blobs: Documents in ConfigMaps, None if the catalog is elsewhere.
        index: Index image that bundles were added to.
        injected: Bundle images that were added.
        image: Image of the catalog if OLM runs it.
        pod_image: Image that serves it.
    """

    source: Object
    blobs: Blobs | None
    index: str
    injected: tuple[str, ...]
    image: str
    pod_image: str

    @classmethod
    def read(cls, cluster: Cluster, source: Object) -> _Present:
        recorded = InjectedBundles.read(source)
        image = text(source, "spec", "image")
        pod_name = text(field(source, "metadata", "annotations"), POD_ANNOTATION)
        pod = cluster.find(POD, pod_name, namespace_of(source)) if pod_name else None
        containers = items(pod, "spec", "containers")
        index = (recorded.index if recorded else "") or image or DEFAULT_IMAGE
        return cls(
            source,
            Blobs.from_blobs(blob for part in _parts(cluster, pod) for blob in part) if config_map_names(pod) else None,
            index,
            recorded.images if recorded else (),
            image,
            (text(containers[0], "image") if containers else "") or index,
        )

    def with_bundle(self, request: UpgradeRequest, channel: str) -> Blobs:
        """Return the catalog with the new version as the head of the channel."""
        if self.blobs is not None:
            return append_to_channel(self.blobs, request.bundle, channel)
        if self.injected:
            index = Blobs() if is_empty_index(self.index) else request.render([self.index])
            former = request.render(self.injected).bundles
            return add_sequence(index, [*former, request.bundle], channel=channel)
        if self.image:
            return append_to_channel(request.render([self.image]), request.bundle, channel)
        raise OlmError(
            f"{subject(self.source)}: cannot be extended: it has neither an image nor a record of its bundles",
            hint=Hint("remove the operator with {} and install the new version", OlmOperation.CLEAN_UP),
        )


def _parts(cluster: Cluster, pod: Object | None) -> Iterator[Blobs]:
    """Yield the documents in the ConfigMaps of a pod."""
    remaining = MAX_CATALOG
    for name in sorted(config_map_names(pod)):
        found = cluster.get(CONFIG_MAP, name, namespace_of(pod))
        where = subject(found)
        for key, encoded in sorted((found.get("binaryData") or {}).items()):
            content = _decompress(encoded, remaining, f"{where}: {key}")
            remaining -= len(content)
            yield parse_blobs(content, where)


def _decompress(encoded: str, limit: int, where: str) -> bytes:
    try:
        raw = base64.b64decode(encoded)
        if not raw.startswith(b"\x1f\x8b"):
            return raw
        stream = zlib.decompressobj(wbits=31)
        content = stream.decompress(raw, limit)
    except (ValueError, zlib.error) as error:
        raise OlmError(f"{where}: invalid catalog: {error}") from error
    if stream.unconsumed_tail:
        raise OlmError(f"{where}: catalog larger than {MAX_CATALOG} bytes")
    return content
