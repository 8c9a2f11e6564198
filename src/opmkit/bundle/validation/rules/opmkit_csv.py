"""Our own rules for what a ClusterServiceVersion says of itself: names, versions, modes, icon, and unknown fields."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from opmkit.bundle.field_path import format_path
from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.icons import icon_data, image_problem
from opmkit.bundle.validation.compat import OPMKIT_ONLY
from opmkit.bundle.validation.csv_view import Csv, csv_check
from opmkit.bundle.validation.rule import rule
from opmkit.bundle.validation.rules.csv import INSTALL_MODES, NAME, REPLACES, name_problems
from opmkit.bundle.versions import VersionRange, strict_version, tolerant_version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from semver import Version

    from opmkit.bundle.field_path import FieldPath

VALIDATOR = "opmkit"
SKIPS: FieldPath = ("spec", "skips")
SKIP_RANGE: FieldPath = ("metadata", "annotations", "olm.skipRange")
API_VERSION = "operators.coreos.com/v1alpha1"
MODES = ("OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces")

_NAMED_VERSION = re.compile(r"v?(\d+\.\d+\.\d+.*)")


def _version(csv: Csv) -> Version:
    """Its version, 0.0.0 where there is none."""
    return tolerant_version(csv.spec.get("version", "") or "0.0.0")


def named_version(name: str) -> Version | None:
    """The version that the name of a ClusterServiceVersion ends with, after its first dot; None if it has none."""
    match = _NAMED_VERSION.fullmatch(name.partition(".")[2])
    try:
        return strict_version(match.group(1)) if match else None
    except ValueError:
        return None


@rule(
    "CSV-APIVERSION-UNKNOWN",
    VALIDATOR,
    Severity.ERROR,
    "a ClusterServiceVersion is of an API that there is not",
    hint=f"Set apiVersion: {API_VERSION}.",
    bad="apiVersion: operators.coreos.com/v1\nkind: ClusterServiceVersion",
    good=f"apiVersion: {API_VERSION}\nkind: ClusterServiceVersion",
    compat=OPMKIT_ONLY,
)
@csv_check
def api_version_unknown(csv: Csv) -> Iterator[Finding]:
    """There is one version of this API; a cluster refuses an object of any other."""
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
    """Without a version it counts as 0.0.0: no range selects it, and nothing tells it from the next one without."""
    if csv.is_unset("spec", "version") and "spec" in csv.decoded.value:
        yield Finding("spec.version is missing, or 0.0.0", path=("spec", "version"))


@rule(
    "CSV-NAME-VERSION",
    VALIDATOR,
    Severity.WARNING,
    "the name of a ClusterServiceVersion does not end with its version",
    hint="Name it PACKAGE.vVERSION, with the version of spec.version (PACKAGE-vVERSION-RELEASE if it has a release).",
    bad="metadata: {name: demo.v1.2.2}\nspec: {version: 1.2.3}",
    good="metadata: {name: demo.v1.2.3}\nspec: {version: 1.2.3}",
    compat=OPMKIT_ONLY,
)
@csv_check
def name_version(csv: Csv) -> Iterator[Finding]:
    """People and tools read the version from the name; where the two differ, the name was mostly forgotten."""
    version = csv.spec.get("version")
    if version and csv.name and not csv.spec.get("release"):
        plain = str(_version(csv)).partition("+")[0]
        if not csv.name.endswith((f".v{plain}", f".v{version}", f".v{_version(csv)}")):
            yield Finding(
                f"the name {csv.name!r} does not end with .v{plain}, the version", path=NAME, subject=csv.name
            )


@rule(
    "CSV-REPLACES-SELF",
    VALIDATOR,
    Severity.ERROR,
    "a ClusterServiceVersion replaces itself",
    hint="Set spec.replaces to the name of the version before, or remove it from the first version.",
    bad="metadata: {name: demo.v1.2.3}\nspec: {replaces: demo.v1.2.3}",
    good="metadata: {name: demo.v1.2.3}\nspec: {replaces: demo.v1.2.2}",
    compat=OPMKIT_ONLY,
)
@csv_check
def replaces_self(csv: Csv) -> Iterator[Finding]:
    """It would be an update to itself, which no catalog takes."""
    if csv.name and csv.spec.get("replaces") == csv.name:
        yield Finding(f"spec.replaces is {csv.name!r}, its own name", path=REPLACES, subject=csv.name)


@rule(
    "CSV-REPLACES-LATER",
    VALIDATOR,
    Severity.WARNING,
    "a ClusterServiceVersion replaces a later version",
    hint="Set spec.replaces to the name of the version before this one.",
    bad="metadata: {name: demo.v1.2.3}\nspec: {version: 1.2.3, replaces: demo.v1.3.0}",
    good="metadata: {name: demo.v1.3.0}\nspec: {version: 1.3.0, replaces: demo.v1.2.3}",
    compat=OPMKIT_ONLY,
)
@csv_check
def replaces_later(csv: Csv) -> Iterator[Finding]:
    """Updates would lead people to an older version, and by semantic versioning the other way."""
    replaces = csv.spec.get("replaces", "")
    other = named_version(replaces)
    if other is not None and csv.spec.get("version") and other.compare(_version(csv)) > 0:
        message = f"spec.replaces is {replaces!r}, which is later than {csv.spec['version']}"
        yield Finding(message, path=REPLACES, subject=replaces)


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
    """What is skipped is never installed."""
    for path, name in _skips(csv):
        if name and name == csv.name:
            yield Finding(f"{format_path(path)} is {name!r}, its own name", path=path, subject=name)


@rule(
    "CSV-SKIPS-DUPLICATE",
    VALIDATOR,
    Severity.WARNING,
    "a ClusterServiceVersion skips the same one twice",
    hint="Keep one of the entries.",
    bad="spec: {skips: [demo.v1.2.2, demo.v1.2.2]}",
    good="spec: {skips: [demo.v1.2.2, demo.v1.2.1]}",
    compat=OPMKIT_ONLY,
)
@csv_check
def skips_duplicate(csv: Csv) -> Iterator[Finding]:
    """It changes nothing, so another name was probably meant."""
    seen: set[str] = set()
    for path, name in _skips(csv):
        if name in seen:
            yield Finding(f"{format_path(path)} is {name!r}, which is listed before already", path=path, subject=name)
        seen.add(name)


@rule(
    "CSV-SKIPS-FORMAT",
    VALIDATOR,
    Severity.WARNING,
    "what is skipped is no name of a ClusterServiceVersion",
    hint="Write the metadata.name of the version to be skipped; a range of versions belongs to olm.skipRange.",
    bad="spec: {skips: ['<1.2.3']}",
    good="metadata: {annotations: {olm.skipRange: '<1.2.3'}}",
    compat=OPMKIT_ONLY,
)
@csv_check
def skips_format(csv: Csv) -> Iterator[Finding]:
    """What is skipped is found by its name; a text that no ClusterServiceVersion may have for a name finds none."""
    for path, name in _skips(csv):
        if problems := name_problems(name):
            yield Finding(
                f"{format_path(path)} is {name!r}, no such name: {'; '.join(problems)}", path=path, subject=name
            )


def _skips(csv: Csv) -> list[tuple[FieldPath, str]]:
    return [((*SKIPS, number), name) for number, name in enumerate(csv.spec.get("skips", ()))]


def _skip_range(csv: Csv) -> VersionRange | None:
    """Its range, None if it has none or one that can't be read."""
    try:
        return VersionRange.parse(csv.annotations["olm.skipRange"])
    except (KeyError, ValueError):
        return None


