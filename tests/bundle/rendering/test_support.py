from __future__ import annotations

from typing import Any

import pytest

from opmkit.bundle.rendering.support import find_unsupported, unsupported_namespaces
from tests.bundle.rendering.samples import ALL, DEFINITION, DEPLOYMENT, bundle, webhook

CONVERTING = webhook("ConversionWebhook", conversionCRDs=["reefs.demo.com"])


def admission(**rule: Any) -> dict[str, Any]:
    return webhook("ValidatingAdmissionWebhook", rules=[rule])


@pytest.mark.parametrize(
    ("objects", "fields", "message"),
    [
        ((), {"deployments": [DEPLOYMENT, DEPLOYMENT]}, "several deployments are called 'reef'"),
        ((), {"deployments": [{**DEPLOYMENT, "name": "Reef"}]}, "invalid name of deployment 'Reef'"),
        ((DEFINITION, DEFINITION), {}, "the bundle has CustomResourceDefinition 'reefs.demo.com' twice"),
        ((), {"owned": ["reefs.demo.com"]}, "owned CustomResourceDefinition 'reefs.demo.com' is not in the bundle"),
        (
            (DEFINITION,),
            {"owned": ["reefs.demo.com"], "modes": (*ALL, "OwnNamespace"), "webhooks": [CONVERTING]},
            "conversion webhook 'reef.demo.com' requires that AllNamespaces is the only supported install mode, not",
        ),
        (
            (),
            {"webhooks": [webhook("MutatingAdmissionWebhook", deploymentName="other")]},
            "MutatingAdmissionWebhook 'reef.demo.com' refers to deployment 'other', which does not exist",
        ),
        (
            (),
            {"webhooks": [webhook("MutatingAdmissionWebhook")] * 2},
            "several webhooks of type MutatingAdmissionWebhook are called 'reef.demo.com'",
        ),
        ((), {"webhooks": [webhook("MutatingAdmissionWebhook", "Reef")]}, "invalid name of MutatingAdmissionWebhook"),
        (
            (DEFINITION,),
            {"owned": ["reefs.demo.com"], "webhooks": [CONVERTING, {**CONVERTING, "generateName": "b"}]},
            "several conversion webhooks convert CustomResourceDefinition 'reefs.demo.com': b, reef.demo.com",
        ),
        ((), {"webhooks": [CONVERTING]}, "conversion webhook 'reef.demo.com' converts 'reefs.demo.com', which the"),
        ((), {"webhooks": [admission(apiGroups=["*"])]}, "webhook 'reef.demo.com' has a forbidden rule: API group '*'"),
        (
            (),
            {"webhooks": [admission(apiGroups=["admissionregistration.k8s.io"], resources=["*", "x"])]},
            "webhook 'reef.demo.com' has a forbidden rule: resource '*' of API group 'admissionregistration.k8s.io'",
        ),
        (({"kind": "Pod", "metadata": {"name": "p"}},), {}, "bundles cannot contain objects of kind Pod ('p')"),
        (
            (),
            {"spec": {"apiservicedefinitions": {"owned": [{"name": "v1.reef"}]}}},
            "OLM v1 does not support API services ('v1.reef')",
        ),
        (
            (),
            {"modes": ["MultiNamespace"]},
            "none of the install modes AllNamespaces, OwnNamespace and SingleNamespace",
        ),
    ],
)
def test_reasons(objects: tuple[dict[str, Any], ...], fields: dict[str, Any], message: str) -> None:
    (problem,) = find_unsupported(bundle(*objects, **fields))
    assert problem.message.startswith(message)
    assert problem.hint


def test_a_supported_bundle() -> None:
    allowed = admission(apiGroups=["admissionregistration.k8s.io", "demo.com"], resources=["others"])
    assert list(find_unsupported(bundle(DEFINITION, owned=["reefs.demo.com"], webhooks=[allowed]))) == []
    assert list(find_unsupported(bundle(DEFINITION, owned=["reefs.demo.com"], webhooks=[CONVERTING]))) == []


@pytest.mark.parametrize(
    ("modes", "targets", "needed"),
    [
        (["AllNamespaces"], [""], ""),
        (["OwnNamespace"], [""], "AllNamespaces"),
        (["OwnNamespace"], ["own"], ""),
        (["AllNamespaces"], ["own"], "OwnNamespace"),
        (["SingleNamespace"], ["a"], ""),
        (["OwnNamespace"], ["a"], "SingleNamespace"),
        (["MultiNamespace"], ["a", "b"], ""),
        (["MultiNamespace"], ["a", "own"], "OwnNamespace"),
        (["SingleNamespace"], ["a", "b"], "MultiNamespace"),
        (["MultiNamespace"], ["a", ""], "at the same time"),
        (["OwnNamespace"], [], "does not watch all namespaces"),
    ],
)
def test_namespaces(modes: list[str], targets: list[str], needed: str) -> None:
    found = unsupported_namespaces(bundle(modes=modes), "own", targets)
    assert needed in found
    assert bool(found) == bool(needed)
