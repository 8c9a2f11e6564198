"""Our own rules for what the deployments of an operator serve: webhooks and API services."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.kubernetes_names import dns1123_subdomain
from opmkit.bundle.validation.compat import OPMKIT_ONLY
from opmkit.bundle.validation.csv_view import DEPLOYMENTS, OWNED_SERVICES, Csv, csv_check
from opmkit.bundle.validation.rule import rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opmkit.bundle.field_path import FieldPath

VALIDATOR = "opmkit"
WEBHOOKS: FieldPath = ("spec", "webhookdefinitions")
WEBHOOK_TYPES = ("ValidatingAdmissionWebhook", "MutatingAdmissionWebhook", "ConversionWebhook")

_CHOICES = {
    "failurePolicy": ("Ignore", "Fail"),
    "matchPolicy": ("Exact", "Equivalent"),
    "sideEffects": ("None", "NoneOnDryRun"),
    "reinvocationPolicy": ("Never", "IfNeeded"),
}
_BOUNDS = {"containerPort": (1, 65535), "targetPort": (1, 65535), "timeoutSeconds": (1, 30)}


@rule(
    "CSV-WEBHOOK-DEPLOYMENT",
    VALIDATOR,
    Severity.ERROR,
    "a webhook is served by a deployment that there is not",
    hint="Set deploymentName to the name of a deployment in spec.install.",
    bad="webhookdefinitions: [{deploymentName: demo-webhook}]\ndeployments: [{name: demo-manager}]",
    good="webhookdefinitions: [{deploymentName: demo-manager}]\ndeployments: [{name: demo-manager}]",
    compat=OPMKIT_ONLY,
)
@csv_check
def webhook_deployment(csv: Csv) -> Iterator[Finding]:
    """The certificate of a webhook goes to the deployment of that name; without one, the operator is not installed."""
    yield from _served(csv, WEBHOOKS, "webhook", "generateName")


@rule(
    "CSV-APISERVICE-DEPLOYMENT",
    VALIDATOR,
    Severity.ERROR,
    "an owned API service is served by a deployment that there is not",
    hint="Set deploymentName to the name of a deployment in spec.install.",
    bad="""apiservicedefinitions: {owned: [{name: demos, deploymentName: demo-api}]}
deployments: [{name: demo-manager}]""",
    good="""apiservicedefinitions: {owned: [{name: demos, deploymentName: demo-manager}]}