@rule(
    "CSV-SKIPRANGE-INVALID",
    VALIDATOR,
    Severity.ERROR,
    "olm.skipRange is no range of versions",
    hint="Write full versions with operators before them and spaces between: >=1.0.0 <1.2.3.",
    bad="annotations: {olm.skipRange: '>=1.0, <1.2.3'}",
    good="annotations: {olm.skipRange: '>=1.0.0 <1.2.3'}",
    compat=OPMKIT_ONLY,
)
@csv_check
def skip_range_invalid(csv: Csv) -> Iterator[Finding]:
    """A range that can't be read skips nothing, so that people on the versions meant are left without this update."""
    text = csv.annotations.get("olm.skipRange")
    if text is None:
        return
    try:
        complete = VersionRange.parse(text).is_complete
        problem = "" if complete else "there is nothing between two ||"
    except ValueError as error:
        problem = str(error)
    if problem:
        yield Finding(f"olm.skipRange is {text!r}, which is no range: {problem}", path=SKIP_RANGE, subject=text)


@rule(
    "CSV-SKIPRANGE-DROPPED",
    VALIDATOR,
    Severity.WARNING,
    "part of olm.skipRange counts for nothing",
    hint="Write both ends with operators, without a hyphen or a comma: >=1.0.0 <=1.2.3.",
    bad="annotations: {olm.skipRange: 1.0.0 - 1.2.3}",
    good="annotations: {olm.skipRange: '>=1.0.0 <=1.2.3'}",
    compat=OPMKIT_ONLY,
)
@csv_check
def skip_range_dropped(csv: Csv) -> Iterator[Finding]:
    """A single character between blanks is passed over. So ``1.0.0 - 1.2.3`` is both versions at once: none."""
    read = _skip_range(csv)
    if read is not None and read.dropped:
        text, dropped = csv.annotations["olm.skipRange"], " ".join(read.dropped)
        yield Finding(f"olm.skipRange is {text!r}, of which {dropped!r} is passed over", path=SKIP_RANGE, subject=text)


