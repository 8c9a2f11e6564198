"""A bundle out of the files of its image or directory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opmkit.bundle.cluster_service_version import CSV_KIND, read_csv
from opmkit.bundle.errors import InvalidBundle, InvalidDocument
from opmkit.bundle.manifest import ManifestCache
from opmkit.bundle.metadata import read_metadata
from opmkit.bundle.model import ApiKey, Bundle, TypedValue
from opmkit.bundle.properties import gvk_value, package_property

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opmkit.bundle.manifest import Manifest
    from opmkit.bundle.model import ClusterServiceVersion

_TOLD = 5
"""How many unreadable files an error names."""


def parse_bundle(
    files: Mapping[str, bytes], *, image: str = "", cache: ManifestCache | None = None, strict: bool = True
) -> Bundle:
    """Read a bundle from its files, by the rules of ``opm registry add``, or without ``strict`` of ``opm render``.

    ``files`` are those below ``manifests/`` and ``metadata/``, by their paths from the root; others are not looked
    at. ``image`` is the reference they came from. A ``cache`` shared between calls saves reading a manifest twice.

    Raises:
        InvalidBundle: naming file and line where there is one, if a catalog can't hold the bundle.
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


@dataclass(slots=True)
class _Manifests:
    """The objects by their files, in order; why other files were left out, those without YAML apart."""

    objects: dict[str, Manifest] = field(default_factory=dict)
    csv_path: str = ""
    warnings: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)


def _below(files: Mapping[str, bytes], directory: str) -> dict[str, bytes]:
    """Select the files of a directory itself, not of those within it."""
    return {
        path: content
        for path, content in files.items()
        if path.startswith(directory) and "/" not in path.removeprefix(directory)
    }


def _read_manifests(files: Mapping[str, bytes], cache: ManifestCache) -> _Manifests:
    """Read every file that is not hidden, in the order of their names."""
    found = _Manifests()
    for path in sorted(files):
        if path.startswith("manifests/."):
            continue
        try:
            manifest = cache.read(files[path])
        except InvalidDocument as error:
            found.unreadable.append(error.located(path))
            found.warnings.append(f"left out: {error.located(path)}")
            continue
        if manifest is None:
            continue
        if manifest.more:
            found.warnings.append(f"{path}: only the first of its documents counts")
        if manifest.kind == CSV_KIND and found.csv_path:
            found.warnings.append(f"left out: {path}: the ClusterServiceVersion of {found.csv_path} comes first")
            continue
        if manifest.kind == CSV_KIND:
            found.csv_path = path
        found.objects[path] = manifest
    return found


def _read_csv(manifests: _Manifests, *, strict: bool) -> ClusterServiceVersion:
    if not manifests.csv_path:
        what = "no ClusterServiceVersion" if manifests.objects else "no Kubernetes object"
        message, hint = (
            f"{what} below manifests/",
            "A bundle needs a ClusterServiceVersion in its manifests directory.",
        )
        if manifests.unreadable:
            message += f"; {'; '.join(manifests.unreadable[:_TOLD])}"
            hint = "Correct the file that can't be read, or add a ClusterServiceVersion."
        raise InvalidBundle(message, hint=hint)
    text = manifests.objects[manifests.csv_path].json
    try:
        return read_csv(text)
    except InvalidBundle as error:
        if strict:
            raise _in_csv(manifests, error) from error
        manifests.warnings.append(_in_csv(manifests, error).message)
    try:
        return read_csv(text, strict=False)
    except InvalidBundle as error:
        raise _in_csv(manifests, error) from error


def _in_csv(manifests: _Manifests, error: InvalidBundle) -> InvalidBundle:
    return InvalidBundle(f"{manifests.csv_path}: {error.message}", hint=error.hint)


def _provided_apis(manifests: _Manifests, csv: ClusterServiceVersion) -> tuple[ApiKey, ...]:
    """Give the APIs of all CRDs and of the CSV's API services; the CRDs that it owns must be among them."""
    provided: list[ApiKey] = []
    for path, manifest in manifests.objects.items():
        if manifest.flaw:
            raise InvalidBundle(f"{path}: {manifest.flaw.message}", hint=manifest.flaw.hint)
        provided += manifest.apis
    provided += csv.owned_services
    for api in csv.owned_crds:
        if api not in provided:
            similar = ", ".join(_described(other) for other in provided if other.kind == api.kind)
            raise InvalidBundle(
                f"{manifests.csv_path}: no CRD in the bundle for {_described(api)}, which {csv.name} owns"
                + (f" (there is {similar})" if similar else ""),
                hint="Add the CRD, or correct group, version, kind and plural where they differ.",
            )
    return tuple(dict.fromkeys(provided))


def _described(api: ApiKey) -> str:
    return f"{api.group}/{api.version}/{api.kind} ({api.plural})"
