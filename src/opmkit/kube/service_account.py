"""Access to the cluster of the pod that this process runs in."""

from __future__ import annotations

import os
from pathlib import Path

from opmkit.core.hints import Hint
from opmkit.kube.connection import Connection, Server, User
from opmkit.kube.errors import ClusterError
from opmkit.kube.hint_terms import ClusterSetting

_DIRECTORY = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def load_service_account() -> Connection:
    """Return the cluster and the service account of this pod.

    Raises:
        ClusterError: if this is not a pod, or one without a service account.
    """
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise _not_in_a_pod("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
    token, authorities = _DIRECTORY / "token", _DIRECTORY / "ca.crt"
    try:
        if not token.read_bytes().strip():
            raise _not_in_a_pod(f"{token}: empty file")
        trusted = authorities.read_text("ascii")
    except OSError as error:
        raise _not_in_a_pod(f"{error.filename}: {error.strerror}") from error
    except ValueError as error:
        raise _not_in_a_pod(f"{authorities}: not in PEM format") from error
    try:
        namespace = (_DIRECTORY / "namespace").read_text().strip()
    except (OSError, ValueError):
        namespace = ""
    address = f"[{host}]" if ":" in host else host
    server = Server(f"https://{address}:{port}", authorities=trusted)
    return Connection(server, User(token_file=token), namespace or "default")


def _not_in_a_pod(cause: str) -> ClusterError:
    return ClusterError(
        f"no kubeconfig given, and not running in a pod with a service account: {cause}",
        hint=Hint("pass a kubeconfig with {}", ClusterSetting.KUBECONFIG),
    )
