"""Small Kubernetes client, independent of the one that is tested."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import requests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

Object = dict[str, Any]
PATIENCE = 180
"""Seconds until waiting for the cluster times out; the machine may be busy."""
_POLL_INTERVAL = 0.1
_VOLATILE = frozenset({"componentstatuses", "events", "leases"})
_DISCOVERY = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}


class KubeClient:
    """A client of ``url`` with a bearer token."""

    def __init__(self, url: str, token: str, ca_file: Path) -> None:
        self.url = url
        self._token = token
        self._ca_file = ca_file
        self._session = self._new_session()

    def as_user(self, token: str) -> KubeClient:
        """Return a client with another token, or one for another thread."""
        return KubeClient(self.url, token or self._token, self._ca_file)

    def request(self, method: str, path: str, **settings: Any) -> Any:
        """Send a request and return the JSON of the response; raise requests.HTTPError for an error status."""
        response = self._session.request(method, self.url + path, timeout=60, **settings)
        if not response.ok:
            raise requests.HTTPError(f"{method} {path}: {response.status_code} {response.text}", response=response)
        return response.json() if "json" in response.headers.get("Content-Type", "") else response.text

    def get(self, path: str) -> Object:
        return dict(self.request("GET", path))

    def find(self, path: str) -> Object | None:
        """Return an object, None if it does not exist."""
        try:
            return self.get(path)
        except requests.HTTPError as error:
            if error.response is not None and error.response.status_code == 404:
                return None
            raise

    def list(self, path: str) -> list[Object]:
        return list(self.get(path)["items"])

    def post(self, path: str, body: Object) -> Object:
        return dict(self.request("POST", path, json=body))

    def patch(self, path: str, merge_patch: Object) -> Object:
        headers = {"Content-Type": "application/merge-patch+json"}
        return dict(self.request("PATCH", path, data=json.dumps(merge_patch), headers=headers))

    def delete(self, path: str, **options: object) -> None:
        """Delete an object if it exists; ``options`` are those of the request, such as ``gracePeriodSeconds``."""
        try:
            self.request("DELETE", path, json={"propagationPolicy": "Background", **options})
        except requests.HTTPError as error:
            if error.response is None or error.response.status_code != 404:
                raise

    def apply(self, *objects: Object, dry_run: bool = False) -> None:
        """Create or change objects by server-side apply, as ``kubectl apply --server-side`` does."""
        for each in objects:
            self.request(
                "PATCH",
                f"{self.path(each)}?fieldManager=tests&force=true{'&dryRun=All' * dry_run}",
                data=json.dumps(each),
                headers={"Content-Type": "application/apply-patch+yaml"},
            )

    def path(self, manifest: Object) -> str:
        """Return the path of the object that a manifest describes."""
        version, kind, metadata = manifest["apiVersion"], manifest["kind"], manifest["metadata"]
        (resource,) = (
            each for each in self.get(_api(version))["resources"] if each["kind"] == kind and "/" not in each["name"]
        )
        namespace = f"/namespaces/{metadata.get('namespace', 'default')}" if resource["namespaced"] else ""
        return f"{_api(version)}{namespace}/{resource['name']}/{metadata['name']}"

    def watch(self, path: str) -> Iterator[Object]:
        """Yield the events of the objects at ``path`` until the server ends the watch, at first those that exist."""
        parameters = {"watch": "true", "allowWatchBookmarks": "false"}
        with self._new_session() as session:  # one session sends one request at a time
            response = session.get(self.url + path, params=parameters, stream=True, timeout=(60, None))
            response.raise_for_status()
            yield from map(json.loads, response.iter_lines(chunk_size=1))

    def wait(self, path: str, condition: Callable[[Object], object], *, patience: float = PATIENCE) -> Object:
        """Return the object once it exists and ``condition`` is true; fail with its last state after ``patience``."""
        deadline = time.monotonic() + patience
        while True:
            found = self.find(path)
            if found is not None and condition(found):
                return found
            if time.monotonic() > deadline:
                raise AssertionError(f"{path}: condition not met within {patience} seconds: {json.dumps(found)}")
            time.sleep(_POLL_INTERVAL)

    def wait_gone(self, path: str, *, patience: float = PATIENCE) -> None:
        """Return once the object does not exist."""
        deadline = time.monotonic() + patience
        while found := self.find(path):
            assert time.monotonic() < deadline, f"{path} still exists: {json.dumps(found)}"
            time.sleep(_POLL_INTERVAL)

    def dump(self) -> dict[str, Object]:
        """Return all objects of the cluster by path, except events and leases, which change all the time."""
        objects = {}
        for path in self._resource_paths():
            api, _, plural = path.rpartition("/")
            found = self.find(path) or {"items": []}  # the CRD has just been deleted
            objects.update({_location(api, plural, each): each for each in found["items"]})
        return objects

    def _resource_paths(self) -> Iterable[str]:
        """Return the paths of all resources, each in one version: groups serve some only in their older versions."""
        paths: dict[tuple[str, str], str] = {}
        for root in ("/api", "/apis"):
            groups = dict(self.request("GET", root, headers=_DISCOVERY))["items"]
            for group, version, name in _listable(groups):
                api = f"{root}/{group}/{version}" if group else f"{root}/{version}"
                paths.setdefault((group, name), f"{api}/{name}")
        return paths.values()

    def _new_session(self) -> requests.Session:
        session = requests.Session()
        session.trust_env = False
        session.verify = str(self._ca_file)
        session.headers["Authorization"] = f"Bearer {self._token}"
        return session


def _api(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"


def _listable(groups: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """Yield group, version and plural name of the resources that can be listed, newer versions first."""
    for group in groups:
        for version in group["versions"]:
            for resource in version["resources"]:
                if "list" in resource["verbs"] and resource["resource"] not in _VOLATILE:
                    yield group["metadata"].get("name", ""), version["version"], resource["resource"]


def _location(api: str, plural: str, found: Mapping[str, Any]) -> str:
    metadata = found["metadata"]
    namespace = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    return f"{api}{namespace}/{plural}/{metadata['name']}"
