"""What OLM v1 does not support in ``registry+v1`` bundles.

The checks are those of operator-controller 1.11 (rukpak/render/registryv1/validators, applier/provider.go).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from opmkit.bundle.errors import InvalidBundle
from opmkit.bundle.kinds import CRD_KIND, supported_kinds
from opmkit.bundle.kubernetes_names import dns1123_subdomain
from opmkit.bundle.parse import parse_bundle
from opmkit.bundle.properties import refused_by_olm_v1
from opmkit.bundle.rendering.registry_v1 import (
    ALL_NAMESPACES,
    MULTI_NAMESPACE,
    OWN_NAMESPACE,
    SINGLE_NAMESPACE,
    object_name,
)
from opmkit.bundle.validation.compat import Compat

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from opmkit.bundle.rendering.registry_v1 import RegistryV1

VALIDATING = "ValidatingAdmissionWebhook"
MUTATING = "MutatingAdmissionWebhook"
CONVERSION = "ConversionWebhook"

_FORBIDDEN_GROUPS = frozenset({"olm.operatorframework.io", "*"})
_ADMISSION = "admissionregistration.k8s.io"
_FORBIDDEN_RESOURCES = frozenset(
    {
        "*",
        "mutatingwebhookconfiguration",
        "mutatingwebhookconfigurations",
        "validatingwebhookconfiguration",
        "validatingwebhookconfigurations",
    }
)


class Unsupported(NamedTuple):
    """A reason why OLM v1 does not install a bundle.

    Attributes:
        message: The reason.
        path: The file with the cause, or "" for the ClusterServiceVersion.
        hint: What to change, or "".
    """

    message: str
    path: str = ""
    hint: str = ""


def dependency_warnings(name: str, files: Mapping[str, bytes]) -> tuple[str, ...]:
    """Return a warning for each type of dependency of a bundle, with which OLM v1 installs it from no catalog.

    The renderer of OLM v1 ignores dependencies; its resolver refuses them. A bundle that no catalog can contain has no
    warnings.
    """
    with suppress(InvalidBundle):
        kinds = refused_by_olm_v1(parse_bundle(files, strict=False))
        return tuple(f"{name}: OLM v1 does not install bundles with dependencies ({kind})" for kind in kinds)
    return ()


def find_unsupported(bundle: RegistryV1) -> Iterator[Unsupported]:
    """Yield the reasons why OLM v1 does not install a bundle."""
    for check in _CHECKS:
        yield from check(bundle)


def _duplicate_deployments(bundle: RegistryV1) -> Iterator[Unsupported]:
    for name in _repeated(each.get("name", "") for each in bundle.strategy.get("deployments") or ()):
        yield Unsupported(f"several deployments are called {name!r}", hint="give them different names")


def _deployment_names(bundle: RegistryV1) -> Iterator[Unsupported]:
    for name in sorted({each.get("name", "") for each in bundle.strategy.get("deployments") or ()}):
        if problems := dns1123_subdomain(name):
            yield Unsupported(f"invalid name of deployment {name!r}: {problems[0]}", hint="correct its name")


def _duplicate_definitions(bundle: RegistryV1) -> Iterator[Unsupported]:
    for name in _repeated(map(object_name, bundle.definitions)):
        path = bundle.paths.get((CRD_KIND, name), "")
        yield Unsupported(f"the bundle has CustomResourceDefinition {name!r} twice", path, "remove one of them")


def _owned_definitions(bundle: RegistryV1) -> Iterator[Unsupported]:
    for name in sorted({*bundle.owned_definitions} - {*map(object_name, bundle.definitions)}):
        yield Unsupported(f"owned CustomResourceDefinition {name!r} is not in the bundle", hint="add its manifest")


def _package(bundle: RegistryV1) -> Iterator[Unsupported]:
    if not bundle.package:
        yield Unsupported("the package has no name", "metadata/annotations.yaml", "add the annotation of the package")


def _conversion_install_modes(bundle: RegistryV1) -> Iterator[Unsupported]:
    if bundle.install_modes != {ALL_NAMESPACES}:
        modes = ", ".join(sorted(bundle.install_modes)) or "none"
        for webhook in _of_type(bundle, CONVERSION):
            yield Unsupported(
                f"conversion webhook {_name(webhook)!r} requires that {ALL_NAMESPACES} is the only supported install "
                f"mode, not {modes}",
                hint="support no other install mode",
            )


def _webhook_deployments(bundle: RegistryV1) -> Iterator[Unsupported]:
    known = {each.get("name", "") for each in bundle.strategy.get("deployments") or ()}
    missing = [webhook for webhook in bundle.webhooks if webhook.get("deploymentName", "") not in known]
    for webhook in sorted(
        missing, key=lambda each: (each.get("deploymentName", ""), each.get("type", ""), _name(each))
    ):
        deployment = webhook.get("deploymentName", "")
        yield Unsupported(
            f"{webhook.get('type', '')} {_name(webhook)!r} refers to deployment {deployment!r}, which does not exist",
            hint="name a deployment of the install strategy",
        )


def _duplicate_webhooks(bundle: RegistryV1) -> Iterator[Unsupported]:
    for kind, name in _repeated((each.get("type", ""), _name(each)) for each in bundle.webhooks):
        yield Unsupported(f"several webhooks of type {kind} are called {name!r}", hint="give them different names")


def _webhook_names(bundle: RegistryV1) -> Iterator[Unsupported]:
    for kind, name in sorted({(each.get("type", ""), _name(each)) for each in bundle.webhooks}):
        if problems := dns1123_subdomain(name):
            yield Unsupported(f"invalid name of {kind} {name!r}: {problems[0]}", hint="correct its generateName")


def _conversions_by_several(bundle: RegistryV1) -> Iterator[Unsupported]:
    names: defaultdict[str, list[str]] = defaultdict(list)
    for webhook in _of_type(bundle, CONVERSION):
        for definition in webhook.get("conversionCRDs") or ():
            names[definition].append(_name(webhook))
    for definition, webhooks in sorted(names.items()):
        if len(webhooks) > 1:
            found = ", ".join(sorted(webhooks))
            message = f"several conversion webhooks convert CustomResourceDefinition {definition!r}: {found}"
            yield Unsupported(message, hint="keep one of them")


def _converted_definitions(bundle: RegistryV1) -> Iterator[Unsupported]:
    owned = set(bundle.owned_definitions)
    for webhook in sorted(_of_type(bundle, CONVERSION), key=_name):
        for definition in sorted(webhook.get("conversionCRDs") or ()):
            if definition not in owned:
                message = (
                    f"conversion webhook {_name(webhook)!r} converts {definition!r}, which the bundle does not own"
                )
                yield Unsupported(message, hint="list it among the owned CustomResourceDefinitions")


def _webhook_rules(bundle: RegistryV1) -> Iterator[Unsupported]:
    for webhook in bundle.webhooks:
        rules = webhook.get("rules") or () if webhook.get("type") != CONVERSION else ()
        for rule in rules:
            for group in rule.get("apiGroups") or ():
                subject = f"webhook {_name(webhook)!r} has a forbidden rule:"
                if group in _FORBIDDEN_GROUPS:
                    yield Unsupported(f"{subject} API group {group!r}", hint="name the API groups of the operator")
                resources = rule.get("resources") or () if group == _ADMISSION else ()
                for resource in resources:
                    if resource.lower() in _FORBIDDEN_RESOURCES:
                        message = f"{subject} resource {resource!r} of API group {group!r}"
                        yield Unsupported(message, hint="name the resources of the operator")


def _kinds(bundle: RegistryV1) -> Iterator[Unsupported]:
    kinds = supported_kinds(Compat.NEWEST)
    for value in bundle.others:
        kind, name = str(value["kind"]), object_name(value)
        if kind not in kinds:
            path = bundle.paths.get((kind, name), "")
            yield Unsupported(f"bundles cannot contain objects of kind {kind} ({name!r})", path, "remove the object")


def _api_services(bundle: RegistryV1) -> Iterator[Unsupported]:
    for owned in bundle.spec.get("apiservicedefinitions", {}).get("owned") or ():
        name = owned.get("name", "")
        yield Unsupported(f"OLM v1 does not support API services ({name!r})", hint="serve the API by a CRD")


def _install_modes(bundle: RegistryV1) -> Iterator[Unsupported]:
    if not bundle.install_modes & {ALL_NAMESPACES, OWN_NAMESPACE, SINGLE_NAMESPACE}:
        yield Unsupported(
            f"none of the install modes {ALL_NAMESPACES}, {OWN_NAMESPACE} and {SINGLE_NAMESPACE} is supported",
            hint="support one of them",
        )


def _preserved_fields(bundle: RegistryV1) -> Iterator[Unsupported]:
    converted = {name for webhook in _of_type(bundle, CONVERSION) for name in webhook.get("conversionCRDs") or ()}
    for definition in bundle.definitions:
        name = object_name(definition)
        if name in converted and definition.get("spec", {}).get("preserveUnknownFields"):
            path = bundle.paths.get((CRD_KIND, name), "")
            message = f"CustomResourceDefinition {name!r} with a conversion webhook preserves unknown fields"
            yield Unsupported(message, path, "set spec.preserveUnknownFields to false")


RENDER_CHECKS: tuple[Callable[[RegistryV1], Iterator[Unsupported]], ...] = (
    _duplicate_deployments,
    _deployment_names,
    _duplicate_definitions,
    _owned_definitions,
    _package,
    _conversion_install_modes,
    _webhook_deployments,
    _duplicate_webhooks,
    _webhook_names,
    _conversions_by_several,
    _converted_definitions,
    _webhook_rules,
    _kinds,
)
"""The checks of the renderer, in its order."""
_CHECKS = (*RENDER_CHECKS, _preserved_fields, _api_services, _install_modes)


def unsupported_namespaces(bundle: RegistryV1, namespace: str, targets: Collection[str]) -> str:
    """Return why an operator cannot be installed to watch namespaces, or "".

    Args:
        bundle: The bundle.
        namespace: The namespace of the operator.
        targets: The namespaces to watch; "" stands for all.
    """
    modes, watched = bundle.install_modes, set(targets)
    names = ", ".join(sorted(modes)) or "none"
    if not watched:
        return f"the operator does not watch all namespaces (supported install modes: {names})"
    if watched == {""}:
        needed = ALL_NAMESPACES
    elif len(watched) == 1:
        needed = OWN_NAMESPACE if watched == {namespace} else SINGLE_NAMESPACE
    else:
        needed = MULTI_NAMESPACE
        if namespace in watched and OWN_NAMESPACE not in modes:
            needed = OWN_NAMESPACE
        if "" in watched:
            return "all namespaces, and others, cannot be watched at the same time"
    return "" if needed in modes else f"the operator does not support install mode {needed}, only {names}"


def _of_type(bundle: RegistryV1, kind: str) -> list[Mapping[str, Any]]:
    return [webhook for webhook in bundle.webhooks if webhook.get("type") == kind]


def _name(webhook: Mapping[str, Any]) -> str:
    return str(webhook.get("generateName", ""))


def _repeated(values: Iterable[Any]) -> list[Any]:
    return sorted(value for value, count in Counter(values).items() if count > 1)
