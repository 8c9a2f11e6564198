"""Rules of the validators ``sdk-content`` and ``opm-content``: which objects a bundle holds, and their metadata.

``opm-content`` looks at every file of the manifests directory, and also runs the rules of ``csv`` and ``crd``:
:mod:`opmkit.bundle.validation.opm_content`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from opmkit.bundle.api_types.scalars import DecodeMode
from opmkit.bundle.finding import Severity
from opmkit.bundle.validation import loading
from opmkit.bundle.validation.bundle_view import CRD_KIND, CSV_KIND, items, mapping, text
from opmkit.bundle.validation.decode import as_loaded, decode_fault
from opmkit.bundle.validation.gvk import Gvk, crd_group
from opmkit.bundle.validation.kinds import supported_kinds
from opmkit.bundle.validation.loading import is_loaded, type_faults, version_fault
from opmkit.bundle.validation.media_type import NONE, REGISTRY, media_type
from opmkit.bundle.validation.object_metadata import metadata_findings
from opmkit.bundle.validation.opm_content import VALIDATOR as OPM
from opmkit.bundle.validation.opm_content import OpmContent
from opmkit.bundle.validation.rule import OURS, RECENT, REFERENCES, Dialect, Fault, rule
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
    remedy="Leave it out of the bundle, and let the operator create it where it is needed.",
    bad="apiVersion: batch/v1\nkind: CronJob",
    good="apiVersion: v1\nkind: ConfigMap",
)
def sdk_kind(bundle: BundleView) -> Iterator[Fault]:
    """The lifecycle manager installs objects of some kinds alone. Which, is told by the kind; groups don't count."""
    if media_type(bundle, bundle.manifests_directory) == REGISTRY:
        for file in _sdk_objects(bundle):
            if file.kind not in supported_kinds(bundle.dialect):
                yield _unsupported(file)


@rule(
    "OBJ-META",
    SDK,
    Severity.ERROR,
    "the metadata of an object is not valid",
    remedy="Give the object a name, no namespace, and labels and annotations as Kubernetes spells them.",
    bad=f"{_NAMED}, namespace: demo, labels: {{a b: c}}}}",
    good=f"{_NAMED}, labels: {{a-b: c}}}}",
)
def sdk_metadata(bundle: BundleView) -> Iterator[Fault]:
    """An object needs a name, and must not name a namespace, for the operator may be installed in any.

    Keys of labels and annotations are names with an optional domain before a slash; a label's value has 63 characters
    at most. A cluster refuses other metadata.
    """
    registry = media_type(bundle, bundle.manifests_directory) == REGISTRY
    for file in _sdk_objects(bundle):
        if not registry or file.kind in supported_kinds(bundle.dialect):
            yield from _metadata(file, bundle.dialect)


def _sdk_objects(bundle: BundleView) -> Iterator[Manifest]:
    """The objects that have no validator of their own; the references judge none unless all files can be loaded."""
    if bundle.dialect is not Dialect.OPMKIT and not is_loaded(bundle):
        return
    for file in (as_loaded(file, bundle.dialect) for file in bundle.manifests):
        if file.kind not in (CSV_KIND, CRD_KIND) and decode_fault(file) is None:
            yield file


def _unsupported(file: Manifest) -> Fault:
    api = Gvk.of(file.api_version, file.kind)
    told = f"a bundle may not hold objects of the kind {file.kind!r}" if file.kind else "the file says nothing"
    return Fault(told, file.path, ("kind",), subject=str(api))


def _metadata(file: Manifest, dialect: Dialect) -> Iterator[Fault]:
    if dialect is Dialect.OPMKIT:  # the references leave aside what has a wrong type
        yield from type_faults(file, decode_object(file, DecodeMode.JSON))
    for fault in metadata_findings(file.metadata):
        yield replace(fault, file=file.path)


@rule(
    loading.NO_FILES,
    OPM,
    Severity.ERROR,
    "the manifests directory is missing, or has no files",
    remedy="Put the ClusterServiceVersion and the CRDs right into the manifests directory.",
    bad="bundle/manifests/1.0.0/demo.clusterserviceversion.yaml",
    good="bundle/manifests/demo.clusterserviceversion.yaml",
)
def opm_no_files(bundle: BundleView) -> Iterator[Fault]:
    """The directory is ``manifests``, whatever the annotations say."""
    if OpmContent.of(bundle).media_type == NONE:
        yield Fault("the directory manifests has no files")


