"""Rules of the validator ``bundle``: whether the ClusterServiceVersion and the other manifests of a bundle agree."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, cast

from opmkit.bundle import labels
from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.lenient import mapping, text
from opmkit.bundle.validation.compat import RECENT, Compat
from opmkit.bundle.validation.crd_view import V1, V1BETA1, Crd
from opmkit.bundle.validation.csv_view import DEPLOYMENTS, OWNED_CRDS, POD, Csv, csv_check
from opmkit.bundle.validation.gvk import Gvk, crd_group
from opmkit.bundle.validation.rule import rule
from opmkit.bundle.versions import tolerant_version
from opmkit.imagetools.errors import InvalidReference
from opmkit.imagetools.reference import Reference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.bundle.content import Content
    from opmkit.bundle.field_path import FieldPath
    from opmkit.bundle.validation.bundle_view import BundleView

VALIDATOR = "bundle"
MAX_SIZE = 1024 * 1024
"""Bytes of the base64 text of all files, each compressed, that one ConfigMap holds while a bundle is unpacked."""
NEAR_SIZE = 0.85 * MAX_SIZE

_GZIP_FRAME = 18  # bytes of a gzip header and trailer


def _defined(bundle: BundleView) -> list[tuple[Gvk, str, FieldPath]]:
    """The APIs that the CRDs of a bundle define, with file and path of each: first those of v1, then of v1beta1."""
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
    """The APIs of the CRDs that are owned; where a name has no group, it stands for the group."""
    return [
        (Gvk(crd_group(name) or name, entry.get("version", ""), entry.get("kind", "")), path)
        for path, entry in csv.entries(OWNED_CRDS)
        for name in [entry.get("name", "")]
    ]


@rule(
    "BUNDLE-CRD-DUPLICATE",
    VALIDATOR,
    Severity.ERROR,
    "two CRDs of a bundle define the same API",
    hint="Keep one of the definitions; of a v1 and a v1beta1 one, that of v1.",
    bad="# in one file\nspec: {group: example.com, names: {kind: Demo}, versions: [{name: v1}]}\n# in another\n"
    "spec: {group: example.com, names: {kind: Demo}, versions: [{name: v1}]}",
    good="spec: {group: example.com, names: {kind: Demo}, versions: [{name: v1}]}",
)
def crd_duplicate(bundle: BundleView) -> Iterator[Finding]:
    """Which of the two a cluster ends up with is left to chance."""
    if Csv.from_bundle(bundle) is None:
        return
    seen: dict[Gvk, str] = {}
    for api, file, path in _defined(bundle):
        if api in seen:
            yield Finding(f"{api} is defined in {seen[api]} already", file, path, subject=str(api))
        seen.setdefault(api, file)


@rule(
    "BUNDLE-OWNED-CRD-MISSING",
    VALIDATOR,
    Severity.ERROR,
    "a bundle lacks the CRD of an API that its ClusterServiceVersion owns",
    hint="Add the manifest of the CRD, or correct name, version and kind of the owned entry.",
    bad="owned: [{name: demos.demo.example.com, version: v1, kind: Dmo}]  # the CRD defines the kind Demo",
    good="owned: [{name: demos.demo.example.com, version: v1, kind: Demo}]",
)
def owned_crd_missing(bundle: BundleView) -> Iterator[Finding]:
    """What an operator owns comes with it: the CRD is installed from the bundle, and by nothing else."""
    csv = Csv.from_bundle(bundle)
    if csv is None or bundle.csv is None:
        return
    defined = {api for api, _, _ in _defined(bundle)}
    found: set[Gvk] = set()
    for api, path in _owned(csv):
        repeated = api in found and bundle.compat is not Compat.OPMKIT  # the references take each but once
        if api not in defined or repeated:
            yield Finding(f"no CRD in the bundle defines the owned {api}", bundle.csv.path, path, subject=str(api))
        found.add(api)


@rule(
    "BUNDLE-CRD-NOT-OWNED",
    VALIDATOR,
    Severity.ERROR,
    "a bundle holds a CRD that its ClusterServiceVersion does not own",
    hint="Add the API to spec.customresourcedefinitions.owned, or leave the CRD out of the bundle.",
    bad="spec: {customresourcedefinitions: {owned: []}}  # beside the manifest of a CRD",
    good="spec: {customresourcedefinitions: {owned: [{name: demos.demo.example.com, version: v1, kind: Demo}]}}",
)
def crd_not_owned(bundle: BundleView) -> Iterator[Finding]:
    """Two operators must not bring the same CRD, which can be seen only if each says what it owns.

    Of a CRD with several versions, one owned version is enough.
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
    "a bundle holds the service account of a deployment of its ClusterServiceVersion",
    hint="Leave the ServiceAccount out of the bundle, or give it another name.",
    bad="kind: ServiceAccount\nmetadata: {name: demo-sa}  # and a deployment has serviceAccountName: demo-sa",
    good="kind: ServiceAccount\nmetadata: {name: demo-metrics-reader}",
)
def service_account_conflict(bundle: BundleView) -> Iterator[Finding]:
    """The accounts of deployments are made, and removed, with the operator; another of that name gets in the way."""
    csv = Csv.from_bundle(bundle)
    if csv is None:
        return
    used = {text(csv_pod(deployment).get("serviceAccountName")) for _, deployment in csv.entries(DEPLOYMENTS)}
    if bundle.compat is Compat.OPMKIT:
        used.discard("")
    for manifest in bundle.manifests:
        name = manifest.object_name
        if (manifest.api_version, manifest.kind) == ("v1", "ServiceAccount") and name in used:
            message = f"the ServiceAccount {name!r} is that of a deployment of the ClusterServiceVersion"
            yield Finding(message, manifest.path, ("metadata", "name"), subject=name)


