"""Rules of the validators ``sdk-content`` and ``opm-content``: which objects a bundle holds, and their metadata.

``opm-content`` looks at every file of the manifests directory, and also runs the rules of ``csv`` and ``crd``:
:mod:`opmkit.bundle.validation.opm_content`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from opmkit.bundle.api_types.scalars import DecodeMode
from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.lenient import items, mapping, text
from opmkit.bundle.validation import loading
from opmkit.bundle.validation.bundle_view import CRD_KIND, CSV_KIND
from opmkit.bundle.validation.compat import GO_ONLY, OPMKIT_ONLY, RECENT, Compat
from opmkit.bundle.validation.decode import as_loaded, decode_finding
from opmkit.bundle.validation.gvk import Gvk, crd_group
from opmkit.bundle.validation.kinds import supported_kinds
from opmkit.bundle.validation.loading import is_loaded, type_findings, version_finding
from opmkit.bundle.validation.media_type import NONE, REGISTRY, media_type
from opmkit.bundle.validation.object_metadata import metadata_findings
from opmkit.bundle.validation.opm_content import VALIDATOR as OPM
from opmkit.bundle.validation.opm_content import OpmContent
from opmkit.bundle.validation.rule import rule
from opmkit.bundle.validation.typed_manifests import decode_crd, decode_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opmkit.bundle.api_types.decode import TypeMismatch
    from opmkit.bundle.validation.bundle_view import BundleView, Manifest

SDK = "sdk-content"

_NAMED = "kind: ConfigMap\nmetadata: {name: demo"
_OWNED = "spec: {customresourcedefinitions: {owned: [{name: demos.example.com, version: v1, kind: Demo}]}}"


@rule(
    "KIND-UNSUPPORTED",
    SDK,
    Severity.ERROR,
    "a bundle holds an object of a kind that it may not hold",
    hint="Leave it out of the bundle, and let the operator create it where it is needed.",
    bad="apiVersion: batch/v1\nkind: CronJob",
    good="apiVersion: v1\nkind: ConfigMap",
)
def sdk_kind(bundle: BundleView) -> Iterator[Finding]:
    """The lifecycle manager installs objects of some kinds alone. Which, is told by the kind; groups don't count."""
    if media_type(bundle, bundle.manifests_directory) == REGISTRY:
        for file in _sdk_objects(bundle):
            if file.kind not in supported_kinds(bundle.compat):
                yield _unsupported(file)


@rule(
    "OBJ-META",
    SDK,
    Severity.ERROR,
    "the metadata of an object is not valid",
    hint="Give the object a name, no namespace, and labels and annotations as Kubernetes spells them.",
    bad=f"{_NAMED}, namespace: demo, labels: {{a b: c}}}}",
    good=f"{_NAMED}, labels: {{a-b: c}}}}",
)
def sdk_metadata(bundle: BundleView) -> Iterator[Finding]:
    """An object needs a name, and must not name a namespace, for the operator may be installed in any.

    Keys of labels and annotations are names with an optional domain before a slash; a label's value has 63 characters
    at most. A cluster refuses other metadata.
    """
    registry = media_type(bundle, bundle.manifests_directory) == REGISTRY
    for file in _sdk_objects(bundle):
        if not registry or file.kind in supported_kinds(bundle.compat):
            yield from _metadata(file, bundle.compat)


def _sdk_objects(bundle: BundleView) -> Iterator[Manifest]:
    """The objects that have no validator of their own; the references judge none unless all files can be loaded."""
    if bundle.compat is not Compat.OPMKIT and not is_loaded(bundle):
        return
    for file in (as_loaded(file, bundle.compat) for file in bundle.manifests):
        if file.kind not in (CSV_KIND, CRD_KIND) and decode_finding(file) is None:
            yield file


def _unsupported(file: Manifest) -> Finding:
    api = Gvk.of(file.api_version, file.kind)
    told = f"a bundle may not hold objects of the kind {file.kind!r}" if file.kind else "the file says nothing"
    return Finding(told, file.path, ("kind",), subject=str(api))


def _metadata(file: Manifest, compat: Compat) -> Iterator[Finding]:
    if compat is Compat.OPMKIT:  # the references leave aside what has a wrong type
        yield from type_findings(file, decode_object(file, DecodeMode.JSON))
    for finding in metadata_findings(file.metadata):
        yield replace(finding, file=file.path)


