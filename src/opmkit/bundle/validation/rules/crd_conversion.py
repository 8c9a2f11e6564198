"""Rules of the validator ``crd`` on the conversion of objects between versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.kubernetes_names import dns1035_label, dns1123_subdomain
from opmkit.bundle.validation.crd_view import crd_check
from opmkit.bundle.validation.node import Node
from opmkit.bundle.validation.rule import rule
from opmkit.bundle.validation.urls import parse_url

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.bundle.validation.crd_view import Crd

_REVIEW_VERSIONS = ("v1", "v1beta1")
_HUB = "spec.conversion"


def _strategy(crd: Crd) -> Node:
    """The strategy, by default None."""
    conversion = crd.spec.child("conversion")
    strategy = conversion.child("strategy")
    return strategy if conversion.present else Node("None", strategy.path, strategy.field)


def _webhook(crd: Crd, name: str, hub_name: str) -> Node:
    """What ``v1`` has one level deeper, and the API server's own form under the name of ``v1beta1``."""
    conversion = crd.spec.child("conversion")
    if not crd.is_v1:
        return conversion.child(hub_name)
    node = conversion.child("webhook").child(name)
    return Node(node.value, node.path, f"{_HUB}.{hub_name}")


@rule(
    "CRD-CONVERSION-STRATEGY",
    "crd",
    Severity.ERROR,
    "a CRD names no known way of conversion",
    hint="Set spec.conversion.strategy to None or Webhook; for Webhook, spec.preserveUnknownFields must be false.",
    bad="conversion: {strategy: webhook}",
    good="conversion: {strategy: Webhook}",
)
@crd_check
def strategy(crd: Crd) -> Iterator[Finding]:
    """Objects are converted by a webhook or not at all; a webhook can't convert fields that no schema knows."""
    node = _strategy(crd)
    if node.text not in ("None", "Webhook"):
        yield node.finding(f"is {node.text!r}, neither None nor Webhook")
    if node.text != "None" and crd.preserves_unknown_fields:
        yield node.finding(f"is {node.text!r}, but spec.preserveUnknownFields is true")


@rule(
    "CRD-CONVERSION-REVIEW-VERSIONS",
    "crd",
    Severity.ERROR,
    "the versions of ConversionReview that a CRD's webhook understands are missing or unknown",
    hint="List those that the webhook understands, v1 among them.",
    bad="conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v2]}}",
    good="conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1]}}",
)
@crd_check
def review_versions(crd: Crd) -> Iterator[Finding]:
    """The API server calls the webhook in one of the versions v1 and v1beta1, so one must be among them."""
    node = _webhook(crd, "conversionReviewVersions", "conversionReviewVersions")
    versions = list(node.children())
    if _strategy(crd).text != "Webhook":
        if versions:
            yield node.finding("is set, but the strategy is not Webhook")
    elif versions:
        yield from _review_problems(node, versions)
    elif crd.is_v1:  # v1beta1 takes v1beta1 for granted
        yield node.finding("is empty")


def _review_problems(node: Node, versions: list[Node]) -> Iterator[Finding]:
    seen: set[str] = set()
    for version in versions:
        if version.text in seen:
            yield version.finding(f"is {version.text!r}, which is in the list before")
        else:
            seen.add(version.text)
            for problem in dns1035_label(version.text):
                yield version.finding(f"is {version.text!r}: {problem}")
    if not seen.intersection(_REVIEW_VERSIONS):
        yield node.finding(f"has none of {' and '.join(_REVIEW_VERSIONS)}")


@rule(
    "CRD-CONVERSION-CLIENT-CONFIG",
    "crd",
    Severity.ERROR,
    "a CRD does not say where its conversion webhook is, or says it in a way that can't be used",
    hint="Give either an https URL, or a service with name and namespace.",
    bad="conversion: {strategy: Webhook, webhook: {clientConfig: {url: 'http://example.com'}}}",
    good="conversion: {strategy: Webhook, webhook: {clientConfig: {url: 'https://example.com/convert'}}}",
)
@crd_check
def client_config(crd: Crd) -> Iterator[Finding]:
    """The API server calls the webhook over https: at a URL, or by way of a service in the cluster.

    The lifecycle manager fills in the service for the webhooks that the ClusterServiceVersion defines.
    """
    config = _webhook(crd, "clientConfig", "webhookClientConfig")
    url, service = config.child("url"), config.child("service")
    if _strategy(crd).text != "Webhook":
        if config.present:
            yield config.finding("is set, but the strategy is not Webhook", subject=config.field)
    elif not config.present:
        yield config.finding("is missing, but the strategy is Webhook")
    elif url.present == service.present:
        told = "has both url and service" if url.present else "has neither url nor service"
        yield config.finding(told, subject=config.field)
    elif url.present:
        yield from _url_problems(url)
    else:
        yield from _service_problems(service)


def _url_problems(node: Node) -> Iterator[Finding]:
    try:
        url = parse_url(node.text)
    except ValueError as error:
        yield node.finding(f"is {node.text!r}: {error}", subject=node.field)
        return
    findings = [
        (url.scheme != "https", url.scheme, f"has the scheme {url.scheme!r} instead of https"),
        (not url.host, "", "has no host"),
        (url.user is not None, url.user, "has a user, which is not allowed"),
        (bool(url.fragment), url.fragment, "has a fragment, which is not allowed"),
        (bool(url.query), url.query, "has a query, which is not allowed"),
    ]
    for wrong, subject, problem in findings:
        if wrong:
            yield node.finding(problem, subject=subject or node.field)


def _service_problems(service: Node) -> Iterator[Finding]:
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
        yield "it has an empty part"
        return
    if not path.startswith("/"):
        yield "it does not begin with a slash"
    for part in path[1:].removesuffix("/").split("/"):
        yield from dns1123_subdomain(part) if part else ["it has an empty part"]
