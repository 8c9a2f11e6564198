"""The checks of Konflux's task validate-fbc on catalog images, as far as they need nothing but the image.

Facts about version 0.2 of the task: https://github.com/konflux-ci/konflux-operator-tasks/tree/main/task/validate-fbc.
Input that the shell commands of the task only accept by accident, such as a label with two JSON documents, is refused.
"""

from __future__ import annotations

import json
import logging
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct

from opmkit.bundle.finding import Severity
from opmkit.bundle.labels import INDEX_CONFIGS
from opmkit.bundle.source import path_or_image
from opmkit.core.files import disk_errors
from opmkit.core.scratch import ScratchDirectory
from opmkit.imagetools.errors import prefix_errors
from opmkit.imagetools.image import Image
from opmkit.imagetools.layer.reader import normalize_path
from opmkit.index.fbc.blobs import BUNDLE_OBJECT, CSV_METADATA, Blobs
from opmkit.index.fbc.check.catalog import locate
from opmkit.index.fbc.check.policy import PINNED
from opmkit.index.fbc.check.result import ProfiledCatalog
from opmkit.index.fbc.check.rules import KONFLUX, KONFLUX_IMAGE
from opmkit.index.fbc.csv_metadata import MigrationLevel
from opmkit.index.fbc.findings import CatalogFinding
from opmkit.index.fbc.load import LoadResult, load_directory
from opmkit.index.image.base import BASE_DIGEST, BASE_NAME
from opmkit.index.image.source import CATALOGS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opmkit.imagetools.image import ImageIndex
    from opmkit.imagetools.tools.registry import RegistryTool
    from opmkit.index.fbc.blobs import BundleBlob
    from opmkit.index.image.source import GetRegistryTool, IndexSource

BASE_REPOSITORIES = (
    "registry.redhat.io/openshift4/ose-operator-registry",
    "registry.redhat.io/openshift4/ose-operator-registry-rhel9",
    "registry.redhat.io/openshift5/ose-operator-registry",
    "registry.redhat.io/openshift5/ose-operator-registry-rhel9",
    "brew.registry.redhat.io/rh-osbs/openshift-ose-operator-registry-rhel9",
)
"""Repositories of allowed base images."""
VERSION_LABEL = "com.redhat.fbc.openshift.version"
"""Label with a JSON array of the OpenShift versions of a catalog, which replaces the tag of the base image."""
HEALTH_PROBE = "grpc_health_probe"

_ARCHITECTURE = "amd64"
_BUNDLE_REGISTRIES = ("registry.redhat.io/", "registry.stage.redhat.io/")
_FIRST_WITH_METADATA = (4, 17)
_BASE = re.compile(r"([^:@\s]+)(?::([a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}))?(?:@(.+))?")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_VERSION = re.compile(r"v?[45]\.[0-9]+", re.ASCII)
_CONFIGS = re.compile(r"/[\w.+,~=%/-]*", re.ASCII)
_MAX_DIGITS = 18  # the shell's numbers have 64 bits
_VERSION_HINT = f"""Set the label {VERSION_LABEL} to a JSON array of versions such as ["v4.17"], or remove it."""
_log = logging.getLogger(__name__)


def load_for_konflux(source: IndexSource, tool: GetRegistryTool) -> ProfiledCatalog:
    """Load a catalog, and check it as the task does.

    Of a directory, which has no labels, only the content is checked. All layers of an image are read.

    Raises:
        CatalogError: The source is neither an image nor a catalog directory.
        ImageToolsError: The image cannot be read.
    """
    if isinstance(source.location, Path):
        source.require(CATALOGS)
        _log.warning("%s: not an image: its base image, labels and %s are not checked", source.text, HEALTH_PROBE)
        return ProfiledCatalog(*_load_content(source.location, None), frozenset({KONFLUX}))
    with path_or_image(source.text):
        image = _amd64_image(tool().load(source.location))
    with prefix_errors(source.text):
        return _load_image(tool(), image)


