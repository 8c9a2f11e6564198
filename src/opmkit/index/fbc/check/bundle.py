"""Rules for one bundle of a file-based catalog: its name, version, images and properties."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import orjson

from opmkit.bundle.api_types.decode import DecodeMode, decode_struct
from opmkit.bundle.versions import strict_version
from opmkit.documents import yaml_decoder
from opmkit.documents.errors import InvalidDocument
from opmkit.documents.fields import format_path, member
from opmkit.imagetools.errors import InvalidReference
from opmkit.imagetools.reference import Reference
from opmkit.index.fbc.blobs import BUNDLE_OBJECT, CSV_METADATA, PACKAGE
from opmkit.index.fbc.fields import decode_base64
from opmkit.index.fbc.findings import CatalogFinding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opmkit.documents.json_value import JsonValue
    from opmkit.index.fbc.blobs import BlobProperty, BundleBlob

MAX_RELEASE_LENGTH = 20
"""Characters of a bundle's release."""

_TYPED_PROPERTIES = (PACKAGE, "olm.package.required", "olm.gvk", "olm.gvk.required", "olm.channel", CSV_METADATA)


def check_bundle(bundle: BundleBlob) -> Iterator[CatalogFinding]:
    """Yield findings, without locations, about a bundle on its own."""
    if not bundle.name:
        yield CatalogFinding(
            "name must be set",
            hint="Set the name of its ClusterServiceVersion, such as op.v1.0.0.",
            rule="FBC-BUNDLE-NAME",
        )
    yield from _check_images(bundle)
    for number, prop in enumerate(bundle.properties):
        for finding in _check_property(prop):
            message = f'parse property[{number}] of type "{prop.type}": {finding.message}'
            yield replace(finding, message=message)
    yield from _check_package_property(bundle)


def bundle_version(bundle: BundleBlob) -> str:
    """Return the version; "" unless the bundle has exactly one `olm.package` property."""
    return version_and_release(bundle)[0]


def version_with_release(bundle: BundleBlob) -> str:
    """Return ``VERSION`` or ``VERSION-RELEASE``; "" unless the bundle has exactly one `olm.package` property."""
    version, release = version_and_release(bundle)
    return f"{version}-{release}" if release else version


def version_and_release(bundle: BundleBlob) -> tuple[str, str]:
    """Return the version and the release, both "" unless the bundle has exactly one `olm.package` property."""
    values = list(_package_values(bundle))
    return (_string(values[0], "version"), _string(values[0], "release")) if len(values) == 1 else ("", "")


def _package_values(bundle: BundleBlob) -> Iterator[Mapping[str, JsonValue]]:
    return (value if isinstance(value, dict) else {} for value in bundle.property_values(PACKAGE))


def _string(value: Mapping[str, JsonValue], name: str) -> str:
    string = member(value, name)
    return string if isinstance(string, str) else ""


def _check_images(bundle: BundleBlob) -> Iterator[CatalogFinding]:
    if not bundle.image and not any(True for _ in bundle.property_values(BUNDLE_OBJECT)):
        hint = f"Set its image, or embed its objects as {BUNDLE_OBJECT} properties."
        yield CatalogFinding("bundle image must be set", hint=hint, rule="FBC-BUNDLE-IMAGE")
    images = [("image", bundle.image)]
    images += [(f"relatedImages[{number}].image", item.image) for number, item in enumerate(bundle.related_images)]
    for path, image in images:
        if image and (problem := _reference_problem(image)):
            message, hint = problem
            yield CatalogFinding(f"{path}: {message}", hint=hint, since="1.64", rule="FBC-IMAGE-REFERENCE")


def _reference_problem(image: str) -> tuple[str, str] | None:
    """Return a message and a hint if the image reference is invalid."""
    for prefix, kind in (("docker://", "transports"), ("[", "IPv6 addresses")):
        if image.startswith(prefix):
            return f"invalid image reference {image!r}: {kind} are not supported", "Write HOST[:PORT]/NAME[:TAG]."
    try:
        Reference.parse(image)
    except InvalidReference as error:
        hint = str(error.hint)
        return error.message, f"{hint[:1].upper()}{hint[1:]}." if hint else ""
    return None


