"""Rules of the validator ``crd``: what an API server refuses when a CustomResourceDefinition is created.

After ``ValidateCustomResourceDefinition`` of k8s.io/apiextensions-apiserver; schemas are in :mod:`.crd_schema`, the way
between versions in :mod:`.crd_conversion`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from opmkit.bundle.field_path import format_path
from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.kubernetes_names import dns1035_label, dns1123_subdomain
from opmkit.bundle.lenient import mapping, scalar_text
from opmkit.bundle.validation.compat import Compat
from opmkit.bundle.validation.crd_view import Crd, crd_check, known_crds
from opmkit.bundle.validation.object_metadata import metadata_findings
from opmkit.bundle.validation.rule import rule
from opmkit.bundle.validation.urls import parse_request_url

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opmkit.bundle.validation.bundle_view import BundleView

_APPROVED = "api-approved.kubernetes.io"
_PROTECTED = ("k8s.io", "kubernetes.io")


@rule(
    "CRD-NAME-MISMATCH",
    "crd",
    Severity.ERROR,
    "the name of a CRD is not its plural, a dot and its group",
    hint="Set metadata.name to spec.names.plural, a dot and spec.group.",
    bad="metadata: {name: demo.example.com}\nspec: {group: example.com, names: {plural: demos}}",
    good="metadata: {name: demos.example.com}\nspec: {group: example.com, names: {plural: demos}}",
)
@crd_check
def name_mismatch(crd: Crd) -> Iterator[Finding]:
    """The API server finds the definition of a resource by that name, and refuses a CRD that has another."""
    name, wanted = crd.root.at("metadata", "name"), f"{crd.plural}.{crd.group.text}"
    if name.text and name.text != wanted:
        yield name.finding(f"is {name.text!r}, but plural and group make it {wanted!r}")


@rule(
    "CRD-META",
    "crd",
    Severity.ERROR,
    "the metadata of a CRD is incomplete, misspelt, or has what a CRD can't have",
    hint="Give it a name, no namespace, and labels and annotations with keys such as example.com/name.",
    bad="metadata: {name: demos.example.com, namespace: demo}",
    good="metadata: {name: demos.example.com}",
)
@crd_check
def metadata(crd: Crd) -> Iterator[Finding]:
    """CRDs live outside of namespaces. Their names, labels and annotations are spelt as those of all objects."""
    node = crd.root.child("metadata")
    for finding in metadata_findings(mapping(node.value)):
        yield replace(finding, subject=format_path(finding.path))
    for field in ("name", "generateName"):
        name = node.child(field)
        if name.text:
            yield from name.misspelt(dns1123_subdomain(name.text))


@rule(
    "CRD-GROUP",
    "crd",
    Severity.ERROR,
    "the API group of a CRD is missing or no domain",
    hint="Set spec.group to a domain of yours in lower case, such as example.com.",
    bad="spec: {group: demo}",
    good="spec: {group: demo.example.com}",
)
@crd_check
def group(crd: Crd) -> Iterator[Finding]:
    """Groups are domains with a dot at least, so that two authors never define the same API."""
    if not crd.group.text:
        yield crd.group.finding("is empty")
    elif problems := dns1123_subdomain(crd.group.text):
        yield from crd.group.misspelt(problems)
    elif "." not in crd.group.text:
        yield crd.group.finding(f"is {crd.group.text!r}, a domain without a dot")


@rule(
    "CRD-SCOPE",
    "crd",
    Severity.ERROR,
    "the scope of a CRD is neither Cluster nor Namespaced",
    hint="Set spec.scope to Namespaced or Cluster.",
    bad="spec: {scope: Namespace}",
    good="spec: {scope: Namespaced}",
)
@crd_check
def scope(crd: Crd) -> Iterator[Finding]:
    """Whether objects of a kind live in namespaces has to be said; only ``v1beta1`` has a default, Namespaced."""
    if crd.scope.text not in ("Cluster", "Namespaced"):
        yield crd.scope.finding(f"is {crd.scope.text!r}, neither Cluster nor Namespaced")


@rule(
    "CRD-NAMES",
    "crd",
    Severity.ERROR,
    "a name of the resource that a CRD defines is missing or misspelt",
    hint="Write names of lower case letters, digits and '-'; a kind may have capitals too.",
    bad="names: {plural: demo_things, kind: Demo, listKind: Demo}",
    good="names: {plural: demothings, kind: Demo, listKind: DemoList}",
)
@crd_check
def names(crd: Crd) -> Iterator[Finding]:
    """Plural, singular, kind, list kind, short names and categories stand in URLs and on command lines.

    Plural and kind are required, singular and list kind follow from the kind where they are not given. Kind and list
    kind must differ, for a reader could not tell an object from a list.
    """
    kind, list_kind = crd.names.child("kind"), crd.list_kind
    for node in (crd.names.child("plural"), crd.singular, kind, list_kind):
        if not node.text:
            yield node.finding("is empty")
        else:
            text = node.text.lower() if node.path[-1] in ("kind", "listKind") else node.text
            yield from node.misspelt(dns1035_label(text))
    if kind.text and kind.text == list_kind.text:
        yield list_kind.finding(f"is {kind.text!r}, as the kind itself")
    for several in ("shortNames", "categories"):
        for node in crd.names.child(several).children():
            yield from node.misspelt(dns1035_label(node.text))


@rule(
    "CRD-STORAGE-VERSION",
    "crd",
    Severity.ERROR,
    "not exactly one version of a CRD is the one that is stored",
    hint="Set storage: true for one version, and storage: false for all others.",
    bad="versions: [{name: v1, served: true, storage: false}]",
    good="versions: [{name: v1, served: true, storage: true}]",
)
@crd_check
def storage_version(crd: Crd) -> Iterator[Finding]:
    """A cluster keeps all objects of a resource in one version, and converts when another is asked for."""
    stored = [version.child("name").text for version in crd.versions if version.child("storage").value is True]
    if len(stored) != 1:
        told = f"marks {len(stored)} versions as stored ({', '.join(stored)})" if stored else "marks none as stored"
        yield crd.spec.child("versions").finding(told)


@rule(
    "CRD-VERSION-DUPLICATE",
    "crd",
    Severity.ERROR,
    "a CRD has two versions of the same name",
    hint="Give each version a name of its own, or remove one.",
    bad="versions: [{name: v1}, {name: v1}]",
    good="versions: [{name: v1}, {name: v1beta1}]",
)
@crd_check
def version_duplicate(crd: Crd) -> Iterator[Finding]:
    """A version is known by its name alone."""
    seen: set[str] = set()
    for name in (version.child("name") for version in crd.versions):
        if name.text in seen:
            told = f"{name.where} is {name.text!r}, as that of a version before"
            yield Finding(told, path=name.path, subject="spec.versions")
            return  # the references report it once, however many there are
        seen.add(name.text)


@rule(
    "CRD-VERSION-NAME",
    "crd",
    Severity.ERROR,
    "the name of a version of a CRD is misspelt",
    hint="Write a name such as v1, v1beta1 or v2alpha1.",
    bad="versions: [{name: '1.0'}]",
    good="versions: [{name: v1}]",
)
@crd_check
def version_name(crd: Crd) -> Iterator[Finding]:
    """It stands in URLs, so it is a DNS label: lower case letters, digits and '-', with a letter first."""
    for version in crd.versions:
        name = version.child("name")
        yield from name.misspelt(dns1035_label(name.text))


@rule(
    "CRD-V1BETA1-VERSION",
    "crd",
    Severity.ERROR,
    "the version at the top of a v1beta1 CRD is misspelt, or not the first of its versions",
    hint="Remove spec.version, or make it the name of the first version.",
    bad="spec: {version: v1alpha1, versions: [{name: v1}]}",
    good="spec: {versions: [{name: v1}]}",
)
def v1beta1_version(bundle: BundleView) -> Iterable[Finding]:
    """``spec.version`` is the older form of ``spec.versions`` and must agree with it.

    The references report a misspelt first version of a ``v1`` CRD too, as if it stood at the top.
    """
    findings = _v1beta1_version(bundle)
    if bundle.compat is not Compat.OPMKIT:
        return findings
    old = {manifest.path for manifest in known_crds(bundle) if not Crd.from_manifest(manifest).is_v1}
    return (finding for finding in findings if finding.file in old)


@crd_check
def _v1beta1_version(crd: Crd) -> Iterator[Finding]:
    if crd.version.text:
        yield from crd.version.misspelt(dns1035_label(crd.version.text))
        if crd.versions and crd.versions[0].child("name").text != crd.version.text:
            first = crd.versions[0].child("name").text
            yield crd.version.finding(f"is {crd.version.text!r}, but the first of spec.versions is {first!r}")


@rule(
    "CRD-DEPRECATION-WARNING",
    "crd",
    Severity.ERROR,
    "the deprecation warning of a version of a CRD can't be shown",
    hint="Set deprecated: true, and a warning of one line with 256 bytes at most.",
    bad="versions: [{name: v1alpha1, deprecationWarning: use v1}]",
    good="versions: [{name: v1alpha1, deprecated: true, deprecationWarning: use v1}]",
)
@crd_check
def deprecation_warning(crd: Crd) -> Iterator[Finding]:
    """Clients show it to whoever uses the version: it must be short, printable, and of a deprecated version."""
    for version in crd.versions:
        warning = version.child("deprecationWarning")
        if warning.present:
            for problem in _warning_problems(warning.text, deprecated=version.child("deprecated").value is True):
                yield warning.finding(problem, subject=warning.field)


def _warning_problems(text: str, *, deprecated: bool) -> Iterator[str]:
    if not deprecated:
        yield "is set, but the version is not deprecated"
        return
    if not text:
        yield "is empty"
    if len(text.encode(errors="surrogatepass")) > 256:
        yield "is longer than 256 bytes"
    if not text.isprintable():
        yield "has characters that can't be printed"


@rule(
    "CRD-PRESERVE-UNKNOWN-FIELDS",
    "crd",
    Severity.ERROR,
    "a CRD keeps fields that its schema does not know",
    hint="Set spec.preserveUnknownFields to false, or better migrate the CRD to apiextensions.k8s.io/v1.",
    bad="apiVersion: apiextensions.k8s.io/v1beta1\nspec: {group: example.com}",
    good="apiVersion: apiextensions.k8s.io/v1\nspec: {group: example.com, preserveUnknownFields: false}",
)
@crd_check
def preserve_unknown_fields(crd: Crd) -> Iterator[Finding]:
    """Clusters take new CRDs only if they prune unknown fields. A ``v1beta1`` CRD keeps them unless it says otherwise.

    Where part of an object is to be kept as it is, say so in the schema, by ``x-kubernetes-preserve-unknown-fields``.
    """
    if crd.preserves_unknown_fields:
        node = crd.spec.child("preserveUnknownFields")
        told = "is true" if node.present else "is true, as it is in v1beta1 where it is not given"
        yield node.finding(told, subject=node.field)
        if crd.has_defaults:
            yield node.finding("must be false for the defaults in the schema", subject=node.field)


@rule(
    "CRD-API-APPROVED",
    "crd",
    Severity.ERROR,
    "a CRD of a Kubernetes group has no approval",
    hint=f"Use a group of your own domain, or annotate the CRD with {_APPROVED}: URL of the approval.",
    bad="spec: {group: demo.k8s.io}",
    good="spec: {group: demo.example.com}",
)
@crd_check
def api_approved(crd: Crd) -> Iterator[Finding]:
    """Groups below k8s.io and kubernetes.io are kept for Kubernetes' own APIs.

    A CRD in one needs an annotation with the URL of the review that approved it, or with "unapproved" and a reason.
    """
    name = crd.group.text
    if name not in _PROTECTED and not name.endswith(tuple(f".{each}" for each in _PROTECTED)):
        return
    annotations = crd.root.at("metadata", "annotations")
    field, path = f"metadata.annotations[{_APPROVED}]", (*annotations.path, _APPROVED)
    approval = scalar_text(mapping(annotations.value).get(_APPROVED)) or ""
    if not approval:
        yield Finding(f"the group {name!r} is one of Kubernetes, and {field} is not set", path=path, subject=field)
    elif not _is_approval(approval):
        told = f"{field} is {approval!r}, neither a URL nor a text that begins with unapproved"
        yield Finding(told, path=path, subject=approval)


def _is_approval(text: str) -> bool:
    if text.startswith("unapproved"):
        return True
    try:
        url = parse_request_url(text)
    except ValueError:
        return False
    return bool(url.host and url.scheme)
