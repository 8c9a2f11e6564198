"""Rules of the validator ``packagemanifest``: the older format, with a directory per package and version."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from opmkit.bundle.api_types.decode import PACKAGE_MANIFEST, DecodeMode, decode_struct
from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.validation.loading import read_finding, type_findings
from opmkit.bundle.validation.rule import rule
from opmkit.documents.lenient import mapping, members, text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from opmkit.bundle.validation.bundle_view import BundleView, ManifestView
    from opmkit.bundle.validation.rule import Check
    from opmkit.documents.fields import FieldPath

VALIDATOR = "packagemanifest"

_GOOD = (
    "packageName: demo\nchannels:\n- {name: stable, currentCSV: demo.v1.0.0}\n- {name: beta, currentCSV: demo.v2.0.0}\n"
)
_BETA = "defaultChannel: stable"


class PackageManifestView(Struct, frozen=True):
    """A package manifest: its file and its fields; values of the wrong type are absent."""

    file: ManifestView
    value: Mapping[str, Any]

    @property
    def channels(self) -> list[tuple[FieldPath, Mapping[str, Any]]]:
        """The channels with their paths."""
        return list(members(self.value.get("channels"), ("channels",)))

    @property
    def names(self) -> list[str]:
        """The names of the channels."""
        return [text(channel.get("name")) for _, channel in self.channels]

    @property
    def default_channel(self) -> str:
        """The default channel, or "" if it has none."""
        return text(self.value.get("defaultChannel"))


class _Package(Struct, frozen=True):
    """The package manifests below a directory, and the findings of reading them."""

    manifests: list[PackageManifestView] = []
    findings: list[Finding] = []


def _read(bundle: BundleView) -> _Package:
    """Read the package manifests among all files at any depth that are not hidden."""
    package = bundle.memo.get(_read)
    if package is None:
        package = bundle.memo[_read] = _Package()
        for file in bundle.files_in("", recursive=True):
            if not any(part.startswith(".") for part in file.path.split("/")):
                _read_file(file, package)
    return cast("_Package", package)


def _read_file(file: ManifestView, package: _Package) -> None:
    if finding := read_finding(file):
        package.findings.append(finding)
        return
    mode = DecodeMode.JSON if file.content.is_json else DecodeMode.YAML
    decoded = decode_struct(file.content.value or {}, PACKAGE_MANIFEST, mode)
    package.findings.extend(list(type_findings(file, decoded))[:1])
    if not decoded.mismatches and decoded.value.keys() & {"packageName", "channels", "defaultChannel"}:
        package.manifests.append(PackageManifestView(file, mapping(decoded.value)))


def _package_check(check_package: Callable[[PackageManifestView], Iterable[tuple[FieldPath, str]]]) -> Check:
    """Turn a check of a package manifest, which yields paths and messages, into a check of the bundle's first one."""

    @wraps(check_package)
    def check(bundle: BundleView) -> Iterator[Finding]:
        for package in _read(bundle).manifests[:1]:
            for path, message in check_package(package):
                yield Finding(message, package.file.path, path, subject=text(package.value.get("packageName")))

    return cast("Check", check)


@rule(
    "LOAD-PACKAGE-DECODE",
    VALIDATOR,
    Severity.ERROR,
    "cannot read a file of a package",
    hint="Correct the YAML, or move the file out of the package.",
    bad="packageName: [demo]",
    good="packageName: demo",
)
def package_decode(bundle: BundleView) -> Iterator[Finding]:
    """Any file below the directory can be the package manifest, so all must be mappings in YAML or JSON."""
    yield from _read(bundle).findings


@rule(
    "LOAD-MULTIPLE-PACKAGE",
    VALIDATOR,
    Severity.ERROR,
    "several package manifests",
    hint="Keep one, and move other packages to their own directories.",
    bad="demo/demo.package.yaml\ndemo/other.package.yaml",
    good="demo/demo.package.yaml\nother/other.package.yaml",
)
def several_packages(bundle: BundleView) -> Iterator[Finding]:
    """A directory contains one package. Its manifest is the file with packageName, channels or defaultChannel."""
    paths = [manifest.file.path for manifest in _read(bundle).manifests]
    for path in paths[1:]:
        yield Finding(f"both {paths[0]} and {path} are package manifests", path)