def _check_property(prop: BlobProperty) -> Iterator[CatalogFinding]:
    if prop.value is None:
        return
    if prop.type == BUNDLE_OBJECT:
        yield from _check_object(prop.value)
    elif prop.type in _TYPED_PROPERTIES:
        since = "1.28" if prop.type == CSV_METADATA else ""
        for mismatch in decode_struct(prop.value, prop.type, DecodeMode.REWRITTEN).mismatches:
            message = f"{format_path(('value', *mismatch.path))} {mismatch.problem}"
            yield CatalogFinding(message, hint=mismatch.hint, since=since, rule="FBC-PROPERTY")


def _check_object(value: JsonValue) -> Iterator[CatalogFinding]:
    """Check that the value holds base64 of JSON or YAML."""
    encoded = value.get("data") if isinstance(value, dict) else None
    if not isinstance(encoded, str) or (data := decode_base64(encoded)) is None:
        for mismatch in decode_struct(value, BUNDLE_OBJECT, DecodeMode.REWRITTEN).mismatches:
            message = f"{format_path(('value', *mismatch.path))} {mismatch.problem}"
            yield CatalogFinding(message, hint="Encode the manifest with base64.", rule="FBC-OBJECT")
        return
    try:
        orjson.loads(data)
    except orjson.JSONDecodeError:
        yield from _check_yaml(data)


def _check_yaml(data: bytes) -> Iterator[CatalogFinding]:
    try:
        yaml_decoder.load(data, [])
    except InvalidDocument as error:
        yield CatalogFinding(
            f"value.data: invalid object: {error.problem}", hint="Encode a manifest in JSON or YAML.", rule="FBC-OBJECT"
        )


def _check_package_property(bundle: BundleBlob) -> Iterator[CatalogFinding]:
    values = list(_package_values(bundle))
    if len(values) != 1:
        hint = f"Keep one of the {len(values)}." if values else "Add one with the fields packageName and version."
        yield CatalogFinding(
            f'must be exactly one property with type "{PACKAGE}"', hint=hint, rule="FBC-PACKAGE-PROPERTY"
        )
        return
    name, version, release = (_string(values[0], field) for field in ("packageName", "version", "release"))
    if name != bundle.package:
        message = f'package "{bundle.package}" does not match "{PACKAGE}" property "{name}"'
        yield CatalogFinding(message, hint="Correct the one that is wrong.", rule="FBC-PACKAGE-PROPERTY")
    try:
        parsed = strict_version(version)
    except ValueError:
        message = f'"{PACKAGE}" property has version "{version}", which is not a semantic version'
        hint = "Write MAJOR.MINOR.PATCH, such as 1.0.0 or 1.0.0-rc.1, without a leading v."
        yield CatalogFinding(message, hint=hint, rule="FBC-VERSION")
        return
    if release:
        yield from _check_release(bundle, version, release, has_build=parsed.build is not None)


def _check_release(bundle: BundleBlob, version: str, release: str, *, has_build: bool) -> Iterator[CatalogFinding]:
    since = "1.62"
    if problem := _release_problem(release):
        message = f'"{PACKAGE}" property has invalid release "{release}": {problem}'
        yield CatalogFinding(
            message, hint="Write dot-separated identifiers, such as 1 or rc.2.", since=since, rule="FBC-RELEASE"
        )
        return
    if has_build:
        message = f'version "{version}" has build metadata, which excludes a release ("{release}")'
        yield CatalogFinding(
            message, hint="Remove one of them, usually the build metadata.", since=since, rule="FBC-RELEASE"
        )
    name = f"{bundle.package}-v{version}-{release}"
    if bundle.name != name:
        message = f'a bundle with a release must be named "{name}"'
        yield CatalogFinding(message, hint="Rename the bundle and its entries.", since=since, rule="FBC-RELEASE")


def _release_problem(release: str) -> str:
    if len(release) > MAX_RELEASE_LENGTH:
        return f"longer than {MAX_RELEASE_LENGTH} characters"
    try:
        parsed = strict_version(f"0.0.0-{release}")
    except ValueError:
        return "not a list of dot-separated identifiers"
    return "build metadata is not allowed" if parsed.build is not None else ""