@rule(
    loading.NO_FILES,
    OPM,
    Severity.ERROR,
    "the manifests directory is missing, or has no files",
    hint="Put the ClusterServiceVersion and the CRDs right into the manifests directory.",
    bad="bundle/manifests/1.0.0/demo.clusterserviceversion.yaml",
    good="bundle/manifests/demo.clusterserviceversion.yaml",
)
def opm_no_files(bundle: BundleView) -> Iterator[Finding]:
    """The directory is ``manifests``, whatever the annotations say."""
    if OpmContent.of(bundle).media_type == NONE:
        yield Finding("the directory manifests has no files")


@rule(
    loading.SUBDIRECTORY,
    OPM,
    Severity.ERROR,
    "there is a directory among the manifests",
    hint="Move its files up to the other manifests, or out of the bundle.",
    bad="bundle/manifests/crds/demos.yaml",
    good="bundle/manifests/demos.yaml",
)
def opm_subdirectory(bundle: BundleView) -> Iterator[Finding]:
    """A catalog reads the files of the manifests directory alone, so those below it would be lost without a word."""
    content = OpmContent.of(bundle)
    return loading.subdirectories(bundle, content.directory) if content.files else iter(())


@rule(
    loading.UNDECODABLE,
    OPM,
    Severity.ERROR,
    "a file among the manifests holds no object",
    hint="Put its YAML right, or move what is no manifest out of the directory.",
    bad="apiVersion: v1\nmetadata: {name: demo}",
    good="apiVersion: v1\nkind: ConfigMap\nmetadata: {name: demo}",
)
def opm_undecodable(bundle: BundleView) -> Iterator[Finding]:
    """All files there, hidden ones too, must be YAML or JSON whose first document is an object with a kind.

    The references also say so of some fields with wrong types.
    """
    content = OpmContent.of(bundle)
    for file in content.files:
        if finding := decode_finding(file):
            yield finding
    if bundle.compat is Compat.OPMKIT:
        return
    if content.directory not in {"", *bundle.directories}:
        yield Finding("the directory manifests can't be read, for there is none")
    for file in content.of_kind(CSV_KIND):
        yield from list(_type_findings(file, filter(_by_json, content.csv_mismatches(file)[:1])))
    for file in content.of_kind(CRD_KIND):
        yield from list(type_findings(file, decode_crd(file, bundle.compat, DecodeMode.YAML)))[:1]
    for file in content.others:
        yield from list(type_findings(file, decode_object(file, DecodeMode.JSON)))[:1]


def _by_json(mismatch: TypeMismatch) -> bool:
    """Whether a type has a decoder of its own, whose complaint the references take for that of the whole file."""
    return mismatch.scalar in ("version", "release", "time", "intOrString")


def _type_findings(file: Manifest, mismatches: Iterable[TypeMismatch]) -> Iterator[Finding]:
    return (loading.type_finding(file, mismatch) for mismatch in mismatches)


@rule(
    "KIND-UNSUPPORTED",
    OPM,
    Severity.ERROR,
    "a bundle holds an object of a kind that it may not hold",
    hint="Leave it out of the bundle, and let the operator create it where it is needed.",
    bad="apiVersion: batch/v1\nkind: CronJob",
    good="apiVersion: v1\nkind: ConfigMap",
)
def opm_kind(bundle: BundleView) -> Iterator[Finding]:
    """The lifecycle manager installs objects of some kinds alone. Which, is told by the kind; groups don't count."""
    content = OpmContent.of(bundle)
    return (_opm_finding(bundle, _unsupported(file)) for file in content.objects if not content.supports(file))


def _opm_finding(bundle: BundleView, finding: Finding) -> Finding:
    """The references name no subject here; ours is that of the same rule elsewhere, so that it is told but once."""
    return finding if bundle.compat is Compat.OPMKIT else replace(finding, subject="")


@rule(
    loading.CSV_TYPE,
    OPM,
    Severity.ERROR,
    "a field of the ClusterServiceVersion has a wrong type",
    hint="Write the value as the type that the field has.",
    bad="metadata: {annotations: {certified: true}}",
    good="metadata: {annotations: {certified: 'true'}}",
)
def opm_csv_type(bundle: BundleView) -> Iterator[Finding]:
    """Each field has a type, and no number or boolean is taken for a text here. The references tell the first fault."""
    content = OpmContent.of(bundle)
    for file in content.of_kind(CSV_KIND):
        findings = content.csv_mismatches(file)
        if bundle.compat is not Compat.OPMKIT:
            findings = tuple(finding for finding in findings[:1] if not _by_json(finding))
        yield from _type_findings(file, findings)


@rule(
    loading.CRD_TYPE,
    OPM,
    Severity.ERROR,
    "a field of a CRD has a wrong type",
    hint="Write the value as the type that the field has.",
    bad="spec: {names: demos}",
    good="spec: {names: {plural: demos, kind: Demo}}",
    compat=OPMKIT_ONLY,
)
def opm_crd_type(bundle: BundleView) -> Iterator[Finding]:
    """Each field has a type: texts, numbers, lists. The references say that the file can't be decoded."""
    for file in OpmContent.of(bundle).of_kind(CRD_KIND):
        yield from type_findings(file, decode_crd(file, bundle.compat, DecodeMode.YAML))