@rule(
    loading.SUBDIRECTORY,
    OPM,
    Severity.ERROR,
    "there is a directory among the manifests",
    remedy="Move its files up to the other manifests, or out of the bundle.",
    bad="bundle/manifests/crds/demos.yaml",
    good="bundle/manifests/demos.yaml",
)
def opm_subdirectory(bundle: BundleView) -> Iterator[Fault]:
    """A catalog reads the files of the manifests directory alone, so those below it would be lost without a word."""
    content = OpmContent.of(bundle)
    return loading.subdirectories(bundle, content.directory) if content.files else iter(())


@rule(
    loading.UNDECODABLE,
    OPM,
    Severity.ERROR,
    "a file among the manifests holds no object",
    remedy="Put its YAML right, or move what is no manifest out of the directory.",
    bad="apiVersion: v1\nmetadata: {name: demo}",
    good="apiVersion: v1\nkind: ConfigMap\nmetadata: {name: demo}",
)
def opm_undecodable(bundle: BundleView) -> Iterator[Fault]:
    """All files there, hidden ones too, must be YAML or JSON whose first document is an object with a kind.

    The references also say so of some fields with wrong types.
    """
    content = OpmContent.of(bundle)
    for file in content.files:
        if fault := decode_fault(file):
            yield fault
    if bundle.dialect is Dialect.OPMKIT:
        return
    if content.directory not in {"", *bundle.directories}:
        yield Fault("the directory manifests can't be read, for there is none")
    for file in content.of_kind(CSV_KIND):
        yield from list(_told(file, filter(_by_json, content.csv_type_faults(file)[:1])))
    for file in content.of_kind(CRD_KIND):
        yield from list(type_faults(file, decode_crd(file, bundle.dialect, DecodeMode.YAML)))[:1]
    for file in content.others:
        yield from list(type_faults(file, decode_object(file, DecodeMode.JSON)))[:1]


def _by_json(fault: TypeMismatch) -> bool:
    """Whether a type has a decoder of its own, whose complaint the references take for that of the whole file."""
    return fault.scalar in ("version", "release", "time", "intOrString")


def _told(file: Manifest, faults: Iterable[TypeMismatch]) -> Iterator[Fault]:
    return (loading.type_fault(file, fault) for fault in faults)


@rule(
    "KIND-UNSUPPORTED",
    OPM,
    Severity.ERROR,
    "a bundle holds an object of a kind that it may not hold",
    remedy="Leave it out of the bundle, and let the operator create it where it is needed.",
    bad="apiVersion: batch/v1\nkind: CronJob",
    good="apiVersion: v1\nkind: ConfigMap",
)
def opm_kind(bundle: BundleView) -> Iterator[Fault]:
    """The lifecycle manager installs objects of some kinds alone. Which, is told by the kind; groups don't count."""
    content = OpmContent.of(bundle)
    return (_opm_fault(bundle, _unsupported(file)) for file in content.objects if not content.supports(file))


def _opm_fault(bundle: BundleView, fault: Fault) -> Fault:
    """The references name no subject here; ours is that of the same rule elsewhere, so that it is told but once."""
    return fault if bundle.dialect is Dialect.OPMKIT else replace(fault, subject="")


@rule(
    loading.CSV_TYPE,
    OPM,
    Severity.ERROR,
    "a field of the ClusterServiceVersion has a wrong type",
    remedy="Write the value as the type that the field has.",
    bad="metadata: {annotations: {certified: true}}",
    good="metadata: {annotations: {certified: 'true'}}",
)
def opm_csv_type(bundle: BundleView) -> Iterator[Fault]:
    """Each field has a type, and no number or boolean is taken for a text here. The references tell the first fault."""
    content = OpmContent.of(bundle)
    for file in content.of_kind(CSV_KIND):
        faults = content.csv_type_faults(file)
        if bundle.dialect is not Dialect.OPMKIT:
            faults = tuple(fault for fault in faults[:1] if not _by_json(fault))
        yield from _told(file, faults)


