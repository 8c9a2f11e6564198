"""Rules of the validator ``bundle``: consistency of the ClusterServiceVersion with the other manifests."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, cast

from opmkit.bundle import labels
from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.validation.compat import RECENT, Compat
from opmkit.bundle.validation.crd_view import V1, V1BETA1, Crd
from opmkit.bundle.validation.csv_view import OWNED_CRDS, RELATED_IMAGES, Csv, csv_check
from opmkit.bundle.validation.object_metadata import Gvk, crd_group
from opmkit.bundle.validation.rule import rule
from opmkit.bundle.versions import tolerant_version
from opmkit.documents.lenient import text
from opmkit.imagetools.errors import InvalidReference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.bundle.validation.bundle_view import BundleView
    from opmkit.documents.content import Content
    from opmkit.documents.fields import FieldPath

VALIDATOR = "bundle"
MAX_SIZE = 1024 * 1024
"""Maximum size of an unpacked bundle, which is stored in one ConfigMap: bytes of all files, gzipped and in base64."""
NEAR_SIZE = 0.85 * MAX_SIZE

_MAX_GROWTH, _MAX_OVERHEAD = 1.4, 64
"""Upper bound of the size of a file in gzip and base64: the sum of its size and the overhead, times the growth."""
_ESTIMATE_MARGIN = 1.25
"""By how much a file can be larger than estimated; files of real bundles are smaller."""
_GZIP_FRAME = 18  # bytes of a gzip header and trailer


def _defined(bundle: BundleView) -> list[tuple[Gvk, str, FieldPath]]:
    """Return the APIs that the CRDs define, with file and path: those of v1 CRDs first, then those of v1beta1."""
    return [
        (Gvk(crd.group.text, version, crd.names.child("kind").text), manifest.path, path)
        for api_version in (V1, V1BETA1)
        for manifest in bundle.crds
        if manifest.api_version == api_version
        for crd in [Crd.from_manifest(manifest)]
        for version, path in _versions(crd)
    ]


def _versions(crd: Crd) -> list[tuple[str, FieldPath]]:
    """Return the names of a CRD's versions with their paths.

    As in Go, a v1beta1 CRD without any version has one version with an empty name.
    """
    named = [(version.child("name").text, version.path) for version in crd.versions]
    return named or ([] if crd.is_v1 else [("", crd.spec.path)])


def _owned(csv: Csv) -> list[tuple[Gvk, FieldPath]]:
    """Return the owned APIs with their paths; a name without a group is used as the group."""
    return [
        (Gvk(crd_group(name) or name, entry.get("version", ""), entry.get("kind", "")), path)
        for path, entry in csv.entries(OWNED_CRDS)
        for name in [entry.get("name", "")]
    ]


@rule(
    "BUNDLE-CRD-DUPLICATE",
    VALIDATOR,
    Severity.ERROR,
    "several CRDs define the same API",
    hint="Keep one of the definitions, the v1 one if the other is v1beta1.",
    bad="# in one file\nspec: {group: example.com, names: {kind: Demo}, versions: [{name: v1}]}\n# in another\n"
    "spec: {group: example.com, names: {kind: Demo}, versions: [{name: v1}]}",
    good="spec: {group: example.com, names: {kind: Demo}, versions: [{name: v1}]}",
)
def crd_duplicate(bundle: BundleView) -> Iterator[Finding]:
    """Only one of the definitions can be installed, and which one is undefined."""
    if Csv.from_bundle(bundle) is None:
        return
    seen: dict[Gvk, str] = {}
    for api, file, path in _defined(bundle):
        if api in seen:
            yield Finding(f"{api} is already defined in {seen[api]}", file, path, subject=str(api))
        seen.setdefault(api, file)


@rule(
    "BUNDLE-OWNED-CRD-MISSING",
    VALIDATOR,
    Severity.ERROR,
    "missing CRD of an owned API",
    hint="Add the manifest of the CRD, or correct the name, version and kind of the owned entry.",
    bad="owned: [{name: demos.demo.example.com, version: v1, kind: Dmo}]  # the CRD defines the kind Demo",
    good="owned: [{name: demos.demo.example.com, version: v1, kind: Demo}]",
)
def owned_crd_missing(bundle: BundleView) -> Iterator[Finding]:
    """The CRDs of owned APIs are installed from the bundle, so it must contain them."""
    csv = Csv.from_bundle(bundle)
    if csv is None or bundle.csv is None:
        return
    defined = {api for api, _, _ in _defined(bundle)}
    matched: set[Gvk] = set()
    for api, path in _owned(csv):
        repeated = api in matched and bundle.compat is not Compat.OPMKIT  # the Go validators match each CRD only once
        if api not in defined or repeated:
            yield Finding(f"no CRD in the bundle defines the owned API {api}", bundle.csv.path, path, subject=str(api))
        matched.add(api)


@rule(
    "BUNDLE-CRD-NOT-OWNED",
    VALIDATOR,
    Severity.ERROR,
    "a CRD of the bundle is not owned",
    hint="Add the API to spec.customresourcedefinitions.owned, or remove the CRD from the bundle.",
    bad="spec: {customresourcedefinitions: {owned: []}}  # and the bundle contains a CRD",
    good="spec: {customresourcedefinitions: {owned: [{name: demos.demo.example.com, version: v1, kind: Demo}]}}",
)
def crd_not_owned(bundle: BundleView) -> Iterator[Finding]:
    """OLM rejects operators that own the same CRD, so each CRD of a bundle must be listed as owned.

    One owned version of a CRD is enough.
    """
    csv = Csv.from_bundle(bundle)
    if csv is None:
        return
    defined = {api: (file, path) for api, file, path in reversed(_defined(bundle))}
    owned = {api for api, _ in _owned(csv)}
    present = {api.group_kind for api in owned if api in defined}
    for api, (file, path) in reversed(defined.items()):
        if api.group_kind not in present:
            yield Finding(f"the ClusterServiceVersion does not own {api}", file, path, subject=str(api))


@rule(
    "BUNDLE-SA-CONFLICT",
    VALIDATOR,
    Severity.ERROR,
    "a ServiceAccount conflicts with that of a deployment",
    hint="Remove the ServiceAccount from the bundle, or give it another name.",
    bad="kind: ServiceAccount\nmetadata: {name: demo-sa}  # and a deployment has serviceAccountName: demo-sa",
    good="kind: ServiceAccount\nmetadata: {name: demo-metrics-reader}",
)
def service_account_conflict(bundle: BundleView) -> Iterator[Finding]:
    """OLM creates and deletes the service accounts of deployments itself; a manifest of the same name conflicts."""
    csv = Csv.from_bundle(bundle)
    if csv is None:
        return
    used = {text(pod.get("serviceAccountName")) for _, _, pod in csv.pods}
    if bundle.compat is Compat.OPMKIT:
        used.discard("")
    for manifest in bundle.manifests:
        name = manifest.object_name
        if (manifest.api_version, manifest.kind) == ("v1", "ServiceAccount") and name in used:
            message = f"ServiceAccount {name!r} is also the service account of a deployment"
            yield Finding(message, manifest.path, ("metadata", "name"), subject=name)


def _size(bundle: BundleView) -> int:
    """Return the bytes that all files take up in a ConfigMap, or 0 if they are far fewer than allowed.

    The Go validators ignore the metadata.
    """
    files = [*bundle.files_in(bundle.manifests_directory, recursive=True)]
    if bundle.compat is Compat.OPMKIT and not bundle.bare:
        files += bundle.files_in("metadata", recursive=True)
    contents = {file.path: file.content for file in files}.values()
    if sum(len(content.raw) + _MAX_OVERHEAD for content in contents) < NEAR_SIZE / _MAX_GROWTH:
        return 0
    if sum(_estimated_size(content) for content in contents) < NEAR_SIZE / _ESTIMATE_MARGIN:
        return 0
    return sum(_encoded_size(content) for content in contents)


def _estimated_size(content: Content) -> int:
    """Return about the length of a file after gzip and base64, in a tenth of the time that its exact length takes."""
    from isal import isal_zlib  # slow to import: not needed for small bundles

    if "estimated_size" not in content.memo:
        content.memo["estimated_size"] = len(isal_zlib.compress(content.raw, 0)) * 4 // 3
    return cast("int", content.memo["estimated_size"])


def _encoded_size(content: Content) -> int:
    """Return the length of a file after gzip and base64."""
    if "encoded_size" not in content.memo:
        compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
        packed = len(compressor.compress(content.raw)) + len(compressor.flush()) + _GZIP_FRAME
        content.memo["encoded_size"] = (packed + 2) // 3 * 4
    return cast("int", content.memo["encoded_size"])


def _csv_name(bundle: BundleView) -> str:
    return bundle.csv.object_name if bundle.csv else ""


@rule(
    "BUNDLE-SIZE-UNKNOWN",
    VALIDATOR,
    Severity.WARNING,
    "unknown bundle size",
    hint="Check that the bundle contains its manifests.",
    bad="a bundle with only empty files",
    good="a bundle with manifests",
)
def size_unknown(bundle: BundleView) -> Iterator[Finding]:
    """A bundle of size 0 is invalid. The Go validators also report every bundle in package manifest format."""
    if not any(file.content.raw for file in bundle.manifests):
        yield Finding("the bundle has no manifests, or all of them are empty", subject=_csv_name(bundle))


@rule(
    "BUNDLE-SIZE-MAX",
    VALIDATOR,
    Severity.ERROR,
    "the bundle is too large to be installed",
    hint="Shorten the descriptions in CRDs, which are often generated and long, or use a smaller icon.",
    bad="1.1 MiB of compressed manifests",
    good="0.5 MiB of compressed manifests",
)
def size_max(bundle: BundleView) -> Iterator[Finding]:
    """OLM unpacks a bundle into one ConfigMap, each file gzipped, and the size of a ConfigMap is limited to 1 MiB."""
    if Csv.from_bundle(bundle) is not None and (size := _size(bundle)) > MAX_SIZE:
        message = f"the compressed files take {size} bytes, more than the limit of {MAX_SIZE}"
        yield Finding(message, subject=_csv_name(bundle))


@rule(
    "BUNDLE-SIZE-NEAR",
    VALIDATOR,
    Severity.WARNING,
    "the bundle is almost too large to be installed",
    hint="Shorten the descriptions in CRDs, or use a smaller icon, before a version exceeds the limit.",
    bad="0.9 MiB of compressed manifests",
    good="0.5 MiB of compressed manifests",
)
def size_near(bundle: BundleView) -> Iterator[Finding]:
    """The bundle takes more than 85% of the 1 MiB limit of a ConfigMap."""
    if Csv.from_bundle(bundle) is not None and NEAR_SIZE < (size := _size(bundle)) <= MAX_SIZE:
        message = f"the compressed files take {size} bytes, close to the limit of {MAX_SIZE}"
        yield Finding(message, subject=_csv_name(bundle))


@rule(
    "BUNDLE-RELATED-IMAGE-EMPTY",
    VALIDATOR,
    Severity.ERROR,
    "empty related image",
    hint="Fill in the image, or remove the entry.",
    bad="relatedImages: [{name: db, image: ''}]",
    good="relatedImages: [{name: db, image: 'quay.io/example/db@sha256:…'}]",
    compat=RECENT,
)
@csv_check
def related_image_empty(csv: Csv) -> Iterator[Finding]:
    """Related images are mirrored for disconnected clusters; mirroring fails on an empty image."""
    for path, entry in csv.entries(RELATED_IMAGES):
        if not entry.get("image") and not csv.decoded.has_mismatch(*path, "image"):
            yield Finding(f"related image {entry.get('name', '')!r} is empty", path=path, subject=_image_field(path))


@rule(
    "BUNDLE-RELATED-IMAGE-INVALID",
    VALIDATOR,
    Severity.ERROR,
    "invalid reference of a related image",
    hint="Write HOST/NAME@DIGEST or HOST/NAME:TAG: lower case, without a scheme and without spaces.",
    bad="relatedImages: [{name: db, image: 'https://quay.io/Example/db'}]",
    good="relatedImages: [{name: db, image: 'quay.io/example/db:1.2.3'}]",
    compat=RECENT,
)
@csv_check
def related_image_invalid(csv: Csv) -> Iterator[Finding]:
    """Related images are mirrored for disconnected clusters; this one cannot be pulled."""
    for path, entry in csv.entries(RELATED_IMAGES):
        if problem := _reference_problem(entry.get("image", "")):
            yield Finding(problem, path=(*path, "image"), subject=_image_field(path))


def _reference_problem(image: str) -> str:
    """Return why a reference is invalid, or "" for a valid or empty one."""
    if "://" in image:
        return f"related image {image!r} has a URL scheme, which is not allowed in image references"
    if not image:
        return ""
    from opmkit.imagetools.reference import Reference  # slow to import: few bundles have related images

    try:
        Reference.parse(image)
    except InvalidReference as error:
        return f"invalid related image: {error}"
    return ""


def _image_field(path: FieldPath) -> str:
    return f"spec.relatedImages[{path[-1]}].image"


@rule(
    "BUNDLE-RELEASE-NAME",
    VALIDATOR,
    Severity.ERROR,
    "the name of a bundle with a release does not consist of package, version and release",
    hint="Name the ClusterServiceVersion PACKAGE-vVERSION-RELEASE.",
    bad="metadata: {name: demo.v1.2.3}\nspec: {version: 1.2.3, release: '1'}",
    good="metadata: {name: demo-v1.2.3-1}\nspec: {version: 1.2.3, release: '1'}",
    compat=RECENT,
)
def release_name(bundle: BundleView) -> Iterator[Finding]:
    """The name distinguishes the releases of a version. The package is that of the annotations.

    operator-sdk does not read the annotations, so its package is empty and no name is valid.
    """
    csv = Csv.from_bundle(bundle)
    if csv is None or bundle.csv is None or not csv.spec.get("release"):
        return
    is_known = bundle.compat is Compat.OPMKIT or bundle.extracted
    package = bundle.annotations.get(labels.PACKAGE, "") if is_known else ""
    version = tolerant_version(csv.spec.get("version", "") or "0.0.0")
    wanted = f"{package}-v{version}-{csv.spec['release']}"
    if csv.name != wanted:
        message = f"the name is {csv.name!r}; package, version and release require {wanted!r}"
        yield Finding(message, bundle.csv.path, ("metadata", "name"), subject=csv.name)
