"""Webhook definitions from webhook configurations and conversions."""

from __future__ import annotations

from typing import Any

import pytest

from opmkit.author.generate.service_version import Webhooks, webhook_definitions

from .inputs import CRD, DEPLOYMENT, collect

SERVICE = """
apiVersion: v1
kind: Service
metadata: {name: boat-service}
spec: {ports: [{port: 8443, targetPort: https}, {port: 443, targetPort: 9443}], selector: {app: boat}}
"""
WEBHOOK = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: hooks}
webhooks:
- name: vboat.example.com
  clientConfig: {service: {name: boat-service, namespace: boats, path: /validate}}
  failurePolicy: Fail
  rules: [{apiGroups: [example.com], apiVersions: [v1], operations: [CREATE], resources: [boats]}]
"""


def definitions(*documents: str) -> Webhooks:
    return webhook_definitions(collect(*documents))


def test_admission_webhooks() -> None:
    found = definitions(DEPLOYMENT, SERVICE, WEBHOOK)
    assert found == Webhooks(
        (
            {
                "type": "ValidatingAdmissionWebhook",
                "generateName": "vboat.example.com",
                "deploymentName": "boat-operator",
                "containerPort": 443,
                "targetPort": 9443,
                "webhookPath": "/validate",
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "admissionReviewVersions": ["v1beta1"],
                "rules": [
                    {
                        "apiGroups": ["example.com"],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["boats"],
                    }
                ],
            },
        )
    )


def test_mutating_webhooks_are_sorted_by_name() -> None:
    mutating = WEBHOOK.replace("Validating", "Mutating").replace("vboat", "mboat")
    found = definitions(
        DEPLOYMENT, SERVICE, WEBHOOK, mutating.replace("path: /validate", "path: /validate, port: 8443")
    )
    assert [one["generateName"] for one in found.definitions] == ["mboat.example.com", "vboat.example.com"]
    assert found.definitions[0]["targetPort"] == "https"


@pytest.mark.parametrize(
    ("documents", "deployment", "warning"),
    [
        ([DEPLOYMENT], "boat", "the service boat-service is not in the input"),
        ([SERVICE], "boat", "the service boat-service selects no Deployment of the input"),
        ([DEPLOYMENT, SERVICE.replace("selector: {app: boat}", "type: ExternalName")], "boat", "selects no Deployment"),
    ],
)
def test_webhooks_without_server(documents: list[str], deployment: str, warning: str) -> None:
    found = definitions(*documents, WEBHOOK)
    assert found.definitions[0]["deploymentName"] == deployment
    assert warning in found.warnings[0]


def test_webhooks_with_a_url_have_no_deployment() -> None:
    (found,) = definitions(
        WEBHOOK.replace("{service: {name: boat-service, namespace: boats, path: /validate}}", "{url: 'https://x'}")
    ).definitions
    assert "deploymentName" not in found


def convert(name: str, service: str = "boat-service", path: str = ", path: /convert") -> str:
    conversion = (
        f"  conversion: {{strategy: Webhook, webhook: {{conversionReviewVersions: [v1], clientConfig: {{service: "
        f"{{name: {service}, namespace: boats{path}}}}}}}}}\n"
    )
    return CRD.replace("boats.example.com", f"{name}.example.com").replace("spec:\n", "spec:\n" + conversion, 1)


def test_conversions_with_the_same_server_are_one_webhook() -> None:
    found = definitions(
        DEPLOYMENT, SERVICE, convert("sails"), convert("masts"), convert("oars", path=""), convert("x", "absent")
    )
    by_name: dict[str, Any] = {one["generateName"]: one for one in found.definitions}
    assert by_name.keys() == {"cmastssails.kb.io", "coars.kb.io"}
    assert by_name["cmastssails.kb.io"] == {
        "type": "ConversionWebhook",
        "generateName": "cmastssails.kb.io",
        "conversionCRDs": ["masts.example.com", "sails.example.com"],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "deploymentName": "boat-operator",
        "containerPort": 443,
        "targetPort": 9443,
        "webhookPath": "/convert",
    }
    assert "webhookPath" not in by_name["coars.kb.io"]


def test_conversions_of_v1beta1() -> None:
    crd = """
    apiVersion: apiextensions.k8s.io/v1beta1
    kind: CustomResourceDefinition
    metadata: {name: ships.example.com}
    spec:
      group: example.com
      names: {kind: Ship, plural: ships}
      version: v1
      conversion:
        strategy: Webhook
        conversionReviewVersions: [v1beta1]
        webhookClientConfig: {service: {name: boat-service, namespace: b, path: /c}}
    """
    (found,) = definitions(DEPLOYMENT, SERVICE, crd).definitions
    assert (found["conversionCRDs"], found["admissionReviewVersions"]) == (["ships.example.com"], ["v1beta1"])