def csv_pod(deployment: object) -> dict[str, object]:
    """The pod of an entry of the deployments."""
    for step in POD:
        deployment = mapping(deployment).get(str(step))
    return dict(mapping(deployment))


def _size(bundle: BundleView) -> int:
    """What all files take up in a ConfigMap. The references count the manifests alone, we the metadata as well."""
    files = [*bundle.below(bundle.manifests_directory, deep=True)]
    if bundle.compat is Compat.OPMKIT and not bundle.bare:
        files += bundle.below("metadata", deep=True)
    return sum(_encoded_size(content) for content in {file.path: file.content for file in files}.values())


def _encoded_size(content: Content) -> int:
    """The length of the base64 text of a file that is compressed with gzip; nothing for an empty file is compressed."""
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
    "the size of a bundle is not known",
    hint="Check that the bundle has its manifests.",
    bad="a bundle of empty files",
    good="a bundle with manifests",
)
def size_unknown(bundle: BundleView) -> Iterator[Finding]:
    """A bundle of no size can't be right. The references say so of all bundles in the older package format."""
    if not any(file.content.raw for file in bundle.manifests):
        yield Finding("there are no manifests, or they are all empty", subject=_csv_name(bundle))


@rule(
    "BUNDLE-SIZE-MAX",
    VALIDATOR,
    Severity.ERROR,
    "a bundle is too big to be installed",
    hint="Shorten descriptions in CRDs (a description of a field is often generated and long), or shrink the icon.",
    bad="1.1 MiB of compressed manifests",
    good="0.5 MiB of compressed manifests",
)
def size_max(bundle: BundleView) -> Iterator[Finding]:
    """To be installed, a bundle is unpacked into one ConfigMap, each file compressed; a cluster takes 1 MiB for one."""
    if Csv.from_bundle(bundle) is not None and (size := _size(bundle)) > MAX_SIZE:
        message = f"the compressed files take {size} bytes, more than the {MAX_SIZE} that there may be"
        yield Finding(message, subject=_csv_name(bundle))


