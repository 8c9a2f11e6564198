"""Rules of the validator ``packagemanifest``: the older format, a directory a package and one in it a version."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any, cast

from opmkit.bundle.api_types.decode import decode_struct
from opmkit.bundle.api_types.scalars import DecodeMode
from opmkit.bundle.api_types.tables import PACKAGE_MANIFEST
from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.lenient import mapping, members, text
from opmkit.bundle.validation.decode import read_finding
from opmkit.bundle.validation.loading import type_findings
from opmkit.bundle.validation.rule import rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from opmkit.bundle.field_path import FieldPath
    from opmkit.bundle.validation.bundle_view import BundleView, Manifest
    from opmkit.bundle.validation.rule import Check

VALIDATOR = "packagemanifest"

_GOOD = (
    "packageName: demo\nchannels:\n- {name: stable, currentCSV: demo.v1.0.0}\n- {name: beta, currentCSV: demo.v2.0.0}\n"
)
_BETA = "defaultChannel: stable"


@dataclass(frozen=True)
class PackageManifest:
    """A package manifest: its file, and its fields, of which those of wrong types are absent."""

    file: Manifest
    value: Mapping[str, Any]

    @property
    def channels(self) -> list[tuple[FieldPath, Mapping[str, Any]]]:
        """Its channels, with their paths."""
        return list(members(self.value.get("channels"), ("channels",)))

    @property
    def names(self) -> list[str]:
        """The names of its channels."""
        return [text(channel.get("name")) for _, channel in self.channels]

    @property
    def default_channel(self) -> str:
        """Its default channel, "" where it names none."""
        return text(self.value.get("defaultChannel"))


@dataclass(frozen=True)
class _Package:
    """What was found below a directory."""

    manifests: list[PackageManifest] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def _read(bundle: BundleView) -> _Package:
    """Look for package manifests in all files that are not hidden, at any depth; whatever names a package is one."""
    found = bundle.memo.get(_read)
    if found is None:
        found = bundle.memo[_read] = _Package()
        for file in bundle.below("", deep=True):
            if not any(part.startswith(".") for part in file.path.split("/")):
                _look_at(file, found)
    return cast("_Package", found)


def _look_at(file: Manifest, package: _Package) -> None:
    if finding := read_finding(file):
        package.findings.append(finding)
        return
    reading = DecodeMode.JSON if file.content.is_json else DecodeMode.YAML
    typed = decode_struct(file.content.value or {}, PACKAGE_MANIFEST, reading)
    package.findings.extend(list(type_findings(file, typed))[:1])
    if not typed.mismatches and typed.value.keys() & {"packageName", "channels", "defaultChannel"}:
        package.manifests.append(PackageManifest(file, mapping(typed.value)))


def _of_package(judge: Callable[[PackageManifest], Iterable[tuple[FieldPath, str]]]) -> Check:
    """Make a check of a function that tells paths and faults of the package manifest, the first that there is."""

    @wraps(judge)
    def check(bundle: BundleView) -> Iterator[Finding]:
        for package in _read(bundle).manifests[:1]:
            for path, told in judge(package):
                yield Finding(told, package.file.path, path, subject=text(package.value.get("packageName")))

    return cast("Check", check)


@rule(
    "LOAD-PACKAGE-DECODE",
    VALIDATOR,
    Severity.ERROR,
    "a file of a package can't be read",
    hint="Put its YAML right, or move it out of the package.",
    bad="packageName: [demo]",
    good="packageName: demo",
)
def package_decode(bundle: BundleView) -> Iterator[Finding]:
    """Each file below the directory may be the package manifest, so each must be a mapping of YAML or JSON."""
    yield from _read(bundle).findings


@rule(
    "LOAD-MULTIPLE-PACKAGE",
    VALIDATOR,
    Severity.ERROR,
    "there are several package manifests",
    hint="Leave one, and put other packages in directories of their own.",
    bad="demo/demo.package.yaml\ndemo/other.package.yaml",
    good="demo/demo.package.yaml\nother/other.package.yaml",
)
def several_packages(bundle: BundleView) -> Iterator[Finding]:
    """A directory holds one package. A file is its manifest if it has a packageName, channels or a defaultChannel."""
    manifests = _read(bundle).manifests
    for other in manifests[1:]:
        yield Finding(f"{other.file.path} is a package manifest, as {manifests[0].file.path} is", other.file.path)


@rule(
    "PKG-NAME",
    VALIDATOR,
    Severity.ERROR,
    "the package has no name",
    hint="Set packageName.",
    bad="channels: [{name: stable, currentCSV: demo.v1.0.0}]",
    good=_GOOD + _BETA,
)
@_of_package
def name(package: PackageManifest) -> Iterator[tuple[FieldPath, str]]:
    """A package is installed by its name."""
    if not package.value.get("packageName"):
        yield ("packageName",), "packageName is empty"


@rule(
    "PKG-CHANNELS",
    VALIDATOR,
    Severity.ERROR,
    "the package has no channels",
    hint="List a channel at least, with name and currentCSV.",
    bad="packageName: demo\nchannels: []",
    good=_GOOD + _BETA,
)
@_of_package
def channels(package: PackageManifest) -> Iterator[tuple[FieldPath, str]]:
    """Who installs an operator subscribes to a channel of its package."""
    if not package.channels:
        yield ("channels",), "channels is empty"


@rule(
    "PKG-DEFAULT-EMPTY",
    VALIDATOR,
    Severity.ERROR,
    "the package has several channels, but no default channel",
    hint="Set defaultChannel to the name of one of the channels.",
    bad=_GOOD,
    good=_GOOD + _BETA,
)
@_of_package
def default_empty(package: PackageManifest) -> Iterator[tuple[FieldPath, str]]:
    """Who names no channel gets the default; a single channel is the default by itself."""
    if len(package.channels) > 1 and not package.default_channel:
        yield ("channels",), f"there are {len(package.channels)} channels, but defaultChannel is empty"


@rule(
    "PKG-CHANNEL-NAME",
    VALIDATOR,
    Severity.ERROR,
    "a channel has no name",
    hint="Name the channel.",
    bad="packageName: demo\nchannels: [{currentCSV: demo.v1.0.0}]",
    good=_GOOD + _BETA,
)
@_of_package
def channel_name(package: PackageManifest) -> Iterator[tuple[FieldPath, str]]:
    """A channel is subscribed to by its name."""
    for path, channel in package.channels:
        if not channel.get("name"):
            yield (*path, "name"), "the name of the channel is empty"


@rule(
    "PKG-CHANNEL-CSV",
    VALIDATOR,
    Severity.ERROR,
    "a channel has no current version",
    hint="Set currentCSV to the name of the ClusterServiceVersion at the head of the channel.",
    bad="packageName: demo\nchannels: [{name: stable}]",
    good=_GOOD + _BETA,
)
@_of_package
def channel_csv(package: PackageManifest) -> Iterator[tuple[FieldPath, str]]:
    """The versions of a channel are found from its current one, by what each replaces."""
    for path, channel in package.channels:
        if not channel.get("currentCSV"):
            yield (*path, "currentCSV"), f"the currentCSV of the channel {text(channel.get('name'))!r} is empty"


@rule(
    "PKG-CHANNEL-DUPLICATE",
    VALIDATOR,
    Severity.ERROR,
    "two channels have the same name",
    hint="Rename one of them, or remove it.",
    bad="channels: [{name: stable, currentCSV: demo.v1.0.0}, {name: stable, currentCSV: demo.v2.0.0}]",
    good="channels: [{name: stable, currentCSV: demo.v1.0.0}, {name: beta, currentCSV: demo.v2.0.0}]",
)
@_of_package
def channel_duplicate(package: PackageManifest) -> Iterator[tuple[FieldPath, str]]:
    """A channel is known by its name alone."""
    for number, (path, _) in enumerate(package.channels):
        if package.names[number] in package.names[:number]:
            yield (*path, "name"), f"there is a channel {package.names[number]!r} before"


@rule(
    "PKG-DEFAULT-UNKNOWN",
    VALIDATOR,
    Severity.ERROR,
    "the default channel is none of the channels",
    hint="Set defaultChannel to the name of one of the channels.",
    bad=f"{_GOOD}defaultChannel: alpha",
    good=_GOOD + _BETA,
)
@_of_package
def default_unknown(package: PackageManifest) -> Iterator[tuple[FieldPath, str]]:
    """Who names no channel would be subscribed to one that there is not."""
    if package.channels and package.default_channel and package.default_channel not in package.names:
        told = f"defaultChannel is {package.default_channel!r}, none of {', '.join(package.names)}"
        yield ("defaultChannel",), told
