"""Rules of the validator ``opmkit``: webhooks and API services."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.kubernetes_names import dns1123_subdomain
from opmkit.bundle.rendering.certificates import CA_INJECTORS
from opmkit.bundle.validation.compat import OPMKIT_ONLY
from opmkit.bundle.validation.crd_view import Crd, crd_check
from opmkit.bundle.validation.csv_view import DEPLOYMENTS, OWNED_SERVICES, Csv, csv_check
from opmkit.bundle.validation.rule import rule
from opmkit.documents.lenient import mapping

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opmkit.documents.fields import FieldPath

VALIDATOR = "opmkit"
WEBHOOKS: FieldPath = ("spec", "webhookdefinitions")
WEBHOOK_TYPES = ("ValidatingAdmissionWebhook", "MutatingAdmissionWebhook", "ConversionWebhook")

_CHOICES = {
    "failurePolicy": ("Ignore", "Fail"),
    "matchPolicy": ("Exact", "Equivalent"),
    "sideEffects": ("None", "NoneOnDryRun"),
    "reinvocationPolicy": ("Never", "IfNeeded"),
}
# A target port of 0 is that of the service, which API servers set.
_BOUNDS = {"containerPort": (1, 65535), "targetPort": (0, 65535), "timeoutSeconds": (1, 30)}


@rule(
    "CSV-WEBHOOK-DEPLOYMENT",
    VALIDATOR,
    Severity.ERROR,
    "the deployment of a webhook does not exist",
    hint="Set deploymentName to the name of a deployment in spec.install.",
    bad="webhookdefinitions: [{deploymentName: demo-webhook}]\ndeployments: [{name: demo-manager}]",
    good="webhookdefinitions: [{deploymentName: demo-manager}]\ndeployments: [{name: demo-manager}]",
    compat=OPMKIT_ONLY,
)
@csv_check
def webhook_deployment(csv: Csv) -> Iterator[Finding]:
    """OLM mounts the webhook's certificate in this deployment and does not install the operator without it."""
    yield from _missing_deployments(csv, WEBHOOKS, "webhook", "generateName")


@rule(
    "CRD-CONVERSION-HARD-CODED",
    VALIDATOR,
    Severity.WARNING,
    "a CRD contains the address or the certificate of its conversion webhook",
    hint="Remove it from the CRD, and define the webhook in the ClusterServiceVersion with type ConversionWebhook.",
    bad="conversion: {strategy: Webhook, webhook: {clientConfig: {service: {name: webhook, namespace: demo}}}}",
    good="webhookdefinitions: [{type: ConversionWebhook, conversionCRDs: [demos.example.com]}]  # in the CSV",
    compat=OPMKIT_ONLY,
)
@crd_check
def hard_coded_conversion(crd: Crd) -> Iterator[Finding]:
    """The namespace of the operator and the certificate of its webhook are unknown when the bundle is built.

    OLM writes both to the definition if the ClusterServiceVersion defines the webhook. An address in the definition
    names a namespace that the user may not have chosen, and replaces what OLM wrote each time the operator is updated.
    """
    conversion = mapping(mapping(mapping(crd.root.value).get("spec")).get("conversion"))
    if any(conversion.get(name) for name in ("webhook", "webhookClientConfig")):
        yield crd.spec.child("conversion").finding("contains the address of the webhook, which OLM sets")
    annotations = mapping(mapping(mapping(crd.root.value).get("metadata")).get("annotations"))
    for name in sorted(CA_INJECTORS & annotations.keys()):
        problem = "lets another controller replace the authority that OLM sets"
        yield crd.root.child("metadata").child("annotations").child(name).finding(problem)


@rule(
    "CSV-APISERVICE-DEPLOYMENT",
    VALIDATOR,
    Severity.ERROR,
    "the deployment of an owned API service does not exist",
    hint="Set deploymentName to the name of a deployment in spec.install.",
    bad="""apiservicedefinitions: {owned: [{name: demos, deploymentName: demo-api}]}
deployments: [{name: demo-manager}]""",
    good="""apiservicedefinitions: {owned: [{name: demos, deploymentName: demo-manager}]}
deployments: [{name: demo-manager}]""",
    compat=OPMKIT_ONLY,
)
@csv_check
def api_service_deployment(csv: Csv) -> Iterator[Finding]:
    """The API server forwards requests to this deployment; OLM does not install the operator without it."""
    yield from _missing_deployments(csv, OWNED_SERVICES, "API service", "name")


def _missing_deployments(csv: Csv, path: FieldPath, kind: str, name_field: str) -> Iterator[Finding]:
    """Report the entries of a list whose deployment does not exist."""
    names = {deployment.get("name", "") for _, deployment in csv.entries(DEPLOYMENTS)}
    for entry_path, entry in csv.entries(path):
        deployment = entry.get("deploymentName", "")
        if deployment not in names and not csv.decoded.has_mismatch(*entry_path, "deploymentName"):
            message = f"deployment {deployment!r} of {kind} {entry.get(name_field, '')!r} not found"
            yield Finding(message, path=(*entry_path, "deploymentName"), subject=deployment)