deployments: [{name: demo-manager}]""",
    compat=OPMKIT_ONLY,
)
@csv_check
def api_service_deployment(csv: Csv) -> Iterator[Finding]:
    """The API server passes requests on to the deployment of that name; without one, the operator is not installed."""
    yield from _served(csv, OWNED_SERVICES, "API service", "name")


def _served(csv: Csv, path: FieldPath, what: str, called: str) -> Iterator[Finding]:
    """Find the entries of a list whose deployment is not there."""
    names = {deployment.get("name", "") for _, deployment in csv.entries(DEPLOYMENTS)}
    for where, entry in csv.entries(path):
        deployment = entry.get("deploymentName", "")
        if deployment not in names and not csv.decoded.has_mismatch(*where, "deploymentName"):
            message = f"the deployment {deployment!r} of the {what} {entry.get(called, '')!r} is not there"
            yield Finding(message, path=(*where, "deploymentName"), subject=deployment)


@rule(
    "CSV-WEBHOOK-NAME",
    VALIDATOR,
    Severity.WARNING,
    "the name of a webhook is missing, misspelt, or taken twice",
    hint="Give each webhook a generateName of its own, such as vdemo.example.com.",
    bad="webhookdefinitions: [{generateName: ''}]",
    good="webhookdefinitions: [{generateName: vdemo.example.com}]",
    compat=OPMKIT_ONLY,
)
@csv_check
def webhook_name(csv: Csv) -> Iterator[Finding]:
    """The objects that register a webhook are named after it."""
    seen: set[tuple[str, str]] = set()
    for path, entry in csv.entries(WEBHOOKS):
        name, kind = entry.get("generateName", ""), entry.get("type", "")
        where = (*path, "generateName")
        if csv.decoded.has_mismatch(*where):
            continue
        if problems := dns1123_subdomain(name.rstrip("-.")):
            yield Finding(f"the webhook {name!r} has no good name: {problems[0]}", path=where, subject=name)
        elif (name, kind) in seen:
            yield Finding(f"there is a webhook {name!r} of that type already", path=where, subject=name)
        seen.add((name, kind))


@rule(
    "CSV-WEBHOOK-CONVERSION",
    VALIDATOR,
    Severity.ERROR,
    "a conversion webhook is for a CRD that the operator does not own",
    hint="List names of owned CRDs in conversionCRDs, one at least.",
    bad="webhookdefinitions: [{type: ConversionWebhook, conversionCRDs: [demo.example.com]}]",
    good="webhookdefinitions: [{type: ConversionWebhook, conversionCRDs: [demos.demo.example.com]}]",
    compat=OPMKIT_ONLY,
)
@csv_check
def webhook_conversion(csv: Csv) -> Iterator[Finding]:
    """An operator may change the conversion of CRDs that are its own, and of no other; else it is not installed."""
    owned = {name for _, _, name in csv.owned_crds}
    for path, entry in csv.entries(WEBHOOKS):
        names = entry.get("conversionCRDs", [])
        where = (*path, "conversionCRDs")
        if entry.get("type") == "ConversionWebhook" and not names and not csv.decoded.has_mismatch(*where):
            yield Finding("the conversion webhook names no CRDs", path=where, subject=entry.get("generateName", ""))
        for number, name in enumerate(names):
            if name not in owned:
                message = f"the CRD {name!r} that the webhook converts is not owned"
                yield Finding(message, path=(*where, number), subject=name)


@rule(
    "CSV-WEBHOOK-VALUE",
    VALIDATOR,
    Severity.ERROR,
    "a field of a webhook has a value that there is not",
    hint="Choose one of the values that the message tells.",
    bad="webhookdefinitions: [{type: ValidatingWebhook, containerPort: 99443, sideEffects: Some}]",
    good="webhookdefinitions: [{type: ValidatingAdmissionWebhook, containerPort: 9443, sideEffects: None,"
    " admissionReviewVersions: [v1]}]",
    compat=OPMKIT_ONLY,
)
@csv_check
def webhook_value(csv: Csv) -> Iterator[Finding]:
    """The API server refuses the registration of the webhook, and the installation ends there."""
    for path, entry in csv.entries(WEBHOOKS):
        for field, problem in _webhook_problems(entry):
            where = (*path, field)
            if not csv.decoded.has_mismatch(*where):
                yield Finding(
                    f"{field} of the webhook {entry.get('generateName', '')!r} {problem}", path=where, subject=field
                )


def _webhook_problems(entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The fields at fault, with what is wrong."""
    kind = entry.get("type", "")
    if kind not in WEBHOOK_TYPES:
        yield "type", f"is {kind!r}, none of {', '.join(WEBHOOK_TYPES)}"
    if not entry.get("admissionReviewVersions"):
        yield "admissionReviewVersions", "is empty; v1 is what there is"
    for field, choices in _CHOICES.items():
        value = entry.get(field)
        needed = field == "sideEffects" and kind != "ConversionWebhook"
        if (value or needed) and value not in choices:
            yield field, f"is {value or ''!r}, neither {' nor '.join(choices)}"
    for field, (lowest, highest) in _BOUNDS.items():
        value = entry.get(field)
        if isinstance(value, int) and not lowest <= value <= highest:
            yield field, f"is {value}, not between {lowest} and {highest}"
    path = entry.get("webhookPath")
    if path and not path.startswith("/"):
        yield "webhookPath", f"is {path!r}, which does not begin with /"