@rule(
    loading.CRD_TYPE,
    OPM,
    Severity.ERROR,
    "a field of a CRD has a wrong type",
    remedy="Write the value as the type that the field has.",
    bad="spec: {names: demos}",
    good="spec: {names: {plural: demos, kind: Demo}}",
    dialects=OURS,
)
def opm_crd_type(bundle: BundleView) -> Iterator[Fault]:
    """Each field has a type: texts, numbers, lists. The references say that the file can't be decoded."""
    for file in OpmContent.of(bundle).of_kind(CRD_KIND):
        yield from type_faults(file, decode_crd(file, bundle.dialect, DecodeMode.YAML))


@rule(
    loading.CRD_VERSION,
    OPM,
    Severity.ERROR,
    "a CRD is of an unknown version",
    remedy="Migrate it to apiextensions.k8s.io/v1.",
    bad="apiVersion: apiextensions.k8s.io/v1alpha1\nkind: CustomResourceDefinition",
    good="apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition",
)
def opm_crd_version(bundle: BundleView) -> Iterator[Fault]:
    """There are the versions v1 and, of clusters before Kubernetes 1.22, v1beta1."""
    return (fault for file in OpmContent.of(bundle).of_kind(CRD_KIND) if (fault := version_fault(file)))


@rule(
    "OBJ-META",
    OPM,
    Severity.ERROR,
    "the metadata of an object is not valid",
    remedy="Give the object a name, no namespace, and labels and annotations as Kubernetes spells them.",
    bad=f"{_NAMED}, namespace: demo, labels: {{a b: c}}}}",
    good=f"{_NAMED}, labels: {{a-b: c}}}}",
)
def opm_metadata(bundle: BundleView) -> Iterator[Fault]:
    """An object needs a name, and must not name a namespace, for the operator may be installed in any.

    The references tell all that is wrong with an object in one finding.
    """
    for file in OpmContent.of(bundle).others:
        if bundle.dialect is Dialect.OPMKIT:
            yield from _metadata(file, bundle.dialect)
        elif faults := _metadata_as_go_reads_it(file):
            yield replace(faults[0], message="; ".join(fault.message for fault in faults), subject="")


def _metadata_as_go_reads_it(file: Manifest) -> list[Fault]:
    """Return the findings where the case of field names doesn't count, none if a field has a wrong type."""
    typed = decode_object(file, DecodeMode.JSON)
    if typed.mismatches:
        return []
    return [replace(fault, file=file.path) for fault in metadata_findings(mapping(typed.value.get("metadata")))]


@rule(
    loading.NO_CSV,
    OPM,
    Severity.ERROR,
    "there is no ClusterServiceVersion",
    remedy="Add one, for instance as `operator-sdk generate bundle` writes it.",
    bad="kind: Deployment",
    good="kind: ClusterServiceVersion",
)
def opm_no_csv(bundle: BundleView) -> Iterator[Fault]:
    """A bundle is one version of an operator, which its ClusterServiceVersion describes.

    The references break down on a bundle without one.
    """
    content = OpmContent.of(bundle)
    if bundle.dialect is Dialect.OPMKIT:
        yield from loading.no_csv(content.directory, content.files) if content.files else ()
    elif content.objects and content.csv is None and not _unreadable(content):
        yield Fault("no manifest is a ClusterServiceVersion")


@rule(
    "OPM-CSV",
    OPM,
    Severity.ERROR,
    "a catalog can't read the ClusterServiceVersion",
    remedy="Mend the fields with wrong types, in it or in the CRDs.",
    bad="spec: {version: 1.10}",
    good="spec: {version: 1.10.0}",
    dialects=REFERENCES,
)
def opm_csv(bundle: BundleView) -> Iterator[Fault]:
    """Metadata, version or a CRD has a field of a wrong type.

    Only the references tell it so; here the rules about types name each of these fields.
    """
    content = OpmContent.of(bundle)
    if fault := _unreadable(content):
        yield fault
    elif content.csv is not None:
        spec = content.csv.object.get("spec")
        version, release = mapping(spec).get("version"), mapping(spec).get("release")
        if not isinstance(spec, dict) or not isinstance(version, str | None):
            yield Fault("the version of the operator can't be read", content.csv.path, ("spec", "version"))
        elif bundle.dialect is Dialect.NEWEST and isinstance(release, bool | list | dict):
            yield Fault("the release of the operator can't be read", content.csv.path, ("spec", "release"))