@rule(
    "CSV-SKIPRANGE-SELF",
    VALIDATOR,
    Severity.WARNING,
    "olm.skipRange holds the version itself",
    hint="End the range below the version itself: <1.2.3 for version 1.2.3.",
    bad="metadata: {annotations: {olm.skipRange: '>=1.0.0 <=1.2.3'}}\nspec: {version: 1.2.3}",
    good="metadata: {annotations: {olm.skipRange: '>=1.0.0 <1.2.3'}}\nspec: {version: 1.2.3}",
    compat=OPMKIT_ONLY,
)
@csv_check
def skip_range_self(csv: Csv) -> Iterator[Finding]:
    """The range says from which versions one can update to this one: itself, and mostly later ones, are not meant."""
    read = _skip_range(csv)
    if read is not None and csv.spec.get("version") and _version(csv) in read:
        text = csv.annotations["olm.skipRange"]
        yield Finding(f"olm.skipRange {text!r} holds {csv.spec['version']} itself", path=SKIP_RANGE, subject=text)


# What else it says


@rule(
    "CSV-INSTALLMODES-UNKNOWN",
    VALIDATOR,
    Severity.WARNING,
    "an install mode is none that there is",
    hint=f"Use {', '.join(MODES)}.",
    bad="installModes: [{type: AllNamespace, supported: true}]",
    good="installModes: [{type: AllNamespaces, supported: true}]",
    compat=OPMKIT_ONLY,
)
@csv_check
def install_modes_unknown(csv: Csv) -> Iterator[Finding]:
    """Modes that nobody knows are passed over, so that the operator can't be installed as its author meant."""
    for path, mode in csv.entries(INSTALL_MODES):
        kind = mode.get("type", "")
        if kind not in MODES and not csv.decoded.has_mismatch(*path, "type"):
            yield Finding(f"the install mode {kind!r} is none of {', '.join(MODES)}", path=path, subject=kind)


@rule(
    "CSV-UNKNOWN-FIELD",
    VALIDATOR,
    Severity.WARNING,
    "a ClusterServiceVersion has a field that there is not",
    hint="Correct its name or place (case counts), or remove it.",
    bad="spec: {miniKubeVersion: 1.27.0}",
    good="spec: {minKubeVersion: 1.27.0}",
    compat=OPMKIT_ONLY,
)
@csv_check
def unknown_field(csv: Csv) -> Iterator[Finding]:
    """What nobody knows is dropped without a word, and what was meant by it is missing."""
    for field in csv.decoded.unknown:
        hint = f"; {field.nearest} is near it" if field.nearest else ""
        where = format_path(field.path)
        yield Finding(f"there is no field {where}{hint}", path=field.path, subject=where)


@rule(
    "CSV-ICON-DATA",
    VALIDATOR,
    Severity.WARNING,
    "an icon can't be decoded",
    hint="Encode the image with base64 alone, for instance: base64 -w0 icon.svg.",
    bad="icon: [{base64data: 'data:image/png;base64,iVBORw0KGgo=', mediatype: image/png}]",
    good="icon: [{base64data: iVBORw0KGgo=, mediatype: image/png}]",
    compat=OPMKIT_ONLY,
)
@csv_check
def icon_undecodable(csv: Csv) -> Iterator[Finding]:
    """Consoles show a broken image, or none."""
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
    "an icon is not the kind of image that it claims to be",
    hint="Set mediatype to that of the image, or encode the right file.",
    bad="icon: [{base64data: PHN2Zy8+, mediatype: image/png}]",
    good="icon: [{base64data: PHN2Zy8+, mediatype: image/svg+xml}]",
    compat=OPMKIT_ONLY,
)
@csv_check
def icon_image(csv: Csv) -> Iterator[Finding]:
    """Browsers go by the media type, and show nothing if the data is of another."""
    for path, entry in csv.entries(("spec", "icon")):
        media_type = entry.get("mediatype", "")
        try:
            problem = image_problem(icon_data(entry.get("base64data", "")), media_type)
        except ValueError:
            continue  # it has a rule of its own
        if problem:
            yield Finding(f"the icon is no {media_type}: {problem}", path=(*path, "mediatype"), subject=media_type)
