"""Parse a bundle from its files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.bundle.cluster_service_version import read_csv
from opmkit.bundle.errors import InvalidBundle
from opmkit.bundle.kinds import CSV_KIND
from opmkit.bundle.manifest import ManifestCache
from opmkit.bundle.metadata import read_metadata
from opmkit.bundle.model import ApiKey, Bundle, TypedValue
from opmkit.bundle.properties import gvk_value, package_property
from opmkit.documents.errors import FieldTypeError, InvalidDocument

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opmkit.bundle.manifest import ObjectManifest
    from opmkit.bundle.model import ClusterServiceVersion
    from opmkit.core.errors import OpmkitError

_MAX_LISTED = 5
"""Maximum number of invalid files in an error message."""


def parse_bundle(
    files: Mapping[str, bytes], *, image: str = "", cache: ManifestCache | None = None, strict: bool = True
) -> Bundle:
    """Parse a bundle from its files.

    Args:
        files: Content by path from the root of the bundle; only ``manifests/`` and ``metadata/`` are read.
        image: Reference of the image.
        cache: Shared by several calls, so that equal manifests are parsed once.
        strict: Whether to require what ``opm registry add`` does, or only what ``opm render`` does.

    Raises:
        InvalidBundle: No catalog can contain the bundle; the error names the file and the line if known.
    """
    manifests = _read_manifests(_below(files, "manifests/"), cache or ManifestCache())
    csv = _read_csv(manifests, strict=strict)
    provided = _provided_apis(manifests, csv)
    required = tuple(dict.fromkeys(csv.required_crds + csv.required_services))
    metadata = read_metadata(_below(files, "metadata/"))
    derived: tuple[TypedValue, ...] = ()
    if metadata.annotations.package:
        derived = (package_property(metadata.annotations.package, csv.version),)
    gvks = tuple(map(gvk_value, provided))
    return Bundle(
        annotations=metadata.annotations,
        csv=csv,
        objects=tuple(manifest.json for manifest in manifests.objects.values()),
        provided_apis=provided,
        required_apis=required,
        dependencies=metadata.dependencies + tuple(map(gvk_value, required)),
        properties=tuple(dict.fromkeys(metadata.properties + derived + csv.properties + gvks)),
        image=image,
        warnings=tuple(manifests.warnings) + metadata.warnings,
    )


class _Manifests(Struct):
    """Manifests by path, warnings about ignored files, and errors of files that cannot be decoded."""

    objects: dict[str, ObjectManifest] = {}
    csv_path: str = ""
    warnings: list[str] = []
    invalid: list[str] = []


def _below(files: Mapping[str, bytes], directory: str) -> dict[str, bytes]:
    """Select the files directly in a directory."""
    return {
        path: content
        for path, content in files.items()
        if path.startswith(directory) and "/" not in path.removeprefix(directory)
    }


def _read_manifests(files: Mapping[str, bytes], cache: ManifestCache) -> _Manifests:
    """Parse the files that are not hidden, sorted by name."""
    found = _Manifests()
    for path in sorted(files):
        if path.startswith("manifests/."):
            continue
        try:
            manifest = cache.read(files[path])
        except InvalidDocument as error:
            found.invalid.append(error.located(path))
            found.warnings.append(f"ignored {error.located(path)}")
            continue
        if manifest is None:
            continue
        if manifest.has_more:
            found.warnings.append(f"{path}: only the first document is used")
        if manifest.kind == CSV_KIND and found.csv_path:
            found.warnings.append(f"ignored {path}: {found.csv_path} is the ClusterServiceVersion")
            continue
        if manifest.kind == CSV_KIND:
            found.csv_path = path
        found.objects[path] = manifest
    return found


def _read_csv(manifests: _Manifests, *, strict: bool) -> ClusterServiceVersion:
    if not manifests.csv_path:
        missing = "ClusterServiceVersion" if manifests.objects else "Kubernetes object"
        message = f"no {missing} found in manifests/"
        hint = "add a ClusterServiceVersion to the manifests directory"
        if manifests.invalid:
            message += f"; {'; '.join(manifests.invalid[:_MAX_LISTED])}"
            hint = "correct the invalid file, or add a ClusterServiceVersion"
        raise InvalidBundle(message, hint=hint)
    text = manifests.objects[manifests.csv_path].json
    try:
        return read_csv(text)
    except (InvalidBundle, FieldTypeError) as error:
        if strict:
            raise _in_csv(manifests, error) from error
        manifests.warnings.append(_in_csv(manifests, error).message)
    try:
        return read_csv(text, strict=False)
    except (InvalidBundle, FieldTypeError) as error:
        raise _in_csv(manifests, error) from error


def _in_csv(manifests: _Manifests, error: OpmkitError) -> InvalidBundle:
    return InvalidBundle(f"{manifests.csv_path}: {error.message}", hint=error.hint)


def _provided_apis(manifests: _Manifests, csv: ClusterServiceVersion) -> tuple[ApiKey, ...]:
    """Return the APIs of all CRDs and of the CSV's API services; the CRDs that the CSV owns must be among them."""
    provided: list[ApiKey] = []
    for path, manifest in manifests.objects.items():
        if manifest.crd_error:
            raise InvalidBundle(f"{path}: {manifest.crd_error.message}", hint=manifest.crd_error.hint)
        provided += manifest.apis
    provided += csv.owned_services
    for api in csv.owned_crds:
        if api not in provided:
            similar = ", ".join(_format_api(other) for other in provided if other.kind == api.kind)
            raise InvalidBundle(
                f"{manifests.csv_path}: the bundle has no CRD for {_format_api(api)}, which {csv.name} owns"
                + (f" (it has {similar})" if similar else ""),
                hint="add the CRD, or correct its group, version, kind or plural",
            )
    return tuple(dict.fromkeys(provided))


def _format_api(api: ApiKey) -> str:
    return f"{api.group}/{api.version}/{api.kind} ({api.plural})"
