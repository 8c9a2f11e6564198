"""Images of simulated pods: those in the registries of the tests must exist; all others are assumed to."""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING

import requests

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.kit.cluster.client import KubeClient, Object

_LOCAL = re.compile(
    r"(?P<host>(?:127\.0\.0\.1|localhost):\d+)/(?P<repository>[^@]+?)(?:@(?P<digest>.+)|:(?P<tag>[^/]+))?"
)
_MEDIA_TYPES = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)


def is_local(image: str) -> bool:
    """Return whether an image is in a registry of the tests."""
    return _LOCAL.fullmatch(image) is not None


def registry_of(image: str) -> str:
    """Return the host and port of an image in a registry of the tests."""
    return image.partition("/")[0]


def pull_error(image: str, auths: Mapping[str, Mapping[str, str]], authorities: Mapping[str, Path]) -> str:
    """Return why an image cannot be pulled, in the words of containerd; "" if it can.

    Args:
        image: The reference in the pod.
        auths: Credentials by registry, as in docker's config.json.
        authorities: Certificate authorities by registry; others are accessed with plain HTTP.
    """
    match = _LOCAL.fullmatch(image)
    if match is None:
        return ""
    headers = {"Accept": ", ".join(_MEDIA_TYPES)}
    if auth := auths.get(match["host"]):
        credentials = auth.get("auth") or _basic(auth["username"], auth["password"])
        headers["Authorization"] = f"Basic {credentials}"
    ca_file = authorities.get(match["host"])
    scheme = "https" if ca_file else "http"
    url = f"{scheme}://{match['host']}/v2/{match['repository']}/manifests/{match['digest'] or match['tag'] or 'latest'}"
    subject = f'failed to pull and unpack image "{image}": failed to resolve reference "{image}"'
    try:
        status = requests.head(url, headers=headers, timeout=30, verify=str(ca_file) if ca_file else True).status_code
    except requests.RequestException:
        return f"{subject}: failed to do request: dial tcp {match['host']}: connect: connection refused"
    causes = {200: "", 404: f"{image}: not found", 401: "unexpected status from HEAD request: 401 Unauthorized"}
    cause = causes.get(status, f"unexpected status {status}")
    return f"{subject}: {cause}" if cause else ""


def credentials_of(manifest: Object, client: KubeClient) -> dict[str, Mapping[str, str]]:
    """Return the credentials in the pull secrets of a pod, by registry."""
    auths: dict[str, Mapping[str, str]] = {}
    namespace = manifest["metadata"]["namespace"]
    names = [each["name"] for each in manifest["spec"].get("imagePullSecrets", []) if each.get("name")]
    for name in names:
        secret = client.find(f"/api/v1/namespaces/{namespace}/secrets/{name}")
        if secret and (config := secret.get("data", {}).get(".dockerconfigjson")):
            auths |= json.loads(base64.b64decode(config))["auths"]
    return auths


def _basic(name: str, password: str) -> str:
    return base64.b64encode(f"{name}:{password}".encode()).decode()