def _load_image(tool: RegistryTool, image: Image | None) -> ProfiledCatalog:
    groups = frozenset({KONFLUX, KONFLUX_IMAGE})
    if image is None:
        hint = f"Build the image for linux/{_ARCHITECTURE}, too."
        finding = CatalogFinding(f"no image for {_ARCHITECTURE}", hint=hint, rule="KONFLUX-ARCHITECTURE")
        return ProfiledCatalog(LoadResult(Blobs()), (finding,), groups, is_read=False)
    base = BaseImage.from_annotations(image.annotations)
    version = CatalogVersion.from_image(image.labels, base)
    findings = (*base.check(), *version.check(), *_check_probe(tool, image))
    with ScratchDirectory("opm-konflux-") as scratch:
        configs = _extract_configs(tool, image, Path(scratch))
        if isinstance(configs, CatalogFinding):
            return ProfiledCatalog(LoadResult(Blobs()), (*findings, configs), groups, is_read=False)
        loaded, content = _load_content(configs, version)
    return ProfiledCatalog(loaded, (*findings, *content), groups)


def _amd64_image(loaded: Image | ImageIndex) -> Image | None:
    """Return the image for amd64; of several in an index, the last."""
    if isinstance(loaded, Image):
        return loaded if loaded.config.platform.architecture.lower() == _ARCHITECTURE else None
    pairs = zip(loaded.index.images, loaded.images, strict=True)
    found = [image for entry, image in pairs if entry.platform and entry.platform.architecture.lower() == _ARCHITECTURE]
    return found[-1] if found else None


class BaseImage(Struct, frozen=True):
    """The base image that the annotations of an image name.

    Attributes:
        name: The value of the annotation; "" if it is missing or ambiguous.
        digest: The value of the annotation with the digest; "" if it is missing.
    """

    name: str = ""
    digest: str = ""

    @classmethod
    def from_annotations(cls, annotations: Mapping[str, str]) -> Self:
        """Read the annotations as the task does, which also matches them within other lines."""
        names, digests = (_matching_values(annotations, key) for key in (BASE_NAME, BASE_DIGEST))
        return cls(*("" if len(names) != 1 else names[0], "\n".join(digests)))

    @property
    def repository(self) -> str:
        """The repository, "" if the name is invalid."""
        match = _BASE.fullmatch(self.name)
        return match[1] if match else ""

    @property
    def tag(self) -> str:
        """The tag, "" if there is none."""
        match = _BASE.fullmatch(self.name)
        return (match[2] or "") if match else ""

    def check(self) -> Iterator[CatalogFinding]:
        """Yield a finding unless the base image is one of the allowed ones."""
        if not self.name:
            hint = "Build the image with buildah or opm, which record the base image."
            message = f"the annotation {BASE_NAME} is missing or ambiguous"
            yield CatalogFinding(message, hint=hint, rule="KONFLUX-BASE-IMAGE")
        elif self.repository not in BASE_REPOSITORIES:
            message = f"the base image {self.name} is not allowed for catalogs"
            hint = f"Build on one of {', '.join(BASE_REPOSITORIES)}."
            yield CatalogFinding(message, hint=hint, rule="KONFLUX-BASE-IMAGE")
        match = _BASE.fullmatch(self.name)
        digest = self.digest or (match[3] if match else "")
        if digest and not _DIGEST.fullmatch(digest):
            message = f"the digest of the base image is invalid: {digest}"
            yield CatalogFinding(message, hint="Build the image again.", rule="KONFLUX-BASE-IMAGE")


def _matching_values(values: Mapping[str, str], key: str) -> list[str]:
    """Return what follows ``KEY=`` in lines with the values, up to the next equals sign.

    The task finds the key anywhere in a line, and its dots match any character. Two matches would be two base images.
    """
    pattern = re.compile(f"{key}=")
    lines = (line for name, value in values.items() for line in f"{name}={value}".split("\n"))
    return [line.split("=")[1] for line in lines if pattern.search(line)]


