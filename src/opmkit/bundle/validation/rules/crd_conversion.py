"""Rules of the validator ``crd``: conversion between versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.kubernetes_names import dns1035_label, dns1123_subdomain
from opmkit.bundle.validation.crd_view import crd_check
from opmkit.bundle.validation.object_metadata import ValueNode
from opmkit.bundle.validation.rule import rule
from opmkit.bundle.validation.urls import parse_url

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.bundle.validation.crd_view import Crd

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
