"""View of an operator directory for rules: its configuration and its versions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, cast

from opmkit.bundle import labels
from opmkit.bundle.kinds import CSV_KIND
from opmkit.bundle.validation.openshift import VERSIONS, OpenShiftRange
from opmkit.bundle.validation.operator_directory import CI_FILE, RELEASE_CONFIG, REPOSITORY_CONFIG, TEMPLATES
from opmkit.bundle.versions import tolerant_version
from opmkit.documents.lenient import items, mapping, scalar_text, text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from semver import Version

    from opmkit.bundle.finding import Finding
    from opmkit.bundle.validation.bundle_view import BundleView, ManifestView
    from opmkit.bundle.validation.rule import Check


SEMVER_MODE = "semver-mode"
UPDATE_GRAPHS = ("replaces-mode", SEMVER_MODE)


@dataclass(frozen=True)
class VersionDirectory:
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
        """Channels in the annotations."""
        listed = self.annotations.get(labels.CHANNELS, "").split(",")
        return frozenset(channel.strip() for channel in listed if channel.strip())

    @cached_property
    def version(self) -> Version:
        """Version of the ClusterServiceVersion, 0.0.0 if it is absent or invalid."""
        try:
            return tolerant_version(text(self.spec.get("version")) or "0")
        except ValueError:
            return tolerant_version("0")

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


@dataclass(frozen=True)
class Operator:
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
        return self.fbc.get("enabled") is True

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
        tuple(sorted(versions, key=lambda version: (version.version, version.directory))),
        frozenset(templates),
    )


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
