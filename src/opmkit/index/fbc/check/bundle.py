"""The rules of one bundle of a file-based catalog: its name, version, images and properties."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from opmkit.bundle.api_types.decode import decode_struct
from opmkit.bundle.api_types.scalars import DecodeMode
from opmkit.bundle.errors import InvalidDocument
from opmkit.bundle.field_path import format_path
from opmkit.bundle.fields import member
from opmkit.bundle.versions import strict_version
from opmkit.imagetools.errors import InvalidReference
from opmkit.imagetools.reference import Reference
from opmkit.index.fbc.base64text import decode_base64
from opmkit.index.fbc.blobs import BUNDLE_OBJECT, CSV_METADATA, PACKAGE
from opmkit.index.fbc.findings import Issue

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opmkit.bundle.json_value import JsonValue
    from opmkit.index.fbc.blobs import BlobProperty, BundleBlob

MAX_RELEASE = 20
"""Characters that the release of a bundle may have."""

_TYPED = (PACKAGE, "olm.package.required", "olm.gvk", "olm.gvk.required", "olm.channel", CSV_METADATA)


def check_bundle(bundle: BundleBlob) -> Iterator[Issue]:
    """All that is wrong with a bundle taken by itself."""
    if not bundle.name:
        yield Issue("name must be set", "Give it the name of its ClusterServiceVersion, such as op.v1.0.0.")
    yield from _image_faults(bundle)
    for number, each in enumerate(bundle.properties):
        for told in _property_faults(each):
            yield told._replace(message=f'parse property[{number}] of type "{each.type}": {told.message}')
    yield from _package_faults(bundle)


def bundle_version(bundle: BundleBlob) -> str:
    """Return the version; "" unless exactly one `olm.package` property has it."""
    return version_and_release(bundle)[0]


def version_with_release(bundle: BundleBlob) -> str:
    """Return ``VERSION`` or ``VERSION-RELEASE``; "" unless exactly one `olm.package` property has it."""
    version, release = version_and_release(bundle)
    return f"{version}-{release}" if release else version


def version_and_release(bundle: BundleBlob) -> tuple[str, str]:
    """Return the version and the release, both "" unless there is exactly one `olm.package` property."""
    values = list(_package_values(bundle))
    return (_text(values[0], "version"), _text(values[0], "release")) if len(values) == 1 else ("", "")


def _package_values(bundle: BundleBlob) -> Iterator[Mapping[str, JsonValue]]:
    """The values of the properties that say which package and version it is."""
    return (value if isinstance(value, dict) else {} for value in bundle.property_values(PACKAGE))


def _text(value: Mapping[str, JsonValue], name: str) -> str:
    text = member(value, name)
    return text if isinstance(text, str) else ""


def _image_faults(bundle: BundleBlob) -> Iterator[Issue]:
    if not bundle.image and not any(True for _ in bundle.property_values(BUNDLE_OBJECT)):
        yield Issue("bundle image must be set", f"Name its image, or embed its objects as {BUNDLE_OBJECT} properties.")
    images = [("image", bundle.image)]
    images += [(f"relatedImages[{number}].image", one.image) for number, one in enumerate(bundle.related_images)]
    for where, image in images:
        if image and (problem := _reference_problem(image)):
            yield Issue(f"{where}: {problem[0]}", problem[1], since="1.64")


def _reference_problem(image: str) -> tuple[str, str] | None:
    for start, kind in (("docker://", "a transport"), ("[", "an IPv6 address")):
        if image.startswith(start):
            return f"invalid image reference {image!r}: {kind} is not understood here", "Write HOST[:PORT]/NAME[:TAG]."
    try:
        Reference.parse(image)
    except InvalidReference as error:
        return error.message, error.advice
    return None


def _property_faults(each: BlobProperty) -> Iterator[Issue]:
    if each.value is None:
        return
    if each.type == BUNDLE_OBJECT:
        yield from _object_faults(each.value)
    elif each.type in _TYPED:
        since = "1.28" if each.type == CSV_METADATA else ""
        for fault in decode_struct(each.value, each.type, DecodeMode.REWRITTEN).mismatches:
            yield Issue(f"{format_path(('value', *fault.path))} {fault.problem}", fault.hint, since)


def _object_faults(value: JsonValue) -> Iterator[Issue]:
    """An object is base64 of JSON or YAML."""
    encoded = value.get("data") if isinstance(value, dict) else None
    if not isinstance(encoded, str) or (data := decode_base64(encoded)) is None:
        for fault in decode_struct(value, BUNDLE_OBJECT, DecodeMode.REWRITTEN).mismatches:
            yield Issue(f"{format_path(('value', *fault.path))} {fault.problem}", "Encode the manifest with base64.")
        return
    try:
        orjson.loads(data)
    except orjson.JSONDecodeError:
        yield from _yaml_faults(data)


def _yaml_faults(data: bytes) -> Iterator[Issue]:
    from opmkit.bundle import go_yaml  # what opm writes is JSON

    try:
        go_yaml.load(data, [])
    except InvalidDocument as error:
        told = f"the object in value.data can't be read: {error.problem}"
        yield Issue(told, "Encode a manifest in JSON or YAML.")


def _package_faults(bundle: BundleBlob) -> Iterator[Issue]:
    stated = list(_package_values(bundle))
    if len(stated) != 1:
        advice = f"Keep one of the {len(stated)}." if stated else "Add one, with packageName and version as its value."
        yield Issue(f'must be exactly one property with type "{PACKAGE}"', advice)
        return
    name, version, release = (_text(stated[0], field) for field in ("packageName", "version", "release"))
    if name != bundle.package:
        told = f'package "{bundle.package}" does not match "{PACKAGE}" property "{name}"'
        yield Issue(told, "Correct the one that is wrong.")
    try:
        parsed = strict_version(version)
    except ValueError:
        told = f'"{PACKAGE}" property has version "{version}", which is not a semantic version'
        yield Issue(told, "Write MAJOR.MINOR.PATCH, such as 1.0.0 or 1.0.0-rc.1, without a leading v.")
        return
    if release:
        for message, advice in _release_faults(bundle, version, release, has_build=parsed.build is not None):
            yield Issue(message, advice, since="1.62")


def _release_faults(bundle: BundleBlob, version: str, release: str, *, has_build: bool) -> Iterator[tuple[str, str]]:
    if problem := _release_problem(release):
        advice = "Write identifiers with dots between, such as 1 or rc.2."
        yield f'"{PACKAGE}" property has release "{release}", which is none: {problem}', advice
        return
    if has_build:
        advice = "Leave out one of them, as a rule the build metadata."
        yield f'version "{version}" has build metadata, and there is a release "{release}"', advice
    name = f"{bundle.package}-v{version}-{release}"
    if bundle.name != name:
        yield f'a bundle with a release must be named "{name}"', "Rename the bundle and its entries."


def _release_problem(release: str) -> str:
    if len(release) > MAX_RELEASE:
        return f"it has more than {MAX_RELEASE} characters"
    try:
        parsed = strict_version(f"0.0.0-{release}")
    except ValueError:
        return "it is no list of identifiers"
    return "it has a +" if parsed.build is not None else ""