@rule(
    loading.CRD_VERSION,
    OPM,
    Severity.ERROR,
    "a CRD is of an unknown version",
    hint="Migrate it to apiextensions.k8s.io/v1.",
    bad="apiVersion: apiextensions.k8s.io/v1alpha1\nkind: CustomResourceDefinition",
    good="apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition",
)
def opm_crd_version(bundle: BundleView) -> Iterator[Finding]:
    """There are the versions v1 and, of clusters before Kubernetes 1.22, v1beta1."""
    return (finding for file in OpmContent.of(bundle).of_kind(CRD_KIND) if (finding := version_finding(file)))


@rule(
    "OBJ-META",
    OPM,
    Severity.ERROR,
    "the metadata of an object is not valid",
    hint="Give the object a name, no namespace, and labels and annotations as Kubernetes spells them.",
    bad=f"{_NAMED}, namespace: demo, labels: {{a b: c}}}}",
    good=f"{_NAMED}, labels: {{a-b: c}}}}",
)
def opm_metadata(bundle: BundleView) -> Iterator[Finding]:
    """An object needs a name, and must not name a namespace, for the operator may be installed in any.

    The references tell all that is wrong with an object in one finding.
    """
    for file in OpmContent.of(bundle).others:
        if bundle.compat is Compat.OPMKIT:
            yield from _metadata(file, bundle.compat)
        elif findings := _metadata_as_go_reads_it(file):
            yield replace(findings[0], message="; ".join(finding.message for finding in findings), subject="")


def _metadata_as_go_reads_it(file: Manifest) -> list[Finding]:
    """Return the findings where the case of field names doesn't count, none if a field has a wrong type."""
    typed = decode_object(file, DecodeMode.JSON)
    if typed.mismatches:
        return []
    return [replace(finding, file=file.path) for finding in metadata_findings(mapping(typed.value.get("metadata")))]


@rule(
    loading.NO_CSV,
    OPM,
    Severity.ERROR,
    "there is no ClusterServiceVersion",
    hint="Add one, for instance as `operator-sdk generate bundle` writes it.",
    bad="kind: Deployment",
    good="kind: ClusterServiceVersion",
)
def opm_no_csv(bundle: BundleView) -> Iterator[Finding]:
    """A bundle is one version of an operator, which its ClusterServiceVersion describes.

    The references break down on a bundle without one.
    """
    content = OpmContent.of(bundle)
    if bundle.compat is Compat.OPMKIT:
        yield from loading.no_csv(content.directory, content.files) if content.files else ()
    elif content.objects and content.csv is None and not _unreadable(content):
        yield Finding("no manifest is a ClusterServiceVersion")


@rule(
    "OPM-CSV",
    OPM,
    Severity.ERROR,
    "a catalog can't read the ClusterServiceVersion",
    hint="Mend the fields with wrong types, in it or in the CRDs.",
    bad="spec: {version: 1.10}",
    good="spec: {version: 1.10.0}",
    compat=GO_ONLY,
)
def opm_csv(bundle: BundleView) -> Iterator[Finding]:
    """Metadata, version or a CRD has a field of a wrong type.

    Only the references tell it so; here the rules about types name each of these fields.
    """
    content = OpmContent.of(bundle)
    if finding := _unreadable(content):
        yield finding
    elif content.csv is not None:
        spec = content.csv.object.get("spec")
        version, release = mapping(spec).get("version"), mapping(spec).get("release")
        if not isinstance(spec, dict) or not isinstance(version, str | None):
            yield Finding("the version of the operator can't be read", content.csv.path, ("spec", "version"))
        elif bundle.compat is Compat.NEWEST and isinstance(release, bool | list | dict):
            yield Finding("the release of the operator can't be read", content.csv.path, ("spec", "release"))


def _unreadable(content: OpmContent) -> Finding | None:
    """The first field of a wrong type in what a catalog reads before all else."""
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
    "a catalog can't read a CRD",
    hint="Put numbers and booleans that stand where a text belongs in quotes.",
    bad="openAPIV3Schema: {type: object, description: 1.0}",
    good="openAPIV3Schema: {type: object, description: '1.0'}",
    compat=OPMKIT_ONLY,
)
def opm_crds(bundle: BundleView) -> Iterator[Finding]:
    """A number or a boolean stands where a text belongs, which some tools let pass. The references blame OPM-CSV."""
    for file in OpmContent.of(bundle).of_kind(CRD_KIND):
        if not decode_crd(file, bundle.compat, DecodeMode.YAML).mismatches:
            yield from type_findings(file, decode_crd(file, bundle.compat, DecodeMode.OBJECT))


