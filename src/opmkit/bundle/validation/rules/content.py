"""Rules of the validators ``sdk-content`` and ``opm-content``: the kinds and the metadata of a bundle's objects.

``opm-content`` checks every file of the manifests directory, and also runs the rules of ``csv`` and ``crd``; see
:mod:`opmkit.bundle.validation.opm_content`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from opmkit.bundle import labels
from opmkit.bundle.api_types.decode import DecodeMode
from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.kinds import CRD_KIND, CSV_KIND, supported_kinds
from opmkit.bundle.validation import loading
from opmkit.bundle.validation.compat import GO_ONLY, OPMKIT_ONLY, RECENT, Compat
from opmkit.bundle.validation.loading import (
    decode_as_go,
    decode_crd,
    decode_finding,
    decode_object,
    is_loaded,
    type_findings,
    version_finding,
)
from opmkit.bundle.validation.object_metadata import Gvk, crd_group, metadata_findings
from opmkit.bundle.validation.opm_content import NONE, REGISTRY, OpmContent, media_type
from opmkit.bundle.validation.opm_content import VALIDATOR as OPM
from opmkit.bundle.validation.rule import rule
from opmkit.documents.lenient import items, mapping, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opmkit.bundle.api_types.decode import TypeMismatch
    from opmkit.bundle.validation.bundle_view import BundleView, ManifestView

SDK = "sdk-content"

_NAMED = "kind: ConfigMap\nmetadata: {name: demo"
_OWNED = "spec: {customresourcedefinitions: {owned: [{name: demos.example.com, version: v1, kind: Demo}]}}"


@rule(
    "KIND-UNSUPPORTED",
    SDK,
    Severity.ERROR,
    "unsupported kind of object in a bundle",
    hint="Remove the object from the bundle, and let the operator create it.",
    bad="apiVersion: batch/v1\nkind: CronJob",
    good="apiVersion: v1\nkind: ConfigMap",
)
def sdk_kind(bundle: BundleView) -> Iterator[Finding]:
    """OLM installs only objects of certain kinds. Only the kind is compared, not the API group."""
    if media_type(bundle, bundle.manifests_directory) == REGISTRY:
        for file in _sdk_objects(bundle):
            if file.kind not in supported_kinds(bundle.compat):
                yield _unsupported(file)


@rule(
    "OBJ-META",
    SDK,
    Severity.ERROR,
    "invalid metadata of an object",
    hint="Set a name, no namespace, and valid labels and annotations.",
    bad=f"{_NAMED}, namespace: demo, labels: {{a b: c}}}}",
    good=f"{_NAMED}, labels: {{a-b: c}}}}",
)
def sdk_metadata(bundle: BundleView) -> Iterator[Finding]:
    """An object needs a name and must not have a namespace, as the operator can be installed in any namespace.

    Keys of labels and annotations are names with an optional domain before a slash; values of labels have at most 63
    characters. Clusters reject other metadata.
    """
    registry = media_type(bundle, bundle.manifests_directory) == REGISTRY
    for file in _sdk_objects(bundle):
        if not registry or file.kind in supported_kinds(bundle.compat):
            yield from _metadata(file, bundle.compat)


def _sdk_objects(bundle: BundleView) -> Iterator[ManifestView]:
    """Return the objects without a validator of their kind; the Go validators check none unless all files load."""
    if bundle.compat is not Compat.OPMKIT and not is_loaded(bundle):
        return
    for file in (decode_as_go(file, bundle.compat) for file in bundle.manifests):
        if file.kind not in (CSV_KIND, CRD_KIND) and decode_finding(file) is None:
            yield file


def _unsupported(file: ManifestView) -> Finding:
    api = Gvk.parse(file.api_version, file.kind)
    message = f"unsupported kind {file.kind!r}" if file.kind else "the file is empty"
    return Finding(message, file.path, ("kind",), subject=str(api), hint=_KIND_HINTS.get(file.kind, ""))


_KIND_HINTS = {
    "Deployment": "Move it to spec.install.spec.deployments of the ClusterServiceVersion.",
    "Namespace": "Remove it; suggest it in the annotation operatorframework.io/suggested-namespace-template.",
}
"""Hints for kinds that an operator cannot create itself, or that have another place in a bundle."""


def _metadata(file: ManifestView, compat: Compat) -> Iterator[Finding]:
    if compat is Compat.OPMKIT:  # the Go validators ignore values of the wrong type
        yield from type_findings(file, decode_object(file, DecodeMode.JSON))
    for finding in metadata_findings(file.metadata):
        yield replace(finding, file=file.path)


@rule(
    loading.NO_FILES,
    OPM,
    Severity.ERROR,
    "missing or empty manifests directory",
    hint="Put the ClusterServiceVersion and the CRDs directly into the manifests directory.",
    bad="bundle/manifests/1.0.0/demo.clusterserviceversion.yaml",
    good="bundle/manifests/demo.clusterserviceversion.yaml",
)
def opm_no_files(bundle: BundleView) -> Iterator[Finding]:
    """The directory must be ``manifests``, regardless of the annotations."""
    if OpmContent.from_bundle(bundle).media_type == NONE:
        yield Finding("the directory manifests has no files")


@rule(
    loading.SUBDIRECTORY,
    OPM,
    Severity.ERROR,
    "directory among the manifests",
    hint="Move its files to the other manifests, or out of the bundle.",
    bad="bundle/manifests/crds/demos.yaml",
    good="bundle/manifests/demos.yaml",
)
def opm_subdirectory(bundle: BundleView) -> Iterator[Finding]:
    """Catalogs read only files directly in the manifests directory and ignore subdirectories."""
    content = OpmContent.from_bundle(bundle)
    return loading.subdirectories(bundle, content.directory) if content.files else iter(())


@rule(
    loading.UNDECODABLE,
    OPM,
    Severity.ERROR,
    "a file among the manifests contains no object",
    hint="Correct the YAML, or move files that are not manifests out of the directory.",
    bad="apiVersion: v1\nmetadata: {name: demo}",
    good="apiVersion: v1\nkind: ConfigMap\nmetadata: {name: demo}",
)
def opm_undecodable(bundle: BundleView) -> Iterator[Finding]:
    """All files, including hidden ones, must be YAML or JSON whose first document is an object with a kind.

    The Go validators also report some fields of the wrong type here.
    """
    content = OpmContent.from_bundle(bundle)
    for file in content.files:
        if finding := decode_finding(file):
            yield finding
    if bundle.compat is Compat.OPMKIT:
        return
    if content.directory not in {"", *bundle.directories}:
        yield Finding("directory manifests not found")
    for file in content.of_kind(CSV_KIND):
        yield from list(_mismatch_findings(file, filter(_by_json, content.csv_mismatches(file)[:1])))
    for file in content.of_kind(CRD_KIND):
        yield from list(type_findings(file, decode_crd(file, bundle.compat, DecodeMode.YAML)))[:1]
    for file in content.others:
        yield from list(type_findings(file, decode_object(file, DecodeMode.JSON)))[:1]


def _by_json(mismatch: TypeMismatch) -> bool:
    """Return True if the type has its own UnmarshalJSON, whose error makes the Go validators reject the whole file."""
    return mismatch.scalar in ("version", "release", "time", "intOrString")


def _mismatch_findings(file: ManifestView, mismatches: Iterable[TypeMismatch]) -> Iterator[Finding]:
    return (loading.type_finding(file, mismatch) for mismatch in mismatches)


@rule(
    "KIND-UNSUPPORTED",
    OPM,
    Severity.ERROR,
    "unsupported kind of object in a bundle",
    hint="Remove the object from the bundle, and let the operator create it.",
    bad="apiVersion: batch/v1\nkind: CronJob",
    good="apiVersion: v1\nkind: ConfigMap",
)
def opm_kind(bundle: BundleView) -> Iterator[Finding]:
    """OLM installs only objects of certain kinds. Only the kind is compared, not the API group."""
    content = OpmContent.from_bundle(bundle)
    return (_opm_finding(bundle, _unsupported(file)) for file in content.objects if not content.supports(file))


def _opm_finding(bundle: BundleView, finding: Finding) -> Finding:
    """Remove the subject as the Go validators do; opmkit needs it to report the same problem only once."""
    return finding if bundle.compat is Compat.OPMKIT else replace(finding, subject="")


@rule(
    loading.CSV_TYPE,
    OPM,
    Severity.ERROR,
    "wrong type of a field in a ClusterServiceVersion",
    hint="Write a value of the field's type.",
    bad="metadata: {annotations: {certified: true}}",
    good="metadata: {annotations: {certified: 'true'}}",
)
def opm_csv_type(bundle: BundleView) -> Iterator[Finding]:
    """Numbers and booleans are not accepted as strings here. The Go validators report only the first mismatch."""
    content = OpmContent.from_bundle(bundle)
    for file in content.of_kind(CSV_KIND):
        findings = content.csv_mismatches(file)
        if bundle.compat is not Compat.OPMKIT:
            findings = tuple(finding for finding in findings[:1] if not _by_json(finding))
        yield from _mismatch_findings(file, findings)


@rule(
    loading.CRD_TYPE,
    OPM,
    Severity.ERROR,
    "wrong type of a field in a CRD",
    hint="Write a value of the field's type.",
    bad="spec: {names: demos}",
    good="spec: {names: {plural: demos, kind: Demo}}",
    compat=OPMKIT_ONLY,
)
def opm_crd_type(bundle: BundleView) -> Iterator[Finding]:
    """Clusters reject values of the wrong type. The Go validators report such a file as undecodable."""
    for file in OpmContent.from_bundle(bundle).of_kind(CRD_KIND):
        yield from type_findings(file, decode_crd(file, bundle.compat, DecodeMode.YAML))


@rule(
    loading.CRD_VERSION,
    OPM,
    Severity.ERROR,
    "unsupported apiVersion of a CRD",
    hint="Migrate it to apiextensions.k8s.io/v1.",
    bad="apiVersion: apiextensions.k8s.io/v1alpha1\nkind: CustomResourceDefinition",
    good="apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition",
)
def opm_crd_version(bundle: BundleView) -> Iterator[Finding]:
    """The versions are v1 and, before Kubernetes 1.22, v1beta1."""
    return (finding for file in OpmContent.from_bundle(bundle).of_kind(CRD_KIND) if (finding := version_finding(file)))


@rule(
    "OBJ-META",
    OPM,
    Severity.ERROR,
    "invalid metadata of an object",
    hint="Set a name, no namespace, and valid labels and annotations.",
    bad=f"{_NAMED}, namespace: demo, labels: {{a b: c}}}}",
    good=f"{_NAMED}, labels: {{a-b: c}}}}",
)
def opm_metadata(bundle: BundleView) -> Iterator[Finding]:
    """An object needs a name and must not have a namespace, as the operator can be installed in any namespace.

    The Go validators report all problems of an object in one finding.
    """
    for file in OpmContent.from_bundle(bundle).others:
        if bundle.compat is Compat.OPMKIT:
            yield from _metadata(file, bundle.compat)
        elif findings := _metadata_as_go_reads_it(file):
            yield replace(findings[0], message="; ".join(finding.message for finding in findings), subject="")


def _metadata_as_go_reads_it(file: ManifestView) -> list[Finding]:
    """Return the findings with case-insensitive field names, none if a field has the wrong type."""
    typed = decode_object(file, DecodeMode.JSON)
    if typed.mismatches:
        return []
    return [replace(finding, file=file.path) for finding in metadata_findings(mapping(typed.value.get("metadata")))]


@rule(
    loading.NO_CSV,
    OPM,
    Severity.ERROR,
    "missing ClusterServiceVersion",
    hint="Add a manifest of kind ClusterServiceVersion, which tools for operator projects generate.",
    bad="kind: Deployment",
    good="kind: ClusterServiceVersion",
)
def opm_no_csv(bundle: BundleView) -> Iterator[Finding]:
    """The ClusterServiceVersion describes the version of the operator that the bundle contains.

    The Go validators crash on a bundle without one.
    """
    content = OpmContent.from_bundle(bundle)
    if bundle.compat is Compat.OPMKIT:
        yield from loading.no_csv(content.directory, content.files) if content.files else ()
    elif content.objects and content.csv is None and not _unreadable(content):
        yield Finding("ClusterServiceVersion not found")


@rule(
    "OPM-CSV",
    OPM,
    Severity.ERROR,
    "catalogs cannot read the ClusterServiceVersion",
    hint="Correct the fields of the wrong type in the ClusterServiceVersion and the CRDs.",
    bad="spec: {version: 1.10}",
    good="spec: {version: 1.10.0}",
    compat=GO_ONLY,
)
def opm_csv(bundle: BundleView) -> Iterator[Finding]:
    """The metadata, the version or a CRD has a field of the wrong type.

    Only the Go validators report this; opmkit reports each field by the rules about types.
    """
    content = OpmContent.from_bundle(bundle)
    if finding := _unreadable(content):
        yield finding
    elif content.csv is not None:
        spec = content.csv.object.get("spec")
        version, release = mapping(spec).get("version"), mapping(spec).get("release")
        if not isinstance(spec, dict) or not isinstance(version, str | None):
            yield Finding("cannot read the version of the operator", content.csv.path, ("spec", "version"))
        elif bundle.compat is Compat.NEWEST and isinstance(release, bool | list | dict):
            yield Finding("cannot read the release of the operator", content.csv.path, ("spec", "release"))


def _unreadable(content: OpmContent) -> Finding | None:
    """Return the first mismatch in the objects that catalogs read first, None if they can be read."""
    if content.csv is not None:
        for finding in type_findings(content.csv, decode_object(content.csv, DecodeMode.OBJECT)):
            return finding
    for file in content.of_kind(CRD_KIND):
        for finding in type_findings(file, decode_crd(file, content.bundle.compat, DecodeMode.OBJECT)):
            return finding
    return None


@rule(
    "OPM-CRDS",
    OPM,
    Severity.ERROR,
    "catalogs cannot read a CRD",
    hint="Put numbers and booleans in string fields in quotes.",
    bad="openAPIV3Schema: {type: object, description: 1.0}",
    good="openAPIV3Schema: {type: object, description: '1.0'}",
    compat=OPMKIT_ONLY,
)
def opm_crds(bundle: BundleView) -> Iterator[Finding]:
    """A string field has a number or a boolean, which some tools accept. The Go validators report OPM-CSV instead."""
    for file in OpmContent.from_bundle(bundle).of_kind(CRD_KIND):
        if not decode_crd(file, bundle.compat, DecodeMode.YAML).mismatches:
            yield from type_findings(file, decode_crd(file, bundle.compat, DecodeMode.OBJECT))


@rule(
    "OPM-CSV-CRDS",
    OPM,
    Severity.ERROR,
    "catalogs cannot read the owned and required CRDs",
    hint="Write owned and required as lists of name, version and kind.",
    bad="spec: {customresourcedefinitions: {owned: demos.example.com}}",
    good=_OWNED,
    compat=GO_ONLY,
)
def opm_csv_crds(bundle: BundleView) -> Iterator[Finding]:
    """The lists or fields in them have the wrong type, or the spec is missing.

    Only the Go validators report this; opmkit reports each field by the rules about types.
    """
    content = OpmContent.from_bundle(bundle)
    if content.csv is not None and not _unreadable(content) and not _are_listed(content.csv):
        where = ("spec", "customresourcedefinitions")
        yield Finding("cannot read the owned and required CRDs", content.csv.path, where)


def _are_listed(csv: ManifestView) -> bool:
    """Return True if the lists of CRDs have the right types."""
    spec = csv.object.get("spec")
    listed = mapping(spec).get("customresourcedefinitions") if isinstance(spec, dict) else ""
    if not isinstance(listed, dict):
        return listed is None
    lists = [listed.get("owned"), listed.get("required")]
    entries = [entry for entries in lists for entry in items(entries) if entry is not None]
    members = [mapping(entry).get(field) for entry in entries for field in ("group", "kind", "name", "version")]
    return (
        all(isinstance(entries, list | None) for entries in lists)
        and all(isinstance(entry, dict) for entry in entries)
        and all(isinstance(member, str | None) for member in members)
    )


@rule(
    "BUNDLE-OWNED-CRD-MISSING",
    OPM,
    Severity.ERROR,
    "missing CRD of an owned API",
    hint="Add the manifest of the CRD, or correct the name, version and kind of the owned entry.",
    bad=f"{_OWNED}  # the CRD defines the version v1beta1",
    good=f"{_OWNED}  # the CRD defines the version v1",
)
def opm_owned_crd_missing(bundle: BundleView) -> Iterator[Finding]:
    """The bundle must contain the CRD of each owned API, with the same name, version and kind.

    The Go validators use ``spec.version`` of a ``v1beta1`` CRD as its only version, and find no CRD for entries that
    are listed twice or have a group.
    """
    content = OpmContent.from_bundle(bundle)
    csv = content.csv
    if csv is None or _unreadable(content) or not _are_listed(csv):
        return
    is_opmkit = bundle.compat is Compat.OPMKIT
    defined = {api for file in content.of_kind(CRD_KIND) for api in _defined(file, all_versions=is_opmkit)}
    owned = mapping(mapping(csv.object.get("spec")).get("customresourcedefinitions")).get("owned")
    for number, entry in enumerate(items(owned)):
        name, version, kind, group = (text(mapping(entry).get(key)) for key in ("name", "version", "kind", "group"))
        if (name, version, kind) not in defined or (group and not is_opmkit):
            api = Gvk(crd_group(name) or name, version, kind)
            path = ("spec", "customresourcedefinitions", "owned", number)
            yield Finding(f"no CRD {name!r} in the bundle defines {api}", csv.path, path, subject=str(api))
        elif not is_opmkit:
            defined.discard((name, version, kind))


def _defined(crd: ManifestView, *, all_versions: bool) -> Iterator[tuple[str, str, str]]:
    """Return name, version and kind of the APIs that a CRD defines."""
    spec = mapping(crd.object.get("spec"))
    kind, api = text(mapping(spec.get("names")).get("kind")), crd.api_version.rpartition("/")[2]
    single = text(spec.get("version")) if api == "v1beta1" else ""
    versions = [text(mapping(version).get("name")) for version in items(spec.get("versions"))]
    if api in ("v1", "v1beta1"):
        for version in [single, *versions] if all_versions else [single] if single else versions:
            yield crd.object_name, version, kind


@rule(
    "BUNDLE-RELEASE-SUBSTITUTES",
    OPM,
    Severity.ERROR,
    "a bundle has both a release and olm.substitutesFor",
    hint="Remove spec.release or the annotation olm.substitutesFor.",
    bad="metadata: {annotations: {olm.substitutesFor: demo.v1.0.0}}\nspec: {version: 1.0.0, release: '1'}",
    good="metadata: {name: demo-v1.0.0-1}\nspec: {version: 1.0.0, release: '1'}",
    compat=RECENT,
)
def opm_release_substitutes(bundle: BundleView) -> Iterator[Finding]:
    """Both mark a bundle as a rebuild of the same version; catalogs accept only one of them."""
    content = OpmContent.from_bundle(bundle)
    csv = content.csv
    if csv is None or _unreadable(content):
        return
    substituted = text(mapping(csv.metadata.get("annotations")).get(labels.SUBSTITUTES_FOR))
    if substituted and mapping(csv.object.get("spec")).get("release") not in (None, ""):
        message = f"spec.release is set, and the bundle substitutes for {substituted!r}"
        yield Finding(message, csv.path, ("spec", "release"))
