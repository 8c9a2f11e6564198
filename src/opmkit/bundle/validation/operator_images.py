"""The images of an operator: which there are, what they run on, and what the operator claims to run on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from opmkit.bundle.lenient import items, mapping, members
from opmkit.bundle.validation.compat import Compat
from opmkit.bundle.validation.csv_view import DEPLOYMENTS, POD, RELATED_IMAGES, Csv

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from opmkit.bundle.field_path import FieldPath
    from opmkit.bundle.validation.bundle_view import BundleView

    Pair: TypeAlias = tuple[str, str]
    """An operating system and an architecture."""

    Container: TypeAlias = tuple[FieldPath, str, str]
    """The path, the name and the image of a container."""

MANAGER = "manager"
OS_LABEL, ARCH_LABEL = "operatorframework.io/os.", "operatorframework.io/arch."
_PROXY = "kube-rbac-proxy"
_MAX_CLAIMS = 100
"""Operating systems, or architectures, that are looked at; there are not as many."""
_AFFINITY = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")


@dataclass(frozen=True)
class OperatorImages:
    """The images of a ClusterServiceVersion by what they are for, each with the path to where it is named first.

    ``affinities`` are the platforms that the pods of an image are bound to, ``provided`` those that it runs on, None
    where they can't be learnt.
    """

    csv: Csv
    managers: Mapping[str, FieldPath]
    others: Mapping[str, FieldPath]
    related: Mapping[str, FieldPath]
    affinities: Mapping[str, Sequence[Pair]]
    provided: Mapping[str, Sequence[Pair] | None]

    @classmethod
    def of(cls, bundle: BundleView) -> OperatorImages | None:
        """Those of a bundle, which are asked for once; None if it has no ClusterServiceVersion that can be read."""
        if cls not in bundle.memo:
            csv = Csv.from_bundle(bundle)
            bundle.memo[cls] = None if csv is None else _gather(bundle, csv)
        return cast("OperatorImages | None", bundle.memo[cls])

    def labelled(self, prefix: str) -> list[str]:
        """The operating systems, or architectures, that labels claim support for."""
        labels = mapping(self.csv.metadata.get("labels"))
        claims = [
            key.removeprefix(prefix) for key, value in labels.items() if value == "supported" and key.startswith(prefix)
        ]
        return claims[:_MAX_CLAIMS]

    @property
    def systems(self) -> list[str]:
        """The operating systems that labels claim, by default linux, and those that managers run on."""
        return sorted({*(self.labelled(OS_LABEL) or ["linux"]), *(system for system, _ in self._of_managers())})

    @property
    def architectures(self) -> list[str]:
        """The architectures that labels claim, by default amd64, and those that managers run on."""
        return sorted({*(self.labelled(ARCH_LABEL) or ["amd64"]), *(arch for _, arch in self._of_managers())})

    def _of_managers(self) -> Iterator[Pair]:
        return (pair for image in self.managers for pair in self.provided[image] or ())

    @property
    def everywhere(self) -> dict[str, FieldPath]:
        """All images."""
        return {**self.related, **self.others, **self.managers}

    @property
    def companions(self) -> list[tuple[str, FieldPath]]:
        """The images that should run wherever the managers do; the older reference looks at each image once."""
        if self.csv.compat is Compat.OPM_1_26:
            return list({**self.related, **self.others}.items())
        return [*self.others.items(), *self.related.items()]


def _gather(bundle: BundleView, csv: Csv) -> OperatorImages:
    managers: dict[str, FieldPath] = {}
    affinities: dict[str, Sequence[Pair]] = {}
    pods = [(list(_containers(path, pod)), pod) for path, pod in _pods(csv)]
    for containers, pod in pods:
        for _, _, image in containers:
            if image not in managers:
                affinities[image] = _affinity(pod)
        managers |= _managers(containers, managers, mended=csv.compat is Compat.OPMKIT)
    others: dict[str, FieldPath] = {}
    for containers, _ in pods:
        for path, _, image in containers:
            if image not in managers:
                others.setdefault(image, path)
    related: dict[str, FieldPath] = {}
    for path, entry in csv.entries(RELATED_IMAGES):
        related.setdefault(str(entry.get("image", "")), (*path, "image"))
    provided = {image: _provided(bundle, image) for image in (*managers, *others, *related)}
    return OperatorImages(csv, managers, others, related, affinities, provided)


def _pods(csv: Csv) -> Iterator[tuple[FieldPath, Mapping[str, Any]]]:
    for path, deployment in csv.entries(DEPLOYMENTS):
        pod: Any = deployment
        for step in POD:
            pod = mapping(pod).get(str(step))
        yield (*path, *POD), mapping(pod)


def _containers(path: FieldPath, pod: Mapping[str, Any]) -> Iterator[Container]:
    for place, container in members(pod.get("containers"), (*path, "containers")):
        yield (*place, "image"), str(container.get("name", "")), str(container.get("image", ""))


def _managers(containers: list[Container], known: Mapping[str, FieldPath], *, mended: bool) -> dict[str, FieldPath]:
    """The managers of a pod: the container of that name, else all but the proxy that is generated for each operator.

    The references do not find the manager of a second deployment if it has the image of the first one's.
    """
    new = [one for one in containers if mended or one[2] not in known]
    named = [one for one in new if one[1] == MANAGER]
    chosen = named or [one for one in new if one[1] != _PROXY]
    return {image: path for path, _, image in reversed(chosen) if image not in known}


def _affinity(pod: Mapping[str, Any]) -> list[Pair]:
    """The platforms that a pod must run on one of."""
    required: Any = pod
    for step in _AFFINITY:
        required = mapping(required).get(step)
    pairs: list[Pair] = []
    for term in items(mapping(required).get("nodeSelectorTerms"))[:_MAX_CLAIMS]:
        values: dict[str, list[str]] = {}
        for expression in items(mapping(term).get("matchExpressions")):
            if mapping(expression).get("operator") == "In":
                values[mapping(expression).get("key", "")] = items(mapping(expression).get("values"))
        systems = values.get("kubernetes.io/os", [])[:_MAX_CLAIMS]
        architectures = values.get("kubernetes.io/arch", [])[:_MAX_CLAIMS]
        pairs += [(system, architecture) for system in systems for architecture in architectures]
    return list(dict.fromkeys(pairs))


def _provided(bundle: BundleView, image: str) -> list[Pair] | None:
    """What an image runs on, in the eyes of a dialect: to the references, an image without index runs nowhere."""
    found = bundle.inspect(image) if bundle.inspect else None
    if found is None:
        return None
    if not found.is_index and bundle.compat is not Compat.OPMKIT:
        return []
    platforms = found.platforms if bundle.compat is Compat.OPM_1_26 else found.known
    return [(one.os, one.architecture) for one in platforms]
