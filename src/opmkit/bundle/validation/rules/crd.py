"""Rules of the validator ``crd``: conditions under which an API server accepts a CustomResourceDefinition.

They follow ``ValidateCustomResourceDefinition`` of k8s.io/apiextensions-apiserver. Rules about schemas are in
:mod:`.crd_schema`, those about conversion in :mod:`.crd_conversion`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.kubernetes_names import dns1035_label, dns1123_subdomain
from opmkit.bundle.validation.compat import Compat
from opmkit.bundle.validation.crd_view import Crd, crd_check, known_crds
from opmkit.bundle.validation.object_metadata import ValueNode, metadata_findings
from opmkit.bundle.validation.rule import rule
from opmkit.bundle.validation.urls import parse_request_url, parse_url
from opmkit.documents.fields import format_path
from opmkit.documents.lenient import mapping, scalar_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opmkit.bundle.validation.bundle_view import BundleView


_APPROVED = "api-approved.kubernetes.io"
_PROTECTED = ("k8s.io", "kubernetes.io")


@rule(
    "CRD-NAME-MISMATCH",
    "crd",
    Severity.ERROR,
    "the name of a CRD is not PLURAL.GROUP",
    hint="Set metadata.name to spec.names.plural, a dot and spec.group.",
    bad="metadata: {name: demo.example.com}\nspec: {group: example.com, names: {plural: demos}}",
    good="metadata: {name: demos.example.com}\nspec: {group: example.com, names: {plural: demos}}",
)
@crd_check
def name_mismatch(crd: Crd) -> Iterator[Finding]:
    """The API server looks up the definition of a resource by this name and rejects a CRD with another one."""
    name, wanted = crd.root.at("metadata", "name"), f"{crd.plural}.{crd.group.text}"
    if name.text and name.text != wanted:
        yield name.finding(f"is {name.text!r}; plural and group require {wanted!r}")


@rule(
    "CRD-META",
    "crd",
    Severity.ERROR,
    "invalid metadata of a CRD",
    hint="Set a name, no namespace, and labels and annotations with keys such as example.com/name.",
    bad="metadata: {name: demos.example.com, namespace: demo}",
    good="metadata: {name: demos.example.com}",
)
@crd_check
def metadata(crd: Crd) -> Iterator[Finding]:
    """CRDs are cluster-scoped. Their names, labels and annotations follow the rules for all Kubernetes objects."""
    node = crd.root.child("metadata")
    for finding in metadata_findings(mapping(node.value)):
        yield replace(finding, subject=format_path(finding.path))
    for field in ("name", "generateName"):
        name = node.child(field)
        if name.text:
            yield from name.name_findings(dns1123_subdomain(name.text))


@rule(
    "CRD-GROUP",
    "crd",
    Severity.ERROR,
    "missing or invalid API group of a CRD",
    hint="Set spec.group to a domain that you own, in lower case, such as example.com.",
    bad="spec: {group: demo}",
    good="spec: {group: demo.example.com}",
)
@crd_check
def group(crd: Crd) -> Iterator[Finding]:
    """Groups are domain names with at least one dot, so that the APIs of different authors do not conflict."""
    if not crd.group.text:
        yield crd.group.finding("is empty")
    elif problems := dns1123_subdomain(crd.group.text):
        yield from crd.group.name_findings(problems)
    elif "." not in crd.group.text:
        yield crd.group.finding(f"is {crd.group.text!r}, which has no dot")


@rule(
    "CRD-SCOPE",
    "crd",
    Severity.ERROR,
    "missing or invalid scope of a CRD",
    hint="Set spec.scope to Namespaced or Cluster.",
    bad="spec: {scope: Namespace}",
    good="spec: {scope: Namespaced}",
)
@crd_check
def scope(crd: Crd) -> Iterator[Finding]:
    """The scope is required in ``v1``; in ``v1beta1`` it defaults to Namespaced."""
    if crd.scope.text not in ("Cluster", "Namespaced"):
        yield crd.scope.finding(f"is {crd.scope.text!r}, not Cluster or Namespaced")


@rule(
    "CRD-NAMES",
    "crd",
    Severity.ERROR,
    "missing or invalid resource name in a CRD",
    hint="Use only lower case letters, digits and '-' in names; kinds may have upper case letters too.",
    bad="names: {plural: demo_things, kind: Demo, listKind: Demo}",
    good="names: {plural: demothings, kind: Demo, listKind: DemoList}",
)
@crd_check
def names(crd: Crd) -> Iterator[Finding]:
    """Plural, singular, kind, list kind, short names and categories are used in URLs and on command lines.

    Plural and kind are required; singular and list kind default to names derived from the kind. Kind and list kind must
    differ.
    """
    kind, list_kind = crd.names.child("kind"), crd.list_kind
    for node in (crd.names.child("plural"), crd.singular, kind, list_kind):
        if not node.text:
            yield node.finding("is empty")
        else:
            text = node.text.lower() if node.path[-1] in ("kind", "listKind") else node.text
            yield from node.name_findings(dns1035_label(text))
    if kind.text and kind.text == list_kind.text:
        yield list_kind.finding(f"is {kind.text!r}, the same as the kind")
    for several in ("shortNames", "categories"):
        for node in crd.names.child(several).children():
            yield from node.name_findings(dns1035_label(node.text))


@rule(
    "CRD-STORAGE-VERSION",
    "crd",
    Severity.ERROR,
    "a CRD does not have exactly one storage version",
    hint="Set storage: true for one version and storage: false for all others.",
    bad="versions: [{name: v1, served: true, storage: false}]",
    good="versions: [{name: v1, served: true, storage: true}]",
)
@crd_check
def storage_version(crd: Crd) -> Iterator[Finding]:
    """Clusters store all objects of a resource in one version, and convert them to others on request."""
    stored = [version.child("name").text for version in crd.versions if version.child("storage").value is True]
    if len(stored) != 1:
        message = f"has {len(stored)} storage versions ({', '.join(stored)})" if stored else "has no storage version"
        yield crd.spec.child("versions").finding(message)


@rule(
    "CRD-VERSION-DUPLICATE",
    "crd",
    Severity.ERROR,
    "duplicate version of a CRD",
    hint="Give each version a unique name, or remove one.",
    bad="versions: [{name: v1}, {name: v1}]",
    good="versions: [{name: v1}, {name: v1beta1}]",
)
@crd_check
def version_duplicate(crd: Crd) -> Iterator[Finding]:
    """Versions are identified by their names."""
    seen: set[str] = set()
    for name in (version.child("name") for version in crd.versions):
        if name.text in seen:
            message = f"{name.where} is {name.text!r}, which is listed twice"
            yield Finding(message, path=name.path, subject="spec.versions")
            return  # the Go validators report only one
        seen.add(name.text)


@rule(
    "CRD-VERSION-NAME",
    "crd",
    Severity.ERROR,
    "invalid version name in a CRD",
    hint="Use a name such as v1, v1beta1 or v2alpha1.",
    bad="versions: [{name: '1.0'}]",
    good="versions: [{name: v1}]",
)
@crd_check
def version_name(crd: Crd) -> Iterator[Finding]:
    """The name is part of URLs, so it must be a DNS label: lower case letters, digits and '-', with a letter first."""
    for version in crd.versions:
        name = version.child("name")
        yield from name.name_findings(dns1035_label(name.text))


@rule(
    "CRD-V1BETA1-VERSION",
    "crd",
    Severity.ERROR,
    "spec.version of a v1beta1 CRD is invalid, or not the first of spec.versions",
    hint="Remove spec.version, or set it to the name of the first version.",
    bad="spec: {version: v1alpha1, versions: [{name: v1}]}",
    good="spec: {versions: [{name: v1}]}",
)
def v1beta1_version(bundle: BundleView) -> Iterable[Finding]:
    """``spec.version`` is the older form of ``spec.versions`` and must be consistent with it.

    The Go validators also report an invalid first version of a ``v1`` CRD.
    """
    findings = _v1beta1_version(bundle)
    if bundle.compat is not Compat.OPMKIT:
        return findings
    old = {manifest.path for manifest in known_crds(bundle) if not Crd.from_manifest(manifest).is_v1}
    return (finding for finding in findings if finding.file in old)


@crd_check
def _v1beta1_version(crd: Crd) -> Iterator[Finding]:
    if crd.version.text:
        yield from crd.version.name_findings(dns1035_label(crd.version.text))
        if crd.versions and crd.versions[0].child("name").text != crd.version.text:
            first = crd.versions[0].child("name").text
            yield crd.version.finding(f"is {crd.version.text!r}, but the first of spec.versions is {first!r}")


@rule(
    "CRD-DEPRECATION-WARNING",
    "crd",
    Severity.ERROR,
    "invalid deprecation warning of a CRD version",
    hint="Set deprecated: true, and a warning of one line with at most 256 bytes.",
    bad="versions: [{name: v1alpha1, deprecationWarning: use v1}]",
    good="versions: [{name: v1alpha1, deprecated: true, deprecationWarning: use v1}]",
)
@crd_check
def deprecation_warning(crd: Crd) -> Iterator[Finding]:
    """Clients print the warning when the version is used. It must be short, printable, and of a deprecated version."""
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
        yield "has non-printable characters"


@rule(
    "CRD-PRESERVE-UNKNOWN-FIELDS",
    "crd",
    Severity.ERROR,
    "a CRD preserves unknown fields",
    hint="Set spec.preserveUnknownFields to false, or better, migrate the CRD to apiextensions.k8s.io/v1.",
    bad="apiVersion: apiextensions.k8s.io/v1beta1\nspec: {group: example.com}",
    good="apiVersion: apiextensions.k8s.io/v1\nspec: {group: example.com, preserveUnknownFields: false}",
)
@crd_check
def preserve_unknown_fields(crd: Crd) -> Iterator[Finding]:
    """Clusters accept new CRDs only if they prune unknown fields. ``v1beta1`` CRDs preserve them by default.

    To preserve them in a part of an object, use ``x-kubernetes-preserve-unknown-fields`` in the schema.
    """
    if crd.preserves_unknown_fields:
        node = crd.spec.child("preserveUnknownFields")
        message = "is true" if node.present else "is true, the default of v1beta1"
        yield node.finding(message, subject=node.field)
        if crd.has_defaults:
            yield node.finding("must be false if the schema has defaults", subject=node.field)


@rule(
    "CRD-API-APPROVED",
    "crd",
    Severity.ERROR,
    "a CRD in a protected API group has no approval",
    hint=f"Use a group in your own domain, or set the annotation {_APPROVED} to the URL of the approval.",
    bad="spec: {group: demo.k8s.io}",
    good="spec: {group: demo.example.com}",
)
@crd_check
def api_approved(crd: Crd) -> Iterator[Finding]:
    """API groups below k8s.io and kubernetes.io are reserved for Kubernetes.

    A CRD in such a group needs an annotation with the URL of its API review, or with "unapproved" and a reason.
    """
    name = crd.group.text
    if name not in _PROTECTED and not name.endswith(tuple(f".{group}" for group in _PROTECTED)):
        return
    annotations = crd.root.at("metadata", "annotations")
    field, path = f"metadata.annotations[{_APPROVED}]", (*annotations.path, _APPROVED)
    approval = scalar_text(mapping(annotations.value).get(_APPROVED)) or ""
    if not approval:
        yield Finding(f"group {name!r} is reserved for Kubernetes, and {field} is not set", path=path, subject=field)
    elif not _is_approval(approval):
        message = f"{field} is {approval!r}, which is not a URL and does not begin with 'unapproved'"
        yield Finding(message, path=path, subject=approval)


def _is_approval(text: str) -> bool:
    if text.startswith("unapproved"):
        return True
    try:
        url = parse_request_url(text)
    except ValueError:
        return False
    return bool(url.host and url.scheme)


_REVIEW_VERSIONS = ("v1", "v1beta1")
_HUB = "spec.conversion"


def _strategy(crd: Crd) -> ValueNode:
    """Return the conversion strategy, which defaults to None."""
    conversion = crd.spec.child("conversion")
    strategy = conversion.child("strategy")
    return strategy if conversion.present else ValueNode("None", strategy.path, strategy.field)


def _webhook(crd: Crd, name: str, hub_name: str) -> ValueNode:
    """Return a field of the webhook. It is one level deeper in ``v1``, but findings name the ``v1beta1`` field."""
    conversion = crd.spec.child("conversion")
    if not crd.is_v1:
        return conversion.child(hub_name)
    node = conversion.child("webhook").child(name)
    return ValueNode(node.value, node.path, f"{_HUB}.{hub_name}")


@rule(
    "CRD-CONVERSION-STRATEGY",
    "crd",
    Severity.ERROR,
    "unsupported conversion strategy",
    hint="Set spec.conversion.strategy to None or Webhook; for Webhook, spec.preserveUnknownFields must be false.",
    bad="conversion: {strategy: webhook}",
    good="conversion: {strategy: Webhook}",
)
@crd_check
def strategy(crd: Crd) -> Iterator[Finding]:
    """Objects are converted by a webhook or not at all. A webhook requires that unknown fields are pruned."""
    node = _strategy(crd)
    if node.text not in ("None", "Webhook"):
        yield node.finding(f"is {node.text!r}, not None or Webhook")
    if node.text != "None" and crd.preserves_unknown_fields:
        yield node.finding(f"is {node.text!r}, but spec.preserveUnknownFields is true")


@rule(
    "CRD-CONVERSION-REVIEW-VERSIONS",
    "crd",
    Severity.ERROR,
    "missing or unsupported conversion review versions",
    hint="List the versions that the webhook supports, including v1.",
    bad="conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v2]}}",
    good="conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1]}}",
)
@crd_check
def review_versions(crd: Crd) -> Iterator[Finding]:
    """The API server sends a ConversionReview of version v1 or v1beta1, so the list must contain one of them."""
    node = _webhook(crd, "conversionReviewVersions", "conversionReviewVersions")
    versions = list(node.children())
    if _strategy(crd).text != "Webhook":
        if versions:
            yield node.finding("is set, but the strategy is not Webhook")
    elif versions:
        yield from _review_problems(node, versions)
    elif crd.is_v1:  # v1beta1 defaults to v1beta1
        yield node.finding("is empty")


def _review_problems(node: ValueNode, versions: list[ValueNode]) -> Iterator[Finding]:
    seen: set[str] = set()
    for version in versions:
        if version.text in seen:
            yield version.finding(f"is {version.text!r}, which is listed twice")
        else:
            seen.add(version.text)
            for problem in dns1035_label(version.text):
                yield version.finding(f"is {version.text!r}: {problem}")
    if not seen.intersection(_REVIEW_VERSIONS):
        yield node.finding(f"has neither {' nor '.join(_REVIEW_VERSIONS)}")


@rule(
    "CRD-CONVERSION-CLIENT-CONFIG",
    "crd",
    Severity.ERROR,
    "missing or invalid client configuration of the conversion webhook",
    hint="Set either an https URL, or a service with name and namespace.",
    bad="conversion: {strategy: Webhook, webhook: {clientConfig: {url: 'http://example.com'}}}",
    good="conversion: {strategy: Webhook, webhook: {clientConfig: {url: 'https://example.com/convert'}}}",
)
@crd_check
def client_config(crd: Crd) -> Iterator[Finding]:
    """The API server calls the webhook over https, at a URL or through a service of the cluster.

    OLM sets the service for webhooks that the ClusterServiceVersion defines.
    """
    config = _webhook(crd, "clientConfig", "webhookClientConfig")
    url, service = config.child("url"), config.child("service")
    if _strategy(crd).text != "Webhook":
        if config.present:
            yield config.finding("is set, but the strategy is not Webhook", subject=config.field)
    elif not config.present:
        yield config.finding("is missing, but the strategy is Webhook")
    elif url.present == service.present:
        message = "has both url and service" if url.present else "has neither url nor service"
        yield config.finding(message, subject=config.field)
    elif url.present:
        yield from _url_problems(url)
    else:
        yield from _service_problems(service)


def _url_problems(node: ValueNode) -> Iterator[Finding]:
    try:
        url = parse_url(node.text)
    except ValueError as error:
        yield node.finding(f"is {node.text!r}: {error}", subject=node.field)
        return
    findings = [
        (url.scheme != "https", url.scheme, f"has the scheme {url.scheme!r}, not https"),
        (not url.host, "", "has no host"),
        (url.user is not None, url.user, "has a user, which is not allowed"),
        (bool(url.fragment), url.fragment, "has a fragment, which is not allowed"),
        (bool(url.query), url.query, "has a query, which is not allowed"),
    ]
    for wrong, subject, problem in findings:
        if wrong:
            yield node.finding(problem, subject=subject or node.field)


def _service_problems(service: ValueNode) -> Iterator[Finding]:
    for name in ("name", "namespace"):
        node = service.child(name)
        if not node.text:
            yield node.finding("is empty")
    port = service.child("port")
    if isinstance(port.value, int) and not 1 <= port.value <= 65535:
        yield port.finding(f"is {port.value}, not a port from 1 to 65535")
    path = service.child("path")
    for problem in _path_problems(path.text):
        yield path.finding(f"is {path.text!r}: {problem}")


def _path_problems(path: str) -> Iterator[str]:
    if path in ("", "/"):
        return
    if path == "//":
        yield "it has an empty segment"
        return
    if not path.startswith("/"):
        yield "it does not begin with a slash"
    for part in path[1:].removesuffix("/").split("/"):
        yield from dns1123_subdomain(part) if part else ["it has an empty segment"]