def _unreadable(content: OpmContent) -> Fault | None:
    """The first field of a wrong type in what a catalog reads before all else."""
    if content.csv is not None:
        for fault in type_faults(content.csv, decode_object(content.csv, DecodeMode.OBJECT)):
            return fault
    for file in content.of_kind(CRD_KIND):
        for fault in type_faults(file, decode_crd(file, content.bundle.dialect, DecodeMode.OBJECT)):
            return fault
    return None


@rule(
    "OPM-CRDS",
    OPM,
    Severity.ERROR,
    "a catalog can't read a CRD",
    remedy="Put numbers and booleans that stand where a text belongs in quotes.",
    bad="openAPIV3Schema: {type: object, description: 1.0}",
    good="openAPIV3Schema: {type: object, description: '1.0'}",
    dialects=OURS,
)
def opm_crds(bundle: BundleView) -> Iterator[Fault]:
    """A number or a boolean stands where a text belongs, which some tools let pass. The references blame OPM-CSV."""
    for file in OpmContent.of(bundle).of_kind(CRD_KIND):
        if not decode_crd(file, bundle.dialect, DecodeMode.YAML).mismatches:
            yield from type_faults(file, decode_crd(file, bundle.dialect, DecodeMode.OBJECT))


@rule(
    "OPM-CSV-CRDS",
    OPM,
    Severity.ERROR,
    "a catalog can't read which CRDs the operator owns and requires",
    remedy="Write owned and required as lists of name, version and kind.",
    bad="spec: {customresourcedefinitions: {owned: demos.example.com}}",
    good=_OWNED,
    dialects=REFERENCES,
)
def opm_csv_crds(bundle: BundleView) -> Iterator[Fault]:
    """The lists, or fields in them, have wrong types; or there is no spec at all.

    Only the references tell it so; here the rules about types name each of these fields.
    """
    content = OpmContent.of(bundle)
    if content.csv is not None and not _unreadable(content) and not _are_listed(content.csv):
        where = ("spec", "customresourcedefinitions")
        yield Fault("the owned and required CRDs can't be read", content.csv.path, where)


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
    remedy="Add the manifest of the CRD, or correct name, version and kind of the owned entry.",
    bad=f"{_OWNED}  # the CRD defines the version v1beta1",
    good=f"{_OWNED}  # the CRD defines the version v1",
)
def opm_owned_crd_missing(bundle: BundleView) -> Iterator[Fault]:
    """What an operator owns comes with it: the CRD of that very name, with that version and kind.

    The references take ``spec.version`` of a ``v1beta1`` CRD for its only version, and find no CRD for an entry that is
    listed twice, or names a group.
    """
    content = OpmContent.of(bundle)
    csv = content.csv
    if csv is None or _unreadable(content) or not _are_listed(csv):
        return
    ours = bundle.dialect is Dialect.OPMKIT
    defined = {api for file in content.of_kind(CRD_KIND) for api in _defined(file, all_versions=ours)}
    listed = mapping(mapping(csv.object.get("spec")).get("customresourcedefinitions")).get("owned")
    for number, entry in enumerate(items(listed)):
        name, version, kind, group = (text(mapping(entry).get(key)) for key in ("name", "version", "kind", "group"))
        if (name, version, kind) not in defined or (group and not ours):
            api = Gvk(crd_group(name) or name, version, kind)
            path = ("spec", "customresourcedefinitions", "owned", number)
            yield Fault(f"no CRD in the bundle is named {name!r} and defines {api}", csv.path, path, subject=str(api))
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
    remedy="Remove spec.release or the annotation olm.substitutesFor.",
    bad="metadata: {annotations: {olm.substitutesFor: demo.v1.0.0}}\nspec: {version: 1.0.0, release: '1'}",
    good="metadata: {name: demo-v1.0.0-1}\nspec: {version: 1.0.0, release: '1'}",
    dialects=RECENT,
)
def opm_release_substitutes(bundle: BundleView) -> Iterator[Fault]:
    """Both say that a bundle is a rebuild of the same version, each in its own way; a catalog takes one of them."""
    content = OpmContent.of(bundle)
    csv = content.csv
    if csv is None or _unreadable(content):
        return
    substituted = text(mapping(csv.metadata.get("annotations")).get("olm.substitutesFor"))
    if substituted and mapping(csv.object.get("spec")).get("release") not in (None, ""):
        told = f"spec.release is set, but the bundle also substitutes for {substituted!r}"
        yield Fault(told, csv.path, ("spec", "release"))