@rule(
    "BUNDLE-SIZE-NEAR",
    VALIDATOR,
    Severity.WARNING,
    "a bundle is nearly too big to be installed",
    hint="Shorten descriptions in CRDs, or shrink the icon, before the next version grows beyond the limit.",
    bad="0.9 MiB of compressed manifests",
    good="0.5 MiB of compressed manifests",
)
def size_near(bundle: BundleView) -> Iterator[Finding]:
    """More than 85 % of the 1 MiB is used that one ConfigMap can hold."""
    if Csv.from_bundle(bundle) is not None and NEAR_SIZE < (size := _size(bundle)) <= MAX_SIZE:
        message = f"the compressed files take {size} bytes, nearly the {MAX_SIZE} that there may be"
        yield Finding(message, subject=_csv_name(bundle))


RELATED_IMAGES: FieldPath = ("spec", "relatedImages")


@rule(
    "BUNDLE-RELATED-IMAGE-EMPTY",
    VALIDATOR,
    Severity.ERROR,
    "a related image is missing",
    hint="Fill in the image, or remove the entry.",
    bad="relatedImages: [{name: db, image: ''}]",
    good="relatedImages: [{name: db, image: 'quay.io/example/db@sha256:…'}]",
    compat=RECENT,
)
@csv_check
def related_image_empty(csv: Csv) -> Iterator[Finding]:
    """Related images are what is copied for clusters without a way to the internet; an empty one stops the copying."""
    for path, entry in csv.entries(RELATED_IMAGES):
        if not entry.get("image") and not csv.decoded.has_mismatch(*path, "image"):
            yield Finding(
                f"the related image {entry.get('name', '')!r} is empty", path=path, subject=_image_field(path)
            )


@rule(
    "BUNDLE-RELATED-IMAGE-INVALID",
    VALIDATOR,
    Severity.ERROR,
    "a related image is no image reference",
    hint="Write HOST/NAME@DIGEST or HOST/NAME:TAG: lower case, without a scheme and without spaces.",
    bad="relatedImages: [{name: db, image: 'https://quay.io/Example/db'}]",
    good="relatedImages: [{name: db, image: 'quay.io/example/db:1.2.3'}]",
    compat=RECENT,
)
@csv_check
def related_image_invalid(csv: Csv) -> Iterator[Finding]:
    """Related images are what is copied for clusters without a way to the internet; this one can't be."""
    for path, entry in csv.entries(RELATED_IMAGES):
        if problem := _reference_problem(entry.get("image", "")):
            yield Finding(problem, path=(*path, "image"), subject=_image_field(path))


def _reference_problem(image: str) -> str:
    """Why a text is no reference, "" for a good one or none at all."""
    if "://" in image:
        return f"the related image {image!r} has a scheme, which no reference has"
    try:
        if image:
            Reference.parse(image)
    except InvalidReference as error:
        return f"a related image can't be right: {error}"
    return ""


def _image_field(path: FieldPath) -> str:
    return f"spec.relatedImages[{path[-1]}].image"


@rule(
    "BUNDLE-RELEASE-NAME",
    VALIDATOR,
    Severity.ERROR,
    "the name of a bundle with a release is not made of package, version and release",
    hint="Name the ClusterServiceVersion PACKAGE-vVERSION-RELEASE.",
    bad="metadata: {name: demo.v1.2.3}\nspec: {version: 1.2.3, release: '1'}",
    good="metadata: {name: demo-v1.2.3-1}\nspec: {version: 1.2.3, release: '1'}",
    compat=RECENT,
)
def release_name(bundle: BundleView) -> Iterator[Finding]:
    """Releases of one version are told apart by their names. The package is that of the annotations.

    The newest reference, when run as ``operator-sdk``, looks at the manifests alone, so it knows no package and takes
    no name for right.
    """
    csv = Csv.from_bundle(bundle)
    if csv is None or bundle.csv is None or not csv.spec.get("release"):
        return
    package = bundle.annotations.get(labels.PACKAGE, "") if bundle.compat is Compat.OPMKIT else ""
    version = tolerant_version(csv.spec.get("version", "") or "0.0.0")
    wanted = f"{package}-v{version}-{csv.spec['release']}"
    if csv.name != wanted:
        message = f"the name is {csv.name!r}, but package, version and release make it {wanted!r}"
        yield Finding(message, bundle.csv.path, ("metadata", "name"), subject=csv.name)
