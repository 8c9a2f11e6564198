"""Images of an operator, their platforms, and the platforms that the operator claims to support."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from opmkit.bundle.validation.compat import Compat
from opmkit.bundle.validation.csv_view import RELATED_IMAGES, Csv
from opmkit.documents.lenient import items, mapping, members

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from opmkit.bundle.validation.bundle_view import BundleView
    from opmkit.documents.fields import FieldPath

    OsArch: TypeAlias = tuple[str, str]
    """An operating system and an architecture."""

    Container: TypeAlias = tuple[FieldPath, str, str]
    """Path, name and image of a container."""

MANAGER = "manager"
OS_LABEL, ARCH_LABEL = "operatorframework.io/os.", "operatorframework.io/arch."
_PROXY = "kube-rbac-proxy"
_MAX_VALUES = 100
"""Maximum number of operating systems or architectures that are checked."""
_AFFINITY = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")


@dataclass(frozen=True)
class OperatorImages:
    """Images of a ClusterServiceVersion, with the path of their first occurrence.

    Attributes:
        csv: The ClusterServiceVersion.
        managers: Images of the operator itself.
        others: Images of other containers in the deployments.
        related: Images in ``spec.relatedImages``.
        affinities: Platforms to which the node affinity binds the pods of an image.
        platforms: Platforms of an image, None if unknown.
    """

    csv: Csv
    managers: Mapping[str, FieldPath]
    others: Mapping[str, FieldPath]
    related: Mapping[str, FieldPath]
    affinities: Mapping[str, Sequence[OsArch]]
    platforms: Mapping[str, Sequence[OsArch] | None]

    @classmethod
    def from_bundle(cls, bundle: BundleView) -> OperatorImages | None:
        """Return the images of a bundle, or None if it has no valid ClusterServiceVersion. Cached per bundle."""
        if cls not in bundle.memo:
            csv = Csv.from_bundle(bundle)
            bundle.memo[cls] = None if csv is None else _collect(bundle, csv)
        return cast("OperatorImages | None", bundle.memo[cls])

    def claimed(self, prefix: str) -> list[str]:
        """Return the operating systems or architectures that labels with this prefix claim to support."""
        labels = mapping(self.csv.metadata.get("labels"))
        claims = [
            key.removeprefix(prefix) for key, value in labels.items() if value == "supported" and key.startswith(prefix)
        ]
        return claims[:_MAX_VALUES]

    @property
    def systems(self) -> list[str]:
        """Claimed operating systems, linux by default, and those of the managers."""
        return sorted({*(self.claimed(OS_LABEL) or ["linux"]), *(system for system, _ in self._manager_platforms())})

    @property
    def architectures(self) -> list[str]:
        """Claimed architectures, amd64 by default, and those of the managers."""
        return sorted({*(self.claimed(ARCH_LABEL) or ["amd64"]), *(arch for _, arch in self._manager_platforms())})

    def _manager_platforms(self) -> Iterator[OsArch]:
        return (pair for image in self.managers for pair in self.platforms[image] or ())

    @property
    def all_images(self) -> dict[str, FieldPath]:
        """All images with their paths."""
        return {**self.related, **self.others, **self.managers}

    @property
    def non_managers(self) -> list[tuple[str, FieldPath]]:
        """Images that must support the platforms of the managers; operator-sdk of opm-1.26 checks each image once."""
        if self.csv.compat is Compat.OPM_1_26:
            return list({**self.related, **self.others}.items())
        return [*self.others.items(), *self.related.items()]


def _collect(bundle: BundleView, csv: Csv) -> OperatorImages:
    managers: dict[str, FieldPath] = {}
    affinities: dict[str, Sequence[OsArch]] = {}
    pods = [(list(_containers(path, pod)), pod) for _, path, pod in csv.pods]
    for containers, pod in pods:
        for _, _, image in containers:
            if image not in managers:
                affinities[image] = _affinity(pod)
        managers |= _managers(containers, managers, all_containers=csv.compat is Compat.OPMKIT)
    others: dict[str, FieldPath] = {}
    for containers, _ in pods:
        for path, _, image in containers:
            if image not in managers:
                others.setdefault(image, path)
    related: dict[str, FieldPath] = {}
    for path, entry in csv.entries(RELATED_IMAGES):
        related.setdefault(str(entry.get("image", "")), (*path, "image"))
    platforms = {image: _platforms(bundle, image) for image in (*managers, *others, *related)}
    return OperatorImages(csv, managers, others, related, affinities, platforms)


def _containers(path: FieldPath, pod: Mapping[str, Any]) -> Iterator[Container]:
    for container_path, container in members(pod.get("containers"), (*path, "containers")):
        yield (*container_path, "image"), str(container.get("name", "")), str(container.get("image", ""))


def _managers(
    containers: list[Container], known: Mapping[str, FieldPath], *, all_containers: bool
) -> dict[str, FieldPath]:
    """Return the managers of a pod: containers with this name, otherwise all except kube-rbac-proxy.

    Unless ``all_containers`` is set, containers with a known image are skipped, as in operator-sdk. It does not find
    the manager of a second deployment that has the image of the first one.
    """
    candidates = [container for container in containers if all_containers or container[2] not in known]
    managers = [container for container in candidates if container[1] == MANAGER]
    managers = managers or [container for container in candidates if container[1] != _PROXY]
    return {image: path for path, _, image in reversed(managers) if image not in known}


def _affinity(pod: Mapping[str, Any]) -> list[OsArch]:
    """Return the platforms that the required node affinity of a pod allows."""
    required: Any = pod
    for step in _AFFINITY:
        required = mapping(required).get(step)
    pairs: list[OsArch] = []
    for term in items(mapping(required).get("nodeSelectorTerms"))[:_MAX_VALUES]:
        values: dict[str, list[str]] = {}
        for expression in items(mapping(term).get("matchExpressions")):
            if mapping(expression).get("operator") == "In":
                values[mapping(expression).get("key", "")] = items(mapping(expression).get("values"))
        systems = values.get("kubernetes.io/os", [])[:_MAX_VALUES]
        architectures = values.get("kubernetes.io/arch", [])[:_MAX_VALUES]
        pairs += [(system, architecture) for system in systems for architecture in architectures]
    return list(dict.fromkeys(pairs))


def _platforms(bundle: BundleView, image: str) -> list[OsArch] | None:
    """Return the platforms of an image, None if unknown. For operator-sdk, images without an index have none."""
    found = bundle.inspect(image) if bundle.inspect else None
    if found is None:
        return None
    if not found.is_index and bundle.compat is not Compat.OPMKIT:
        return []
    platforms = found.platforms if bundle.compat is Compat.OPM_1_26 else found.known
    return [(platform.os, platform.architecture) for platform in platforms]