@rule(
    "PKG-NAME",
    VALIDATOR,
    Severity.ERROR,
    "missing package name",
    hint="Set packageName.",
    bad="channels: [{name: stable, currentCSV: demo.v1.0.0}]",
    good=_GOOD + _BETA,
)
@_package_check
def name(package: PackageManifestView) -> Iterator[tuple[FieldPath, str]]:
    """Packages are installed by name."""
    if not package.value.get("packageName"):
        yield ("packageName",), "packageName is empty"


@rule(
    "PKG-CHANNELS",
    VALIDATOR,
    Severity.ERROR,
    "missing channels",
    hint="Add at least one channel with name and currentCSV.",
    bad="packageName: demo\nchannels: []",
    good=_GOOD + _BETA,
)
@_package_check
def channels(package: PackageManifestView) -> Iterator[tuple[FieldPath, str]]:
    """Operators are installed from a channel of their package."""
    if not package.channels:
        yield ("channels",), "channels is empty"


@rule(
    "PKG-DEFAULT-EMPTY",
    VALIDATOR,
    Severity.ERROR,
    "missing default channel",
    hint="Set defaultChannel to the name of one of the channels.",
    bad=_GOOD,
    good=_GOOD + _BETA,
)
@_package_check
def default_empty(package: PackageManifestView) -> Iterator[tuple[FieldPath, str]]:
    """Subscriptions without a channel use the default channel, which is optional only for a single channel."""
    if len(package.channels) > 1 and not package.default_channel:
        yield ("channels",), f"there are {len(package.channels)} channels, but defaultChannel is empty"


@rule(
    "PKG-CHANNEL-NAME",
    VALIDATOR,
    Severity.ERROR,
    "missing name of a channel",
    hint="Set the name of the channel.",
    bad="packageName: demo\nchannels: [{currentCSV: demo.v1.0.0}]",
    good=_GOOD + _BETA,
)
@_package_check
def channel_name(package: PackageManifestView) -> Iterator[tuple[FieldPath, str]]:
    """Subscriptions select a channel by name."""
    for path, channel in package.channels:
        if not channel.get("name"):
            yield (*path, "name"), "the name of a channel is empty"


@rule(
    "PKG-CHANNEL-CSV",
    VALIDATOR,
    Severity.ERROR,
    "missing head of a channel",
    hint="Set currentCSV to the name of the ClusterServiceVersion at the head of the channel.",
    bad="packageName: demo\nchannels: [{name: stable}]",
    good=_GOOD + _BETA,
)
@_package_check
def channel_csv(package: PackageManifestView) -> Iterator[tuple[FieldPath, str]]:
    """A channel consists of its head and the versions that are replaced from there."""
    for path, channel in package.channels:
        if not channel.get("currentCSV"):
            yield (*path, "currentCSV"), f"currentCSV of channel {text(channel.get('name'))!r} is empty"


@rule(
    "PKG-CHANNEL-DUPLICATE",
    VALIDATOR,
    Severity.ERROR,
    "duplicate channel",
    hint="Rename or remove one of them.",
    bad="channels: [{name: stable, currentCSV: demo.v1.0.0}, {name: stable, currentCSV: demo.v2.0.0}]",
    good="channels: [{name: stable, currentCSV: demo.v1.0.0}, {name: beta, currentCSV: demo.v2.0.0}]",
)
@_package_check
def channel_duplicate(package: PackageManifestView) -> Iterator[tuple[FieldPath, str]]:
    """Channels are identified by their names."""
    for number, (path, _) in enumerate(package.channels):
        if package.names[number] in package.names[:number]:
            yield (*path, "name"), f"channel {package.names[number]!r} is listed twice"


@rule(
    "PKG-DEFAULT-UNKNOWN",
    VALIDATOR,
    Severity.ERROR,
    "the default channel is not one of the channels",
    hint="Set defaultChannel to the name of one of the channels.",
    bad=f"{_GOOD}defaultChannel: alpha",
    good=_GOOD + _BETA,
)
@_package_check
def default_unknown(package: PackageManifestView) -> Iterator[tuple[FieldPath, str]]:
    """Subscriptions without a channel use the default channel, so it must exist."""
    if package.channels and package.default_channel and package.default_channel not in package.names:
        message = f"defaultChannel is {package.default_channel!r}, not one of {', '.join(package.names)}"
        yield ("defaultChannel",), message