class CatalogVersion(Struct, frozen=True):
    """The OpenShift version of a catalog, by which the task checks the format of metadata.

    Attributes:
        text: The version as the image has it: the JSON array of the label, or the tag of the base image.
        property_type: The property that bundles must have; "" if the task cannot determine the version.
        problem: The reason why the version is missing or invalid; "" otherwise.
    """

    text: str
    property_type: str = ""
    problem: str = ""

    @classmethod
    def from_image(cls, labels: Mapping[str, str], base: BaseImage) -> Self:
        """Read the label, or the tag of the base image if there is no label."""
        lines = (line for name in sorted(labels) for line in f"{name}={labels[name]}".split("\n"))
        label = next((line for line in lines if re.match(f"{VERSION_LABEL}=", line)), None)
        if label is not None:
            text = label.partition("=")[2]
            return cls(text, problem=_label_problem(text))
        if not base.tag:
            return cls("", problem=f"neither a label {VERSION_LABEL} nor a tag in the annotation {BASE_NAME}")
        return cls.from_tag(base.tag)

    @classmethod
    def from_tag(cls, tag: str) -> Self:
        """Read a tag such as ``v4.17``; without a dot, the whole tag is both numbers, and "" is 0."""
        parts = tag.split(".")
        major, minor = re.sub("^[a-zA-Z]*", "", parts[0]), parts[1] if len(parts) > 1 else tag
        if not all(re.fullmatch("[0-9]*", number) for number in (major, minor)):
            return cls(tag)
        if max(len(major), len(minor)) > _MAX_DIGITS:
            return cls(tag, problem=f"the tag of the base image is not a version: {tag}")
        numbers = (_shell_number(major), _shell_number(minor))
        return cls(tag, CSV_METADATA if _has_metadata(*numbers) else BUNDLE_OBJECT)

    def check(self) -> Iterator[CatalogFinding]:
        """Yield an error for an invalid version, or a warning if the format of metadata is not checked."""
        if self.problem:
            yield CatalogFinding(self.problem, hint=_VERSION_HINT, rule="KONFLUX-OPENSHIFT-VERSION")
        elif not self.property_type:
            yield CatalogFinding(
                f"the format of metadata is not checked: no single OpenShift version in {self.text}",
                hint="Require the OpenShift version when the catalog is validated, once per version.",
                severity=Severity.WARNING,
                rule="KONFLUX-UNKNOWN-VERSION",
            )


def _label_problem(text: str) -> str:
    """Return the problem of the label with OpenShift versions, or ""."""
    try:
        versions = json.loads(text)
    except (ValueError, RecursionError):
        versions = None
    if not isinstance(versions, list) or not versions:
        return f"the label {VERSION_LABEL} is not a JSON array with versions: {text}"
    for version in versions:
        if not _is_version(version):
            return f"the label {VERSION_LABEL} has an invalid version: {version!s}"
    return ""


def _is_version(value: Any) -> bool:
    """Return whether each line of a string is a version; the shell reads line by line, and strips the lines.

    Numbers are versions for the first step of the task, but the step about related images fails for them.
    """
    if not isinstance(value, str):
        return False
    return all(_VERSION.fullmatch(line.strip(" \t")) for line in value.split("\n"))


def _shell_number(digits: str) -> int | None:
    """Return a number as the shell reads it: "" is 0, and a leading zero marks octal numbers; None if that fails."""
    try:
        return int(digits or "0", 8 if digits.startswith("0") else 10)
    except ValueError:
        return None


def _has_metadata(major: int | None, minor: int | None) -> bool:
    """Return whether a version requires ``olm.csv.metadata``; comparisons with an invalid number are false."""
    first_major, first_minor = _FIRST_WITH_METADATA
    if major is None:
        return False
    return major > first_major or (major == first_major and minor is not None and minor >= first_minor)


def _check_probe(tool: RegistryTool, image: Image) -> Iterator[CatalogFinding]:
    if not tool.contains_name(image, HEALTH_PROBE):
        hint = "Build on an image that contains it; allowed base images do."
        yield CatalogFinding(f"the image does not contain {HEALTH_PROBE}", hint=hint, rule="KONFLUX-HEALTH-PROBE")


def _extract_configs(tool: RegistryTool, image: Image, directory: Path) -> Path | CatalogFinding:
    """Extract the directory of the catalog; return it, or a finding if it is missing or empty."""
    label = image.labels.get(INDEX_CONFIGS)
    if label is None:
        hint = f"Set the label to the directory of the catalog: LABEL {INDEX_CONFIGS}=/configs"
        return CatalogFinding(f"the label {INDEX_CONFIGS} is missing", hint=hint, rule="KONFLUX-CONFIGS")
    path = normalize_path(label) if _CONFIGS.fullmatch(label) else None
    if not path:
        message = f"the label {INDEX_CONFIGS} is not the absolute path of a directory: {label!r}"
        hint = "Set the label to a path such as /configs, without spaces and patterns."
        return CatalogFinding(message, hint=hint, rule="KONFLUX-CONFIGS")
    tool.extract_directory(image, path, directory)
    configs = directory / path
    problem = _directory_problem(configs)
    if problem:
        hint = "Copy the catalog into this directory, with a directory for each package."
        return CatalogFinding(f"the directory {label} {problem}", hint=hint, rule="KONFLUX-CONFIGS")
    return configs


