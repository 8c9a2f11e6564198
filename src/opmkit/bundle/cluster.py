"""ConfigMaps of a Kubernetes cluster."""

from __future__ import annotations

import base64
import json
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from kubernetes import config
from kubernetes.client import ApiClient, Configuration
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError, MaxRetryError

from opmkit._version import __version__
from opmkit.bundle.config_map import ConfigMap
from opmkit.bundle.errors import BundleError
from opmkit.imagetools.hints import Hint, Setting

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from kubernetes.client import V1ConfigMap

_TIMEOUT = (10, 60)
"""Timeouts in seconds for connecting and for the response."""
_MAX_ATTEMPTS = 5
_HINTS = {
    401: "log in to the cluster again, or use another kubeconfig",
    403: "grant the user or service account the permission with a Role and a RoleBinding",
    404: "check the name and the namespace",
    422: "correct the invalid values",
}


class ClusterError(BundleError):
    """The cluster cannot be reached, or rejects a request.

    Attributes:
        status: HTTP status code, 0 without a response.
    """

    def __init__(self, message: str, *, hint: Hint | str = "", status: int = 0) -> None:
        """Create an error."""
        super().__init__(message, hint=hint)
        self.status = status


class Cluster:
    """Client for a Kubernetes cluster."""

    def __init__(self, client: ApiClient) -> None:
        """Create a client that sends its requests with ``client``."""
        self._host = client.configuration.host
        from kubernetes.client import CoreV1Api  # takes long to import

        self._core = CoreV1Api(client)

    @classmethod
    def connect(cls, kubeconfig: str = "") -> Cluster:
        """Return a client for the current context of a kubeconfig, or for the cluster of the pod this process runs in.

        No request is sent.

        Raises:
            ClusterError: if the kubeconfig does not exist or is invalid, or this is not a pod.
        """
        settings = Configuration()
        if kubeconfig:
            _load_kubeconfig(kubeconfig, settings)
        else:
            _load_pod(settings)
        client = ApiClient(settings)
        client.user_agent = f"opm/{__version__}"  # recorded as the manager of the fields that are written
        return cls(client)

    def read(self, namespace: str, name: str) -> ConfigMap:
        """Return a ConfigMap.

        Raises:
            ClusterError: if the ConfigMap does not exist, or the cluster cannot be reached or rejects the request.
        """
        with self._errors():
            found = self._core.read_namespaced_config_map(name, namespace, _request_timeout=_TIMEOUT)
            if found.kind != "ConfigMap":  # older clients return an empty object for any text
                raise ValueError("not a ConfigMap")
            binary = {key: base64.b64decode(value, validate=True) for key, value in (found.binary_data or {}).items()}
        annotations = found.metadata.annotations if found.metadata else None
        return ConfigMap(namespace, name, found.data or {}, binary, annotations or {})

    def write(self, config_map: ConfigMap, *, replacing: Collection[str] = ()) -> None:
        """Create a ConfigMap or replace its content. Conflicting changes by other clients are retried.

        Args:
            config_map: Its annotations are merged into the existing ones.
            replacing: Existing annotations to remove.

        Raises:
            ClusterError: if the cluster cannot be reached or rejects the request.
        """
        for attempt in range(_MAX_ATTEMPTS):
            try:
                with self._errors():
                    self._put(config_map, replacing)
            except ClusterError as error:
                if error.status != 409 or attempt == _MAX_ATTEMPTS - 1:
                    raise
            else:
                return

    def _put(self, config_map: ConfigMap, replacing: Collection[str]) -> None:
        name, namespace = config_map.name, config_map.namespace
        try:
            existing = self._core.read_namespaced_config_map(name, namespace, _request_timeout=_TIMEOUT)
        except ApiException as error:
            if error.status != 404:
                raise
            from kubernetes.client import V1ConfigMap, V1ObjectMeta

            metadata = V1ObjectMeta(name=name, namespace=namespace, annotations=dict(config_map.annotations))
            new = _with_data(V1ConfigMap(metadata=metadata), config_map)
            self._core.create_namespaced_config_map(namespace, new, _request_timeout=_TIMEOUT)
            return
        if existing.metadata:
            annotations = existing.metadata.annotations or {}
            others = {key: text for key, text in annotations.items() if key not in replacing}
            existing.metadata.annotations = {**others, **config_map.annotations}
        body = _with_data(existing, config_map)
        self._core.replace_namespaced_config_map(name, namespace, body, _request_timeout=_TIMEOUT)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Translate the errors of the client library into ClusterError."""
        try:
            yield
        except ApiException as error:
            status = error.status or 0
            raise ClusterError(_error_message(error), hint=_HINTS.get(status, ""), status=status) from error
        except HTTPError as error:
            cause = error.reason if isinstance(error, MaxRetryError) and error.reason else error
            raise ClusterError(
                f"cannot reach the API server {self._host}: {cause}",
                hint="check the address in the kubeconfig, the network and the proxy",
            ) from error
        except (ValueError, AttributeError) as error:  # a response that is not a ConfigMap
            raise ClusterError(
                f"invalid response from the API server {self._host}: {str(error).splitlines()[0]}",
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
        raise _invalid(kubeconfig, " ".join(str(error).split())) from error
    except (AttributeError, LookupError, TypeError, ValueError) as error:  # raised for YAML of another structure
        raise _invalid(kubeconfig, "not a kubeconfig") from error


def _invalid(kubeconfig: str, cause: str) -> ClusterError:
    hint = "check its current context, cluster and user"
    return ClusterError(f"invalid kubeconfig {kubeconfig}: {cause}", hint=hint)


def _load_pod(settings: Configuration) -> None:
    try:
        config.load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
    except config.ConfigException as error:
        raise ClusterError(
            f"no kubeconfig given, and not running in a pod with a service account: {error}",
            hint=Hint("pass a kubeconfig with {}", Setting.KUBECONFIG),
        ) from error


def _with_data(target: V1ConfigMap, content: ConfigMap) -> V1ConfigMap:
    target.data = dict(content.data)
    target.binary_data = {key: base64.b64encode(value).decode() for key, value in content.binary_data.items()}
    return target


def _error_message(error: ApiException) -> str:
    """Return the message of the ``Status`` object in the response, otherwise its status line."""
    try:
        message = json.loads(error.body or "")["message"]
    except (ValueError, TypeError, KeyError):
        return f"the API server responded {error.status} {error.reason}".rstrip()
    return str(message)
