"""The ConfigMaps of a Kubernetes cluster. Whoever imports this module loads the kubernetes client, which is large."""

from __future__ import annotations

import base64
import json
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from kubernetes import config
from kubernetes.client import ApiClient, Configuration, CoreV1Api, V1ConfigMap, V1ObjectMeta
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError, MaxRetryError

from opmkit import __version__
from opmkit.bundle.config_map import ConfigMap
from opmkit.bundle.errors import BundleError
from opmkit.imagetools.hints import Hint, Setting

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_TIMEOUT = (10, 60)
"""Seconds to connect, and to wait for an answer."""
_ATTEMPTS = 5
_HINTS = {
    401: "log in to the cluster anew, or name another kubeconfig",
    403: "let the user or service account do that by a role and a role binding",
    404: "check name and namespace",
    422: "the cluster does not store that: correct what it names",
}


class ClusterError(BundleError):
    """A cluster that can't be reached, or refuses what is asked; ``status`` is its HTTP status, 0 without an answer."""

    def __init__(self, message: str, *, hint: Hint | str = "", status: int = 0) -> None:
        """Keep the status beside the texts."""
        super().__init__(message, hint=hint)
        self.status = status


class Cluster:
    """A cluster, asked by the client for it."""

    def __init__(self, client: ApiClient) -> None:
        """Use this client."""
        self._host = client.configuration.host
        self._core = CoreV1Api(client)

    @classmethod
    def connect(cls, kubeconfig: str = "") -> Cluster:
        """The cluster of a kubeconfig's current context; without one, that of the pod in which this runs.

        Nothing is asked of it yet.

        Raises:
            ClusterError: if there is no such file, or it can't be used, or this is no pod.
        """
        settings = Configuration()
        if kubeconfig:
            _load_kubeconfig(kubeconfig, settings)
        else:
            _load_pod(settings)
        client = ApiClient(settings)
        client.user_agent = f"opm/{__version__}"  # which the cluster notes as the manager of what is written
        return cls(client)

    def read(self, namespace: str, name: str) -> ConfigMap:
        """The ConfigMap of that name.

        Raises:
            ClusterError: in the words of the cluster, if it does not give it; if it can't be reached.
        """
        with self._errors():
            found = self._core.read_namespaced_config_map(name, namespace, _request_timeout=_TIMEOUT)
            if found.kind != "ConfigMap":  # older clients make an empty one of any text
                raise ValueError("not a ConfigMap")
            binary = {key: base64.b64decode(value, validate=True) for key, value in (found.binary_data or {}).items()}
        annotations = found.metadata.annotations if found.metadata else None
        return ConfigMap(namespace, name, found.data or {}, binary, annotations or {})

    def write(self, config_map: ConfigMap, *, replacing: Collection[str] = ()) -> None:
        """Let the ConfigMap of that name have this content; it is created where it is missing.

        Annotations are added to those that are there, but for the names in ``replacing``, which go. Where another
        client changes it at the same time, it is tried again.

        Raises:
            ClusterError: in the words of the cluster, if it does not take it; if it can't be reached.
        """
        for attempt in range(_ATTEMPTS):
            try:
                with self._errors():
                    self._put(config_map, replacing)
            except ClusterError as error:
                if error.status != 409 or attempt == _ATTEMPTS - 1:
                    raise
            else:
                return

    def _put(self, config_map: ConfigMap, replacing: Collection[str]) -> None:
        name, namespace = config_map.name, config_map.namespace
        try:
            there = self._core.read_namespaced_config_map(name, namespace, _request_timeout=_TIMEOUT)
        except ApiException as error:
            if error.status != 404:
                raise
            metadata = V1ObjectMeta(name=name, namespace=namespace, annotations=dict(config_map.annotations))
            new = _filled(V1ConfigMap(metadata=metadata), config_map)
            self._core.create_namespaced_config_map(namespace, new, _request_timeout=_TIMEOUT)
            return
        if there.metadata:
            kept = {key: text for key, text in (there.metadata.annotations or {}).items() if key not in replacing}
            there.metadata.annotations = {**kept, **config_map.annotations}
        self._core.replace_namespaced_config_map(name, namespace, _filled(there, config_map), _request_timeout=_TIMEOUT)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn the client's errors into ours."""
        try:
            yield
        except ApiException as error:
            status = error.status or 0
            raise ClusterError(_said(error), hint=_HINTS.get(status, ""), status=status) from error
        except HTTPError as error:
            cause = error.reason if isinstance(error, MaxRetryError) and error.reason else error
            raise ClusterError(
                f"the API server {self._host} can't be reached: {cause}",
                hint="check the address in the kubeconfig, the network and the proxy",
            ) from error
        except (ValueError, AttributeError) as error:  # an answer of another kind than was asked for
            raise ClusterError(
                f"the API server {self._host} gave an answer that can't be read: {str(error).splitlines()[0]}",
                hint="check the address in the kubeconfig",
            ) from error


def _load_kubeconfig(kubeconfig: str, settings: Configuration) -> None:
    if not any(Path(path).is_file() for path in kubeconfig.split(os.pathsep)):
        raise ClusterError(
            f"kubeconfig {kubeconfig}: no such file",
            hint=Hint.any_of("check KUBECONFIG", Hint("check {}", Setting.KUBECONFIG)),
        )
    try:
        config.load_kube_config(kubeconfig, client_configuration=settings, persist_config=False)  # type: ignore[no-untyped-call]
    except (config.ConfigException, yaml.YAMLError, OSError) as error:
        raise _unusable(kubeconfig, " ".join(str(error).split())) from error
    except (AttributeError, LookupError, TypeError, ValueError) as error:  # what the client says of other YAML
        raise _unusable(kubeconfig, "it has another form than a kubeconfig") from error


def _unusable(kubeconfig: str, problem: str) -> ClusterError:
    hint = "check its current context, cluster and user"
    return ClusterError(f"kubeconfig {kubeconfig} can't be used: {problem}", hint=hint)


def _load_pod(settings: Configuration) -> None:
    try:
        config.load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
    except config.ConfigException as error:
        raise ClusterError(
            f"no cluster is named, and this is no pod with a service account: {error}",
            hint=Hint("pass a kubeconfig with {}", Setting.KUBECONFIG),
        ) from error


def _filled(target: V1ConfigMap, content: ConfigMap) -> V1ConfigMap:
    target.data = dict(content.data)
    target.binary_data = {key: base64.b64encode(value).decode() for key, value in content.binary_data.items()}
    return target


def _said(error: ApiException) -> str:
    """The message of the ``Status`` object in an answer, else its status line."""
    try:
        message = json.loads(error.body or "")["message"]
    except (ValueError, TypeError, KeyError):
        return f"the API server answered {error.status} {error.reason}".rstrip()
    return str(message)
