"""Serve a catalog in a cluster: its content, ConfigMaps, pod, and the CatalogSource."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.author.run.diagnosis import READY, pod_problems
from opmkit.author.run.errors import InstallationFailed
from opmkit.author.run.hint_terms import OlmSetting
from opmkit.author.run.objects import condition, is_owned_by, items, name_of, namespace_of, subject, text
from opmkit.author.run.registry_pod import build_config_maps, build_pod, format_address, partition
from opmkit.author.run.resources import serve_patch
from opmkit.author.run.session import Pending, wait_until
from opmkit.core.hints import Hint
from opmkit.index.errors import BundleExists, CatalogError
from opmkit.index.fbc.blobs import Blobs, ChannelBlob, EntryBlob, PackageBlob
from opmkit.index.fbc.check.graph import channel_heads
from opmkit.index.fbc.packages import validate_packages
from opmkit.kube.api import CATALOG_SOURCE, CONFIG_MAP, POD
from opmkit.kube.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.author.run.registry_pod import PodOptions
    from opmkit.author.run.resources import InjectedBundles
    from opmkit.author.run.session import OperatorSession
    from opmkit.index.fbc.blobs import BundleBlob
    from opmkit.kube import Cluster
    from opmkit.kube.api import Object


_MAX_RESTARTS = 3
"""Number of restarts after which a server is given up: each reads the same catalog."""


class ServedCatalog(Struct, frozen=True):
    """A catalog to serve for a CatalogSource, and the description of its content."""

    blobs: Blobs
    injected: InjectedBundles
    options: PodOptions


def serve_catalog(session: OperatorSession, catalog_source: Object, catalog: ServedCatalog) -> Object:
    """Start the pod for a catalog, connect the CatalogSource to it, and return the CatalogSource.

    Raises:
        LimitExceeded: A document does not fit into a ConfigMap.
        InstallationFailed: The pod failed.
        TimedOut: The pod is not ready, or OLM is not connected to it, before the deadline.
        ClusterError: The cluster rejects an object.
    """
    cluster, namespace = session.cluster, namespace_of(catalog_source)
    parts = partition(catalog.blobs)
    config_maps = build_config_maps(catalog_source, parts)
    for config_map in config_maps:
        session.record(cluster.apply(config_map))
    pod = _create_pod(cluster, build_pod(catalog_source, config_maps, parts, catalog.options))
    session.record(pod)
    name = name_of(pod)
    session.involve(registry_pod=name)
    session.reporter.finished(f"Pod {name} created: it serves the catalog")
    ip = wait_until(lambda: _ready_ip(cluster, name, namespace), session.deadline, session.reporter)
    annotations = catalog.injected.annotations(name)
    patch = serve_patch(catalog_source, format_address(ip), annotations, catalog.options.pull_secret)
    connected = cluster.patch(CATALOG_SOURCE, name_of(catalog_source), patch, namespace)
    session.reporter.finished(f"{subject(catalog_source)} connected to {format_address(ip)}")
    wait_until(lambda: _connected(cluster, connected), session.deadline, session.reporter)
    return connected


def _create_pod(cluster: Cluster, pod: Object) -> Object:
    try:
        return cluster.create(pod)
    except ClusterError as error:
        if "PodSecurity" not in error.message:
            raise
        hint = Hint("use {}, with images that do not run as root", OlmSetting.SECURITY_CONTEXT.with_value("restricted"))
        raise ClusterError(error.message, hint=hint, status=error.status, reason=error.reason) from error


def remove_former(cluster: Cluster, catalog_source: Object) -> None:
    """Delete the pods and ConfigMaps of a CatalogSource, except the pod that it is connected to and its catalog."""
    namespace, uid = namespace_of(catalog_source), text(catalog_source, "metadata", "uid")
    pods = [pod for pod in cluster.list(POD, namespace) if is_owned_by(pod, uid)]
    address = text(catalog_source, "spec", "address")
    current = [pod for pod in pods if format_address(text(pod, "status", "podIP")) == address]
    used = {name for pod in current for name in config_map_names(pod)}
    for pod in pods:
        if pod not in current:
            cluster.delete(POD, name_of(pod), namespace)
    for config_map in cluster.list(CONFIG_MAP, namespace):
        is_catalog = any(key.startswith("catalog") or key == "extraFBC" for key in config_map.get("binaryData") or {})
        if is_catalog and is_owned_by(config_map, uid) and name_of(config_map) not in used:
            cluster.delete(CONFIG_MAP, name_of(config_map), namespace)


def config_map_names(pod: Object | None) -> set[str]:
    """Return the names of the ConfigMaps that a pod mounts, except those of its service account."""
    volumes = items(pod, "spec", "volumes")
    projections = [items(volume, "projected", "sources") for volume in volumes]
    catalogs = [sources for sources in projections if all("serviceAccountToken" not in source for source in sources)]
    mounted = [*volumes, *(source for sources in catalogs for source in sources)]
    return {text(each, "configMap", "name") for each in mounted} - {""}


def _ready_ip(cluster: Cluster, name: str, namespace: str) -> str | Pending:
    """Return the address of a pod that is ready; raise InstallationFailed if it cannot become ready."""
    pod = cluster.find(POD, name, namespace)
    if pod is None or text(pod, "status", "phase") in ("Failed", "Succeeded"):
        raise InstallationFailed(f"Pod {namespace}/{name}: {'deleted' if pod is None else 'failed'}")
    ip = text(pod, "status", "podIP")
    if ip and condition(pod, "Ready").get("status") == "True":
        return ip
    state = next((problem.message for problem in pod_problems(pod)), text(pod, "status", "phase") or "not started")
    if any((status.get("restartCount") or 0) >= _MAX_RESTARTS for status in items(pod, "status", "containerStatuses")):
        raise InstallationFailed(f"Pod {namespace}/{name} that serves the catalog: {state}")
    return Pending(f"pod {name} that serves the catalog", state)


def _connected(cluster: Cluster, catalog_source: Object) -> bool | Pending:
    name, address = name_of(catalog_source), text(catalog_source, "spec", "address")
    found = cluster.find(CATALOG_SOURCE, name, namespace_of(catalog_source))
    if found is None:
        raise InstallationFailed(f"{subject(catalog_source)}: deleted")
    state = found.get("status", {}).get("connectionState", {})
    if text(state, "lastObservedState") == READY and text(state, "address") == address:
        return True
    observed = text(state, "lastObservedState") if text(state, "address") == address else ""
    return Pending(f"OLM to connect to CatalogSource {name}", observed)


CHANNEL = "operator-sdk-run-bundle"
"""Channel of the bundles that are tried; operator-sdk uses the same, so each tool can upgrade what the other runs."""


def add_sequence(index: Blobs, bundles: Sequence[BundleBlob], *, channel: str = CHANNEL) -> Blobs:
    """Add bundles of one package in a new channel in which each replaces the one before.

    Channels and edges that the bundles declare are ignored. An existing package retains its default channel.

    Raises:
        BundleExists: The index has the last of the bundles.
        CatalogError: The index has the channel.
        InvalidCatalog: The resulting package is invalid.
    """
    package = bundles[-1].package
    present = {blob.name for blob in index.bundles if blob.package == package}
    _check_new(bundles[-1], present)
    if any((blob.package, blob.name) == (package, channel) for blob in index.channels):
        raise CatalogError(
            f"package {package}: channel {channel} already exists in the index",
            hint="remove the channel from the index: it is reserved for bundles that are tried",
        )
    names = [bundle.name for bundle in bundles]
    entries = tuple(EntryBlob(name, replaces) for name, replaces in zip(names, ["", *names[:-1]], strict=True))
    added = Blobs(
        () if any(blob.name == package for blob in index.packages) else (PackageBlob(package, channel),),
        (ChannelBlob(channel, package, entries),),
        tuple(bundle for bundle in bundles if bundle.name not in present),
    )
    catalog = index + added
    validate_packages(catalog, {package})
    return catalog


def append_to_channel(index: Blobs, bundle: BundleBlob, channel: str) -> Blobs:
    """Add a bundle to a channel of an index, as the new head, which replaces the present one.

    Raises:
        BundleExists: The index has the bundle.
        CatalogError: The index does not have the channel, or the channel has several heads.
        InvalidCatalog: The resulting package is invalid.
    """
    package = bundle.package
    _check_new(bundle, {blob.name for blob in index.bundles if blob.package == package})
    found = next((blob for blob in index.channels if (blob.package, blob.name) == (package, channel)), None)
    heads = channel_heads(found.entries) if found else ()
    if found is None or len(heads) != 1:
        problem = f"it has several heads: {', '.join(heads)}" if heads else "not found in the index"
        raise CatalogError(
            f"package {package}: channel {channel}: {problem}",
            hint="correct the index, or the channel of the Subscription",
        )
    extended = replace(found, entries=(*found.entries, EntryBlob(bundle.name, heads[0])))
    channels = tuple(extended if blob is found else blob for blob in index.channels)
    catalog = replace(index, channels=channels, bundles=(*index.bundles, bundle))
    validate_packages(catalog, {package})
    return catalog


def _check_new(bundle: BundleBlob, present: set[str]) -> None:
    if bundle.name in present:
        raise BundleExists(
            f"bundle {bundle.name} of package {bundle.package}: already exists in the catalog",
            hint="raise the version of the bundle, or choose an index without it",
        )
