"""Reading and writing of ConfigMaps in a cluster."""

from __future__ import annotations

import base64
from contextlib import contextmanager
from typing import TYPE_CHECKING

from opmkit.bundle.config_map import ConfigMap
from opmkit.kube.errors import ClusterError
from opmkit.kube.resources import CONFIG_MAP

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from opmkit.kube.cluster import Cluster
    from opmkit.kube.resources import Object

_MAX_ATTEMPTS = 5
_DATA = ("data", "binaryData")


def read_config_map(cluster: Cluster, namespace: str, name: str) -> ConfigMap:
    """Return a ConfigMap.

    Raises:
        ClusterError: The ConfigMap does not exist, or the cluster cannot be reached or rejects the request.
    """
    found = cluster.get(CONFIG_MAP, name, namespace)
    with _parsing(cluster):
        encoded = _texts(found.get("binaryData"))
        binary = {key: base64.b64decode(value, validate=True) for key, value in encoded.items()}
        return ConfigMap(namespace, name, _texts(found.get("data")), binary, _annotations(found))


def write_config_map(cluster: Cluster, config_map: ConfigMap, *, replacing: Collection[str] = ()) -> None:
    """Create a ConfigMap or replace its content. Conflicting changes by other clients are retried.

    Args:
        cluster: The cluster to write it to.
        config_map: Its annotations are merged into the existing ones.
        replacing: Existing annotations to remove.

    Raises:
        ClusterError: The cluster cannot be reached or rejects the request.
    """
    for attempt in range(_MAX_ATTEMPTS):
        try:
            _put(cluster, config_map, replacing)
        except ClusterError as error:
            if error.status != 409 or attempt == _MAX_ATTEMPTS - 1:
                raise
        else:
            return


def _put(cluster: Cluster, config_map: ConfigMap, replacing: Collection[str]) -> None:
    existing = cluster.find(CONFIG_MAP, config_map.name, config_map.namespace)
    if existing is None:
        cluster.create(config_map.manifest())
        return
    with _parsing(cluster):
        others = {key: text for key, text in _annotations(existing).items() if key not in replacing}
    manifest = config_map.manifest()
    content = {key: value for key, value in existing.items() if key not in _DATA}
    content["metadata"] = {**existing["metadata"], "annotations": {**others, **config_map.annotations}}
    cluster.replace(content | {key: manifest[key] for key in _DATA if key in manifest})


@contextmanager
def _parsing(cluster: Cluster) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise ClusterError(
            f"invalid response from the API server {cluster.host}: {error}", hint="check the address in the kubeconfig"
        ) from error


def _annotations(obj: Object) -> dict[str, str]:
    return _texts(obj["metadata"].get("annotations"))


def _texts(value: object) -> dict[str, str]:
    """Return a mapping of texts; raise ValueError if the value is something else."""
    texts = value or {}
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        raise ValueError("not a ConfigMap")
    return texts
