"""Rules of the validator ``opmkit``: names, versions, upgrade edges, install modes, icons and unknown fields."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from opmkit.bundle import labels
from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.icons import icon_data, image_problem
from opmkit.bundle.validation.compat import OPMKIT_ONLY
from opmkit.bundle.validation.csv_view import Csv, csv_check
from opmkit.bundle.validation.rule import rule
from opmkit.bundle.validation.rules.csv import INSTALL_MODES, NAME, REPLACES, name_problems
from opmkit.bundle.versions import VersionRange, strict_version, tolerant_version
from opmkit.documents.fields import format_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from semver import Version

    from opmkit.documents.fields import FieldPath

VALIDATOR = "opmkit"
SKIPS: FieldPath = ("spec", "skips")
SKIP_RANGE: FieldPath = ("metadata", "annotations", "olm.skipRange")
API_VERSION = "operators.coreos.com/v1alpha1"
MODES = ("OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces")

_NAMED_VERSION = re.compile(r"v?(\d+\.\d+\.\d+.*)")


def _version(csv: Csv) -> Version:
    """Return the version, by default 0.0.0."""
    return tolerant_version(csv.spec.get("version", "") or "0.0.0")


def named_version(name: str) -> Version | None:
    """Return the version after the first dot of a name such as ``demo.v1.2.3``, or None."""
    match = _NAMED_VERSION.fullmatch(name.partition(".")[2])
    try:
        return strict_version(match.group(1)) if match else None
    except ValueError:
        return None


@rule(
    "CSV-APIVERSION-UNKNOWN",
    VALIDATOR,
    Severity.WARNING,
    "unknown apiVersion of a ClusterServiceVersion",
    hint=f"Set apiVersion: {API_VERSION}.",
    bad="apiVersion: operators.coreos.com/v1\nkind: ClusterServiceVersion",
    good=f"apiVersion: {API_VERSION}\nkind: ClusterServiceVersion",
    compat=OPMKIT_ONLY,
)
@csv_check
def api_version_unknown(csv: Csv) -> Iterator[Finding]:
    """The API has only this version. OLM installs bundles with any other as if it were this one; kubectl fails."""
    version = csv.decoded.value.get("apiVersion", API_VERSION)
    if version != API_VERSION:
        yield Finding(f"apiVersion is {version!r}, not {API_VERSION}", path=("apiVersion",), subject=version)


@rule(
    "CSV-VERSION-MISSING",
    VALIDATOR,
    Severity.WARNING,
    "a ClusterServiceVersion has no version",
    hint="Set spec.version to the version of the operator, such as 1.2.3.",
    bad="metadata: {name: demo.v1.2.3}\nspec: {}",
    good="metadata: {name: demo.v1.2.3}\nspec: {version: 1.2.3}",
    compat=OPMKIT_ONLY,
)
@csv_check
def version_missing(csv: Csv) -> Iterator[Finding]:
    """A missing version is read as 0.0.0, so no range selects it and all bundles without a version are equal."""
    if csv.is_unset("spec", "version") and "spec" in csv.decoded.value:
        yield Finding("spec.version is missing or 0.0.0", path=("spec", "version"))


@rule(
    "CSV-NAME-VERSION",
    VALIDATOR,
    Severity.WARNING,
    "the name of a ClusterServiceVersion does not end with its version",
    hint="Name it PACKAGE.vVERSION with the version in spec.version (PACKAGE-vVERSION-RELEASE if it has a release).",
    bad="metadata: {name: demo.v1.2.2}\nspec: {version: 1.2.3}",
    good="metadata: {name: demo.v1.2.3}\nspec: {version: 1.2.3}",
    compat=OPMKIT_ONLY,
)
@csv_check
def name_version(csv: Csv) -> Iterator[Finding]:
    """Tools read the version from the name. If they differ, the name was probably not updated."""
    version = csv.spec.get("version")
    if version and csv.name and not csv.spec.get("release"):
        plain = str(_version(csv)).partition("+")[0]
        if not csv.name.endswith((f".v{plain}", f".v{version}", f".v{_version(csv)}")):
            yield Finding(f"name {csv.name!r} does not end with the version, .v{plain}", path=NAME, subject=csv.name)


@rule(
    "CSV-REPLACES-SELF",
    VALIDATOR,
    Severity.ERROR,
    "a ClusterServiceVersion replaces itself",
    hint="Set spec.replaces to the name of the previous version, or remove it from the first version.",
    bad="metadata: {name: demo.v1.2.3}\nspec: {replaces: demo.v1.2.3}",
    good="metadata: {name: demo.v1.2.3}\nspec: {replaces: demo.v1.2.2}",
    compat=OPMKIT_ONLY,
)
@csv_check
def replaces_self(csv: Csv) -> Iterator[Finding]:
    """Catalogs reject an upgrade from a version to itself."""
    if csv.name and csv.spec.get("replaces") == csv.name:
        yield Finding(f"spec.replaces is {csv.name!r}, its own name", path=REPLACES, subject=csv.name)


@rule(
    "CSV-REPLACES-LATER",
    VALIDATOR,
    Severity.WARNING,
    "a ClusterServiceVersion replaces a later version",
    hint="Set spec.replaces to the name of the previous version.",
    bad="metadata: {name: demo.v1.2.3}\nspec: {version: 1.2.3, replaces: demo.v1.3.0}",
    good="metadata: {name: demo.v1.3.0}\nspec: {version: 1.3.0, replaces: demo.v1.2.3}",
    compat=OPMKIT_ONLY,
)
@csv_check
def replaces_later(csv: Csv) -> Iterator[Finding]:
    """The upgrade would install an older version."""
    replaces = csv.spec.get("replaces", "")
    other = named_version(replaces)
    if other is not None and csv.spec.get("version") and other.compare(_version(csv)) > 0:
        message = f"spec.replaces is {replaces!r}, which is later than {csv.spec['version']}"
        yield Finding(message, path=REPLACES, subject=replaces)


@rule(
    "CSV-REPLACES-VERSION",
    VALIDATOR,
    Severity.WARNING,
    "spec.replaces is a version instead of a name",
    hint="Set spec.replaces to the metadata.name of the previous version, such as demo.v1.2.2.",
    bad="metadata: {name: demo.v1.2.3}\nspec: {replaces: 1.2.2}",
    good="metadata: {name: demo.v1.2.3}\nspec: {replaces: demo.v1.2.2}",
    compat=OPMKIT_ONLY,
)
@csv_check
def replaces_version(csv: Csv) -> Iterator[Finding]:
    """Catalogs look for a bundle of this name. Without one, installed versions are not updated."""
    replaces = csv.spec.get("replaces", "")
    if _NAMED_VERSION.fullmatch(replaces):
        yield Finding(f"spec.replaces is {replaces!r}, a version instead of a name", path=REPLACES, subject=replaces)


@rule(
    "CSV-SUBSTITUTES-SELF",
    VALIDATOR,
    Severity.ERROR,
    "a ClusterServiceVersion substitutes for itself",
    hint="Set olm.substitutesFor to the name of the version that this one takes the place of, or remove it.",
    bad="metadata: {name: demo.v1.2.3, annotations: {olm.substitutesFor: demo.v1.2.3}}",
    good="metadata: {name: demo.v1.2.3-1, annotations: {olm.substitutesFor: demo.v1.2.3}}",
    compat=OPMKIT_ONLY,
)
@csv_check
def substitutes_self(csv: Csv) -> Iterator[Finding]:
    """Catalogs reject a bundle that substitutes for itself; some tools never finish with it."""
    if csv.name and csv.annotations.get(labels.SUBSTITUTES_FOR) == csv.name:
        message = f"{labels.SUBSTITUTES_FOR} is {csv.name!r}, its own name"
        yield Finding(message, path=("metadata", "annotations", labels.SUBSTITUTES_FOR), subject=csv.name)


@rule(
    "CSV-SKIPS-SELF",
    VALIDATOR,
    Severity.ERROR,
    "a ClusterServiceVersion skips itself",
    hint="Remove its own name from spec.skips.",
    bad="metadata: {name: demo.v1.2.3}\nspec: {skips: [demo.v1.2.3]}",
    good="metadata: {name: demo.v1.2.3}\nspec: {skips: [demo.v1.2.2]}",
    compat=OPMKIT_ONLY,
)
@csv_check
def skips_self(csv: Csv) -> Iterator[Finding]:
    """A version that is skipped is never installed."""
    for path, name in _skips(csv):
        if name and name == csv.name:
            yield Finding(f"{format_path(path)} is {name!r}, its own name", path=path, subject=name)


@rule(
    "CSV-SKIPS-DUPLICATE",
    VALIDATOR,
    Severity.WARNING,
    "duplicate entry in spec.skips",
    hint="Keep one of the entries.",
    bad="spec: {skips: [demo.v1.2.2, demo.v1.2.2]}",
    good="spec: {skips: [demo.v1.2.2, demo.v1.2.1]}",
    compat=OPMKIT_ONLY,
)
@csv_check
def skips_duplicate(csv: Csv) -> Iterator[Finding]:
    """The duplicate has no effect; probably another name was intended."""
    seen: set[str] = set()
    for path, name in _skips(csv):
        if name in seen:
            yield Finding(f"{format_path(path)} is {name!r}, which is listed twice", path=path, subject=name)
        seen.add(name)


@rule(
    "CSV-SKIPS-FORMAT",
    VALIDATOR,
    Severity.WARNING,
    "invalid name in spec.skips",
    hint="Write the metadata.name of the version to skip; set a range in the annotation olm.skipRange.",
    bad="spec: {skips: ['<1.2.3']}",
    good="metadata: {annotations: {olm.skipRange: '<1.2.3'}}",
    compat=OPMKIT_ONLY,
)
@csv_check
def skips_format(csv: Csv) -> Iterator[Finding]:
    """Entries of ``spec.skips`` are names of other ClusterServiceVersions, so they must be valid names."""
    for path, name in _skips(csv):
        if problems := name_problems(name):
            yield Finding(
                f"{format_path(path)} is {name!r}, no such name: {'; '.join(problems)}", path=path, subject=name
            )


def _skips(csv: Csv) -> list[tuple[FieldPath, str]]:
    return [((*SKIPS, number), name) for number, name in enumerate(csv.spec.get("skips", ()))]


def _skip_range(csv: Csv) -> VersionRange | None:
    """Return the skip range, None if it is missing or invalid."""
    try:
        return VersionRange.parse(csv.annotations["olm.skipRange"])
    except (KeyError, ValueError):
        return None


@rule(
    "CSV-SKIPRANGE-INVALID",
    VALIDATOR,
    Severity.ERROR,
    "invalid olm.skipRange",
    hint="Write full versions with operators, separated by spaces: >=1.0.0 <1.2.3.",
    bad="annotations: {olm.skipRange: '>=1.0, <1.2.3'}",
    good="annotations: {olm.skipRange: '>=1.0.0 <1.2.3'}",
    compat=OPMKIT_ONLY,
)
@csv_check
def skip_range_invalid(csv: Csv) -> Iterator[Finding]:
    """An invalid range skips nothing, so the versions in it get no upgrade to this one."""
    text = csv.annotations.get("olm.skipRange")
    if not text:  # operator-sdk scaffolds an empty one
        return
    try:
        complete = VersionRange.parse(text).is_complete
        problem = "" if complete else "an alternative between || is empty"
    except ValueError as error:
        problem = str(error)
    if problem:
        yield Finding(f"invalid olm.skipRange {text!r}: {problem}", path=SKIP_RANGE, subject=text)


@rule(
    "CSV-SKIPRANGE-DROPPED",
    VALIDATOR,
    Severity.WARNING,
    "part of olm.skipRange is ignored",
    hint="Write both ends with operators, without a hyphen or a comma: >=1.0.0 <=1.2.3.",
    bad="annotations: {olm.skipRange: 1.0.0 - 1.2.3}",
    good="annotations: {olm.skipRange: '>=1.0.0 <=1.2.3'}",
    compat=OPMKIT_ONLY,
)
@csv_check
def skip_range_dropped(csv: Csv) -> Iterator[Finding]:
    """Single characters between spaces are ignored, so ``1.0.0 - 1.2.3`` requires both versions and is empty."""
    skip_range = _skip_range(csv)
    if skip_range is not None and skip_range.dropped:
        text, dropped = csv.annotations["olm.skipRange"], " ".join(skip_range.dropped)
        yield Finding(f"olm.skipRange is {text!r}, of which {dropped!r} is ignored", path=SKIP_RANGE, subject=text)


@rule(
    "CSV-SKIPRANGE-SELF",
    VALIDATOR,
    Severity.WARNING,
    "olm.skipRange contains the bundle's own version",
    hint="End the range below the bundle's version: <1.2.3 for version 1.2.3.",
    bad="metadata: {annotations: {olm.skipRange: '>=1.0.0 <=1.2.3'}}\nspec: {version: 1.2.3}",
    good="metadata: {annotations: {olm.skipRange: '>=1.0.0 <1.2.3'}}\nspec: {version: 1.2.3}",
    compat=OPMKIT_ONLY,
)
@csv_check
def skip_range_self(csv: Csv) -> Iterator[Finding]:
    """The range lists the versions that upgrade to this one, which should be earlier versions."""
    skip_range = _skip_range(csv)
    if skip_range is not None and csv.spec.get("version") and _version(csv) in skip_range:
        text = csv.annotations["olm.skipRange"]
        yield Finding(
            f"olm.skipRange {text!r} contains the version {csv.spec['version']}",
            path=SKIP_RANGE,
            subject=text,
        )


@rule(
    "CSV-INSTALLMODES-UNKNOWN",
    VALIDATOR,
    Severity.WARNING,
    "unknown install mode",
    hint=f"Use {', '.join(MODES)}.",
    bad="installModes: [{type: AllNamespace, supported: true}]",
    good="installModes: [{type: AllNamespaces, supported: true}]",
    compat=OPMKIT_ONLY,
)
@csv_check
def install_modes_unknown(csv: Csv) -> Iterator[Finding]:
    """Unknown install modes are ignored, so the operator cannot be installed as intended."""
    for path, mode in csv.entries(INSTALL_MODES):
        kind = mode.get("type", "")
        if kind not in MODES and not csv.decoded.has_mismatch(*path, "type"):
            yield Finding(f"install mode {kind!r} is not one of {', '.join(MODES)}", path=path, subject=kind)


@rule(
    "CSV-UNKNOWN-FIELD",
    VALIDATOR,
    Severity.WARNING,
    "unknown field in a ClusterServiceVersion",
    hint="Correct the name (case matters) or the position of the field, or remove it.",
    bad="spec: {miniKubeVersion: 1.27.0}",
    good="spec: {minKubeVersion: 1.27.0}",
    compat=OPMKIT_ONLY,
)
@csv_check
def unknown_field(csv: Csv) -> Iterator[Finding]:
    """Unknown fields are silently dropped, so the intended value is missing."""
    for field in csv.decoded.unknown:
        suggestion = f"; did you mean {field.nearest}?" if field.nearest else ""
        name = format_path(field.path)
        yield Finding(f"unknown field {name}{suggestion}", path=field.path, subject=name)


@rule(
    "CSV-ICON-DATA",
    VALIDATOR,
    Severity.WARNING,
    "cannot decode an icon",
    hint="Encode the image as base64 without a data URL prefix, for example: base64 -w0 icon.svg.",
    bad="icon: [{base64data: 'data:image/png;base64,iVBORw0KGgo=', mediatype: image/png}]",
    good="icon: [{base64data: iVBORw0KGgo=, mediatype: image/png}]",
    compat=OPMKIT_ONLY,
)
@csv_check
def icon_undecodable(csv: Csv) -> Iterator[Finding]:
    """Consoles show a broken image or none."""
    for path, entry in csv.entries(("spec", "icon")):
        try:
            icon_data(entry.get("base64data", ""))
        except ValueError as error:
            if not csv.decoded.has_mismatch(*path, "base64data"):
                yield Finding(f"the data of the icon {error}", path=(*path, "base64data"))


@rule(
    "CSV-ICON-IMAGE",
    VALIDATOR,
    Severity.WARNING,
    "the media type of an icon does not match its data",
    hint="Set mediatype to the type of the image, or encode the right file.",
    bad="icon: [{base64data: PHN2Zy8+, mediatype: image/png}]",
    good="icon: [{base64data: PHN2Zy8+, mediatype: image/svg+xml}]",
    compat=OPMKIT_ONLY,
)
@csv_check
def icon_image(csv: Csv) -> Iterator[Finding]:
    """Browsers use the media type and show nothing if the data has another type."""
    for path, entry in csv.entries(("spec", "icon")):
        media_type = entry.get("mediatype", "")
        try:
            problem = image_problem(icon_data(entry.get("base64data", "")), media_type)
        except ValueError:
            continue  # reported by CSV-ICON-DATA
        if problem:
            yield Finding(f"not a valid {media_type}: {problem}", path=(*path, "mediatype"), subject=media_type)
