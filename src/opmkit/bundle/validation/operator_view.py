"""View of an operator directory for rules: its configuration, bundles and images."""

from __future__ import annotations

from functools import cached_property, cmp_to_key, wraps
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from msgspec import Struct

from opmkit.bundle import labels
from opmkit.bundle.kinds import CSV_KIND
from opmkit.bundle.validation.compat import Compat
from opmkit.bundle.validation.csv_view import RELATED_IMAGES, Csv
from opmkit.bundle.validation.openshift import VERSIONS, OpenShiftRange
from opmkit.bundle.validation.operator_directory import CI_FILE, RELEASE_CONFIG, REPOSITORY_CONFIG, TEMPLATES
from opmkit.bundle.versions import strict_version, version_key
from opmkit.documents.lenient import items, mapping, members, scalar_text, text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from semver import Version

    from opmkit.bundle.finding import Finding
    from opmkit.bundle.validation.bundle_view import BundleView, ManifestView
    from opmkit.bundle.validation.rule import Check
    from opmkit.documents.fields import FieldPath

    OsArch: TypeAlias = tuple[str, str]
    """An operating system and an architecture."""

    Container: TypeAlias = tuple[FieldPath, str, str]
    """Path, name and image of a container."""

SEMVER_MODE = "semver-mode"
UPDATE_GRAPHS = ("replaces-mode", SEMVER_MODE)


class VersionDirectory(Struct, frozen=True, dict=True):
    """The bundle of an operator in one directory.

    Attributes:
        directory: Name of the directory.
        csv: File with the ClusterServiceVersion, None if there is none.
        annotations_file: File with the annotations, None if there is none.
        release_config: File with the release configuration, None if there is none.
    """

    directory: str
    csv: ManifestView | None = None
    annotations_file: ManifestView | None = None
    release_config: ManifestView | None = None

    @cached_property
    def name(self) -> str:
        """Name of the ClusterServiceVersion, or "" if absent."""
        return self.csv.object_name if self.csv else ""

    @cached_property
    def prefix(self) -> str:
        """Name of the ClusterServiceVersion before the first dot, or "" if it has none."""
        prefix, dot, _ = self.name.partition(".")
        return prefix if dot else ""

    @cached_property
    def number(self) -> str:
        """Version in the name of the ClusterServiceVersion, by which the pipelines identify it, or "" if absent."""
        return number_in(self.name)

    @cached_property
    def spec(self) -> Mapping[str, Any]:
        """Spec of the ClusterServiceVersion."""
        return mapping(self.csv.object.get("spec")) if self.csv else {}

    @cached_property
    def csv_annotations(self) -> Mapping[str, Any]:
        """Annotations of the ClusterServiceVersion."""
        return mapping(self.csv.metadata.get("annotations")) if self.csv else {}

    @cached_property
    def annotations(self) -> Mapping[str, str]:
        """Annotations of the bundle."""
        values = mapping(self.annotations_file.object.get("annotations")) if self.annotations_file else {}
        return {key: scalar for key, value in values.items() if (scalar := scalar_text(value)) is not None}

    @cached_property
    def package(self) -> str:
        """Package in the annotations, or "" if absent."""
        return self.annotations.get(labels.PACKAGE, "")

    @cached_property
    def channels(self) -> frozenset[str]:
        """Channels in the annotations; the pipelines do not ignore a channel without a name."""
        if labels.CHANNELS not in self.annotations:
            return frozenset()
        return frozenset(channel.strip() for channel in self.annotations[labels.CHANNELS].split(","))

    @cached_property
    def version(self) -> Version | None:
        """The version in the name of the ClusterServiceVersion, None if it is absent or no semantic version."""
        try:
            return strict_version(self.number)
        except ValueError:
            return None

    @property
    def replaces(self) -> str:
        """Name of the bundle that it replaces, or "" if none."""
        return text(self.spec.get("replaces"))

    @property
    def replaced_names(self) -> list[str]:
        """Names of the bundles that it replaces or skips."""
        return list(filter(None, map(text, (self.replaces, *items(self.spec.get("skips"))))))

    @property
    def skip_range(self) -> str:
        """Range of versions that it skips, or "" if none."""
        return text(self.csv_annotations.get("olm.skipRange"))

    @cached_property
    def openshift(self) -> OpenShiftRange | None:
        """OpenShift versions for which it is released, None if they are absent or invalid."""
        try:
            return OpenShiftRange.parse(self.annotations[VERSIONS]) if VERSIONS in self.annotations else None
        except ValueError:
            return None