@rule(
    "CSV-WEBHOOK-NAME",
    VALIDATOR,
    Severity.WARNING,
    "invalid or duplicate webhook name",
    hint="Give each webhook a unique generateName, such as vdemo.example.com.",
    bad="webhookdefinitions: [{generateName: ''}]",
    good="webhookdefinitions: [{generateName: vdemo.example.com}]",
    compat=OPMKIT_ONLY,
)
@csv_check
def webhook_name(csv: Csv) -> Iterator[Finding]:
    """The name of the webhook configuration in the cluster is derived from it."""
    seen: set[tuple[str, str]] = set()
    for path, entry in csv.entries(WEBHOOKS):
        name, kind = entry.get("generateName", ""), entry.get("type", "")
        name_path = (*path, "generateName")
        if csv.decoded.has_mismatch(*name_path):
            continue
        if problems := dns1123_subdomain(name.rstrip("-.")):
            yield Finding(f"invalid webhook name {name!r}: {problems[0]}", path=name_path, subject=name)
        elif (name, kind) in seen:
            yield Finding(f"duplicate webhook name {name!r} of type {kind}", path=name_path, subject=name)
        seen.add((name, kind))


@rule(
    "CSV-WEBHOOK-CONVERSION",
    VALIDATOR,
    Severity.ERROR,
    "a conversion webhook for a CRD that the operator does not own",
    hint="List at least one name of an owned CRD in conversionCRDs.",
    bad="webhookdefinitions: [{type: ConversionWebhook, conversionCRDs: [demo.example.com]}]",
    good="webhookdefinitions: [{type: ConversionWebhook, conversionCRDs: [demos.demo.example.com]}]",
    compat=OPMKIT_ONLY,
)
@csv_check
def webhook_conversion(csv: Csv) -> Iterator[Finding]:
    """OLM configures conversion only for owned CRDs and does not install the operator otherwise."""
    owned = {name for _, _, name in csv.owned_crds}
    for path, entry in csv.entries(WEBHOOKS):
        names = entry.get("conversionCRDs", [])
        list_path = (*path, "conversionCRDs")
        if entry.get("type") == "ConversionWebhook" and not names and not csv.decoded.has_mismatch(*list_path):
            yield Finding("the conversion webhook lists no CRDs", path=list_path, subject=entry.get("generateName", ""))
        for number, name in enumerate(names):
            if name not in owned:
                message = f"CRD {name!r} of the conversion webhook is not owned"
                yield Finding(message, path=(*list_path, number), subject=name)


@rule(
    "CSV-WEBHOOK-VALUE",
    VALIDATOR,
    Severity.ERROR,
    "unsupported value in a webhook",
    hint="Use one of the values in the message.",
    bad="webhookdefinitions: [{type: ValidatingWebhook, containerPort: 99443, sideEffects: Some}]",
    good="webhookdefinitions: [{type: ValidatingAdmissionWebhook, containerPort: 9443, sideEffects: None,"
    " admissionReviewVersions: [v1]}]",
    compat=OPMKIT_ONLY,
)
@csv_check
def webhook_value(csv: Csv) -> Iterator[Finding]:
    """The API server rejects the webhook configuration, so the installation fails."""
    for path, entry in csv.entries(WEBHOOKS):
        for field, problem in _webhook_problems(entry):
            field_path = (*path, field)
            if not csv.decoded.has_mismatch(*field_path):
                yield Finding(
                    f"{field} of webhook {entry.get('generateName', '')!r} {problem}", path=field_path, subject=field
                )


def _webhook_problems(entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the invalid fields with their problems."""
    kind = entry.get("type", "")
    if kind not in WEBHOOK_TYPES:
        yield "type", f"is {kind!r}, not one of {', '.join(WEBHOOK_TYPES)}"
    if not entry.get("admissionReviewVersions"):
        yield "admissionReviewVersions", "is empty; use v1"
    for field, choices in _CHOICES.items():
        value = entry.get(field)
        needed = field == "sideEffects" and kind != "ConversionWebhook"
        if (value or needed) and value not in choices:
            yield field, f"is {value or ''!r}, not {' or '.join(choices)}"
    for field, (lowest, highest) in _BOUNDS.items():
        value = entry.get(field)
        if isinstance(value, int) and not lowest <= value <= highest:
            yield field, f"is {value}, not between {lowest} and {highest}"
    path = entry.get("webhookPath")
    if path and not path.startswith("/"):
        yield "webhookPath", f"is {path!r}, which does not begin with /"