@rule(
    "OPM-CSV-CRDS",
    OPM,
    Severity.ERROR,
    "a catalog can't read which CRDs the operator owns and requires",
    hint="Write owned and required as lists of name, version and kind.",
    bad="spec: {customresourcedefinitions: {owned: demos.example.com}}",
    good=_OWNED,
    compat=GO_ONLY,
)
def opm_csv_crds(bundle: BundleView) -> Iterator[Finding]:
    """The lists, or fields in them, have wrong types; or there is no spec at all.

    Only the references tell it so; here the rules about types name each of these fields.
    """
    content = OpmContent.of(bundle)
    if content.csv is not None and not _unreadable(content) and not _are_listed(content.csv):
        where = ("spec", "customresourcedefinitions")
        yield Finding("the owned and required CRDs can't be read", content.csv.path, where)


def _are_listed(csv: Manifest) -> bool:
    """Tell whether the lists of CRDs have the types that they should have."""
    spec = csv.object.get("spec")
    listed = mapping(spec).get("customresourcedefinitions") if isinstance(spec, dict) else ""
    if not isinstance(listed, dict):
        return listed is None
    lists = [listed.get("owned"), listed.get("required")]
    entries = [entry for one in lists for entry in items(one) if entry is not None]
    texts = [mapping(entry).get(field) for entry in entries for field in ("group", "kind", "name", "version")]
    return (
        all(isinstance(one, list | None) for one in lists)
        and all(isinstance(entry, dict) for entry in entries)
        and all(isinstance(one, str | None) for one in texts)
    )


@rule(
    "BUNDLE-OWNED-CRD-MISSING",
    OPM,
    Severity.ERROR,
    "a bundle lacks the CRD of an API that its ClusterServiceVersion owns",
    hint="Add the manifest of the CRD, or correct name, version and kind of the owned entry.",
    bad=f"{_OWNED}  # the CRD defines the version v1beta1",
    good=f"{_OWNED}  # the CRD defines the version v1",
)
def opm_owned_crd_missing(bundle: BundleView) -> Iterator[Finding]:
    """What an operator owns comes with it: the CRD of that very name, with that version and kind.

    The references take ``spec.version`` of a ``v1beta1`` CRD for its only version, and find no CRD for an entry that is
    listed twice, or names a group.
    """
    content = OpmContent.of(bundle)
    csv = content.csv
    if csv is None or _unreadable(content) or not _are_listed(csv):
        return
    ours = bundle.compat is Compat.OPMKIT
    defined = {api for file in content.of_kind(CRD_KIND) for api in _defined(file, all_versions=ours)}
    listed = mapping(mapping(csv.object.get("spec")).get("customresourcedefinitions")).get("owned")
    for number, entry in enumerate(items(listed)):
        name, version, kind, group = (text(mapping(entry).get(key)) for key in ("name", "version", "kind", "group"))
        if (name, version, kind) not in defined or (group and not ours):
            api = Gvk(crd_group(name) or name, version, kind)
            path = ("spec", "customresourcedefinitions", "owned", number)
            yield Finding(f"no CRD in the bundle is named {name!r} and defines {api}", csv.path, path, subject=str(api))
        elif not ours:
            defined.discard((name, version, kind))


def _defined(crd: Manifest, *, all_versions: bool) -> Iterator[tuple[str, str, str]]:
    """Name, version and kind of what a CRD defines."""
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
    "a bundle has a release and substitutes for another",
    hint="Remove spec.release or the annotation olm.substitutesFor.",
    bad="metadata: {annotations: {olm.substitutesFor: demo.v1.0.0}}\nspec: {version: 1.0.0, release: '1'}",
    good="metadata: {name: demo-v1.0.0-1}\nspec: {version: 1.0.0, release: '1'}",
    compat=RECENT,
)
def opm_release_substitutes(bundle: BundleView) -> Iterator[Finding]:
    """Both say that a bundle is a rebuild of the same version, each in its own way; a catalog takes one of them."""
    content = OpmContent.of(bundle)
    csv = content.csv
    if csv is None or _unreadable(content):
        return
    substituted = text(mapping(csv.metadata.get("annotations")).get("olm.substitutesFor"))
    if substituted and mapping(csv.object.get("spec")).get("release") not in (None, ""):
        told = f"spec.release is set, but the bundle also substitutes for {substituted!r}"
        yield Finding(told, csv.path, ("spec", "release"))