class Operator(Struct, frozen=True, dict=True):
    """An operator directory.

    Attributes:
        name: Name of the directory.
        ci: The file ci.yaml, None if it does not exist.
        repository: Configuration of the repository, None if it does not exist.
        versions: The versions, lowest first.
        templates: Names of the templates of its catalogs.
    """

    name: str
    ci: ManifestView | None
    repository: ManifestView | None
    versions: tuple[VersionDirectory, ...]
    templates: frozenset[str]

    @classmethod
    def from_bundle(cls, bundle: BundleView) -> Operator:
        """Return the view of an operator directory. Cached per view."""
        if cls not in bundle.memo:
            bundle.memo[cls] = _read(bundle)
        return cast("Operator", bundle.memo[cls])

    @property
    def config(self) -> Mapping[str, Any]:
        """The content of ci.yaml, {} if it does not exist."""
        return self.ci.object if self.ci else {}

    @property
    def fbc(self) -> Mapping[str, Any]:
        """The member ``fbc`` of ci.yaml."""
        return mapping(self.config.get("fbc"))

    @property
    def uses_catalogs(self) -> bool:
        """Whether the operator is released by file-based catalogs, not by the graph of its bundles."""
        return enables_catalogs(self.config)

    @property
    def is_ordered_by_version(self) -> bool:
        """Whether each version replaces the one before it."""
        return bool(self.config.get("updateGraph") == SEMVER_MODE)

    @property
    def templates_by_name(self) -> Mapping[str, Mapping[str, Any]]:
        """The catalog templates in ci.yaml by name."""
        entries = map(mapping, items(self.fbc.get("catalog_mapping")))
        return {text(entry.get("template_name")): entry for entry in entries}

    @cached_property
    def channels(self) -> Mapping[str, list[VersionDirectory]]:
        """The versions in each channel, lowest first."""
        channels: dict[str, list[VersionDirectory]] = {}
        for version in self.versions:
            for channel in sorted(version.channels):
                channels.setdefault(channel, []).append(version)
        return channels


def _read(bundle: BundleView) -> Operator:
    by_directory: dict[str, dict[str, ManifestView]] = {}
    templates = set()
    for path in sorted(bundle.files):
        directory, _, rest = path.partition("/")
        if directory == "..":
            continue
        if directory == TEMPLATES:
            templates.add(rest)
        elif rest:
            by_directory.setdefault(directory, {})[rest] = bundle.manifest(path)
    versions = [_version(directory, files) for directory, files in by_directory.items()]
    return Operator(
        bundle.operator,
        _find(bundle, CI_FILE),
        _find(bundle, REPOSITORY_CONFIG),
        tuple(sorted(versions, key=cmp_to_key(_compare))),
        frozenset(templates),
    )


def _compare(one: VersionDirectory, other: VersionDirectory) -> int:
    """Compare bundles as the pipelines do: by the names, then by the versions in them, as text if one is invalid."""
    first: tuple[object, ...] = one.prefix, one.number, one.directory
    second: tuple[object, ...] = other.prefix, other.number, other.directory
    if one.version and other.version:
        first = one.prefix, version_key(one.version), one.number, one.directory
        second = other.prefix, version_key(other.version), other.number, other.directory
    return (first > second) - (first < second)


def number_in(name: str) -> str:
    """Return the version in the name of a ClusterServiceVersion, "" if it has none."""
    return name.partition(".")[2].lstrip("v")


def enables_catalogs(config: Mapping[str, Any]) -> bool:
    """Return whether an operator with this ci.yaml is released by file-based catalogs."""
    return bool(mapping(config.get("fbc")).get("enabled"))


def _version(directory: str, files: Mapping[str, ManifestView]) -> VersionDirectory:
    manifests = [file for path, file in files.items() if path.startswith("manifests/") and file.kind == CSV_KIND]
    others = {path.removesuffix(".yml").removesuffix(".yaml"): file for path, file in files.items()}
    return VersionDirectory(
        directory,
        manifests[0] if manifests else None,
        others.get("metadata/annotations"),
        others.get(RELEASE_CONFIG.removesuffix(".yaml")),
    )


def _find(bundle: BundleView, path: str) -> ManifestView | None:
    for name in (path, path.removesuffix("yaml") + "yml"):
        if name in bundle.files:
            return bundle.manifest(name)
    return None


def operator_check(check: Callable[[Operator], Iterable[Finding]]) -> Check:
    """Turn a check of an operator into a check of the view of its directory."""

    @wraps(check)
    def check_view(bundle: BundleView) -> Iterable[Finding]:
        return check(Operator.from_bundle(bundle))

    return cast("Check", check_view)


def bundle_check(check: Callable[[Operator, VersionDirectory], Iterable[Finding]]) -> Check:
    """Turn a check of each version of an operator into a check of the view of its directory."""

    @wraps(check)
    def check_view(bundle: BundleView) -> Iterable[Finding]:
        operator = Operator.from_bundle(bundle)
        for version in operator.versions:
            yield from check(operator, version)

    return cast("Check", check_view)


MANAGER = "manager"
OS_LABEL, ARCH_LABEL = "operatorframework.io/os.", "operatorframework.io/arch."
_PROXY = "kube-rbac-proxy"
_MAX_VALUES = 100
"""Maximum number of operating systems or architectures that are checked."""
_AFFINITY = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")


class OperatorImages(Struct, frozen=True):
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