def _directory_problem(path: Path) -> str:
    if path.is_symlink():
        return "is a link"
    if not path.is_dir():
        return "does not exist"
    return "is empty" if _is_empty(path) else ""


def _is_empty(directory: Path | str) -> bool:
    with os.scandir(directory) as entries:
        return next(entries, None) is None


def _load_content(directory: Path, version: CatalogVersion | None) -> tuple[LoadResult, tuple[CatalogFinding, ...]]:
    """Load a catalog directory, and check its layout and documents."""
    with disk_errors(directory):
        layout = tuple(_check_packages(directory))
    loaded = load_directory(directory)
    return loaded, (*layout, *_check_blobs(loaded.blobs, version))


def _check_packages(directory: Path) -> Iterator[CatalogFinding]:
    """Check that there are directories of packages, and that none is empty; links to directories do not count."""
    with os.scandir(directory) as entries:
        packages = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    hint = "Move the documents of each package to a separate directory: PACKAGE/catalog.yaml"
    if not packages:
        yield CatalogFinding("the catalog has no package directories", hint=hint, rule="KONFLUX-PACKAGE-DIRECTORY")
    for name in packages:
        if _is_empty(directory / name) or "\n" in name:
            problem = "has a line break in its name" if "\n" in name else "is empty"
            message = f"the package directory {name!r} {problem}"
            yield CatalogFinding(message, hint=hint, rule="KONFLUX-PACKAGE-DIRECTORY")


def _check_blobs(blobs: Blobs, version: CatalogVersion | None) -> Iterator[CatalogFinding]:
    if not blobs.packages:
        hint = "Add the documents of a package."
        yield CatalogFinding("the catalog has no olm.package document", hint=hint, rule="KONFLUX-NO-PACKAGE")
    bundles = sorted(blobs.bundles, key=lambda blob: (blob.package, blob.name))
    if version is not None and version.property_type:
        yield from _check_metadata(bundles, version)
    for bundle in bundles:
        for image in filter(None, bundle.image.split("\n")):
            for finding in _check_image(image):
                yield locate(finding, bundle)


def _check_metadata(bundles: list[BundleBlob], version: CatalogVersion) -> Iterator[CatalogFinding]:
    """Compare numbers of properties with the number of bundles, as the task does.

    It counts the properties of all bundles together. A bundle with two ``olm.bundle.object`` makes up for one without.
    A bundle with two ``olm.csv.metadata`` is an error, unless another has none.
    """
    wanted = version.property_type
    unwanted = BUNDLE_OBJECT if wanted == CSV_METADATA else CSV_METADATA
    migration = (
        f"with the migration level {MigrationLevel.CSV_METADATA}" if wanted == CSV_METADATA else "without migration"
    )
    hint = f"Render the catalog from its bundle images {migration}."
    rule = "KONFLUX-METADATA-FORMAT"
    counts = [sum(item.type == wanted for item in bundle.properties) for bundle in bundles]
    too_many, too_few = sum(counts) > len(bundles) and wanted == CSV_METADATA, sum(counts) < len(bundles)
    for bundle, count in zip(bundles, counts, strict=True):
        if any(item.type == unwanted for item in bundle.properties):
            message = f"OpenShift {version.text} does not support the property {unwanted}"
            yield locate(CatalogFinding(message, hint=hint, rule=rule), bundle)
        if (too_few and not count) or (too_many and count > 1):
            problem = f"requires the property {wanted}" if not count else f"allows one property {wanted} per bundle"
            yield locate(CatalogFinding(f"OpenShift {version.text} {problem}", hint=hint, rule=rule), bundle)


def _check_image(image: str) -> Iterator[CatalogFinding]:
    if not PINNED.search(image):
        hint = "Write the image as REPOSITORY@sha256:DIGEST."
        yield CatalogFinding(f"image {image} has no digest", hint=hint, rule="KONFLUX-DIGEST")
    if not image.startswith(_BUNDLE_REGISTRIES):
        message = f"image {image} is not in an allowed registry: {', '.join(_BUNDLE_REGISTRIES)}"
        hint = "Release the bundle image, and refer to it in that registry."
        yield CatalogFinding(message, hint=hint, rule="KONFLUX-REGISTRY")
