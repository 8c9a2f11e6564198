"""The objects of OLM v0 in a cluster: what a namespace has installed, follows and waits for."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from opmkit.bundle.property_types import REQUIRED_GVK
from opmkit.documents import fields
from opmkit.documents.errors import FieldTypeError
from opmkit.documents.lenient import items, mapping, text
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.blobs import PACKAGE, BlobProperty
from opmkit.index.plan.candidate import GVK, BundleProperties, CatalogEntry, CatalogKey, Hold
from opmkit.index.plan.namespace import Subscription

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from opmkit.documents.json_value import JsonValue

PROPERTIES_ANNOTATION = "operatorframework.io/properties"
EXCLUDE_GLOBAL_ANNOTATION = "olm.operatorframework.io/exclude-global-namespace-resolution"
_FAIL_FORWARD = "TechPreviewUnsafeFailForward"
_FAILED, _PENDING = "Failed", "Pending"
_REPLACED = ("Replacing", "Deleting")
_NO_VERSION = "0.0.0"
"""The version of a ClusterServiceVersion that names none."""


class ClusterCatalogSource(Struct, frozen=True):
    """A CatalogSource.

    Attributes:
        key: Its name and namespace.
        image: Its index image, or "" if it names none.
        priority: Its priority.
    """

    key: CatalogKey
    image: str
    priority: int = 0

    def index(self) -> str:
        """Return the name of its index; raises CatalogError if it has no image."""
        if not self.image:
            name = f"{self.key.namespace}/{self.key.name}"
            raise CatalogError(f"CatalogSource {name} has no image", hint=f"name its index: {name}=INDEX")
        return self.image


class ClusterNamespace(Struct, frozen=True):
    """A namespace with Subscriptions.

    Attributes:
        name: Its name.
        subscriptions: Its Subscriptions.
        installed: Its installed operators, without copies of those of other namespaces.
        sees_global_catalogs: Whether its Subscriptions are resolved with the catalogs of the global namespace as well.
        problem: Why OLM resolves nothing in it, whatever the catalogs contain, or "".
        notes: What delays updates, or is not considered.
    """

    name: str
    subscriptions: tuple[Subscription, ...]
    installed: tuple[CatalogEntry, ...]
    sees_global_catalogs: bool = True
    problem: str = ""
    notes: tuple[str, ...] = ()


def namespace_of(value: Mapping[str, Any]) -> str:
    """Return the namespace of an object."""
    return text(mapping(value.get("metadata")).get("namespace"))


def _name(value: Mapping[str, Any]) -> str:
    return text(mapping(value.get("metadata")).get("name"))


def read_source(source: Mapping[str, Any]) -> ClusterCatalogSource:
    """Read a CatalogSource."""
    spec = mapping(source.get("spec"))
    priority = spec.get("priority")
    key = CatalogKey(_name(source), namespace_of(source))
    return ClusterCatalogSource(key, text(spec.get("image")), priority if isinstance(priority, int) else 0)


def referred_sources(namespaces: Iterable[ClusterNamespace]) -> list[ClusterCatalogSource]:
    """Return the CatalogSources that Subscriptions name."""
    keys = {subscription.catalog for namespace in namespaces for subscription in namespace.subscriptions}
    return [ClusterCatalogSource(key, "") for key in keys]


def read_namespace(
    name: str,
    subscriptions: Iterable[Mapping[str, Any]],
    versions: Iterable[Mapping[str, Any]],
    groups: Collection[Mapping[str, Any]],
) -> ClusterNamespace:
    """Read the objects of a namespace: its Subscriptions, ClusterServiceVersions and OperatorGroups."""
    forwards = any(mapping(group.get("spec")).get("upgradeStrategy") == _FAIL_FORWARD for group in groups)
    own = _Versions({_name(each): each for each in versions if not _is_copied(each)}, forwards)
    packages: defaultdict[str, set[str]] = defaultdict(set)
    found: list[Subscription] = []
    notes: list[str] = []
    problems: list[str] = []
    failed: dict[str, None] = {}
    if len(groups) != 1:
        problems.append(f"it has {len(groups)} OperatorGroups instead of one, so that OLM resolves nothing")
    for value in sorted(subscriptions, key=_name):
        subscription = _read_subscription(value, own)
        found.append(subscription)
        packages[subscription.installed_csv].add(subscription.package)
        if mapping(value.get("spec")).get("installPlanApproval") == "Manual":
            notes.append(f"Subscription {subscription.name}: each step waits for the approval of its InstallPlan")
        if subscription.pending_csv:
            failed |= dict.fromkeys(filter(None, (_failed_plan(value),)))
    if all(each.pending_csv for each in found):
        problems += failed  # OLM resolves nothing, and does not execute a plan again
    else:
        notes += failed
    installed = []
    for each in own.present():
        try:
            installed.append(own.read(each, packages.get(each, set())))
        except CatalogError as error:
            problems.append(f"ClusterServiceVersion {each}: {error.message}, so that OLM resolves nothing")
    annotations = [mapping(mapping(group.get("metadata")).get("annotations")) for group in groups]
    sees_global = all(each.get(EXCLUDE_GLOBAL_ANNOTATION) != "true" for each in annotations)
    return ClusterNamespace(name, tuple(found), tuple(installed), sees_global, "; ".join(problems), tuple(notes))


def _read_subscription(value: Mapping[str, Any], own: _Versions) -> Subscription:
    """Read a Subscription; what it waits for is installed if it exists, as OLM sets the status then."""
    spec, status = mapping(value.get("spec")), mapping(value.get("status"))
    current, installed = text(status.get("currentCSV")), text(status.get("installedCSV"))
    plan = text(mapping(status.get("installPlanRef")).get("name"))
    waits = bool(plan) and current not in ("", *own.values) and status.get("state") == "UpgradePending"
    installed = current if current in own.values else installed
    return Subscription(
        _name(value),
        text(spec.get("name")),
        text(spec.get("channel")),
        CatalogKey(text(spec.get("source")), text(spec.get("sourceNamespace"))),
        text(spec.get("startingCSV")),
        installed if installed in own.values else "",
        current if waits else "",
        plan if waits else "",
    )


def _failed_plan(subscription: Mapping[str, Any]) -> str:
    """Return why the InstallPlan of a Subscription has failed, or ""."""
    status = mapping(subscription.get("status"))
    plan = text(mapping(status.get("installPlanRef")).get("name"))
    for condition in map(mapping, items(status.get("conditions"))):
        if (condition.get("type"), condition.get("status")) == ("InstallPlanFailed", "True"):
            return f"InstallPlan {plan} has failed: {text(condition.get('message')) or text(condition.get('reason'))}"
    return ""


def _is_copied(version: Mapping[str, Any]) -> bool:
    labels = mapping(mapping(version.get("metadata")).get("labels"))
    return "olm.copiedFrom" in labels or mapping(version.get("status")).get("reason") == "Copied"


class _Versions(Struct, frozen=True):
    """The ClusterServiceVersions of a namespace.

    Attributes:
        values: The objects by name.
        forwards: Whether OLM replaces failed ones.
    """

    values: Mapping[str, Mapping[str, Any]]
    forwards: bool

    def present(self) -> list[str]:
        """Return the names of those that remain: not of those whose replacement is being installed."""
        return sorted(name for name in self.values if self._phase(name) not in _REPLACED or not self._leaves(name))

    def _phase(self, name: str) -> str:
        return text(mapping(self.values[name].get("status")).get("phase"))

    def _replaces(self, name: str) -> str:
        return text(mapping(self.values[name].get("spec")).get("replaces"))

    def _leaves(self, name: str) -> bool:
        """Return whether the last one of the chain of replacements succeeds, as far as its phase says."""
        replacements = {self._replaces(each): each for each in sorted(self.values)}
        seen = {name}
        while (name := replacements.get(name, name)) not in seen:
            seen.add(name)
        return self._phase(name) not in (_FAILED, _PENDING) or (self.forwards and self._phase(name) == _FAILED)

    def _hold(self, name: str) -> Hold | None:
        """Return why OLM replaces an operator with nothing, if so: it replaces only what has succeeded."""
        phase, replaced = self._phase(name), self._replaces(name)
        if phase in _REPLACED:
            return Hold("is not removed until its replacement succeeds")
        if phase == _PENDING and replaced in self.values and self._phase(replaced) in (_FAILED, _PENDING):
            return Hold(f"stays Pending until {replaced} succeeds or is deleted")
        if phase == _PENDING or (phase == _FAILED and not self.forwards):
            status = mapping(self.values[name].get("status"))
            why = ": ".join(filter(None, (text(status.get("reason")), text(status.get("message")))))
            remedy = f"correct what {name} reports, or delete its ClusterServiceVersion"
            return Hold(f"is {phase} ({why}), so that OLM does not replace it", remedy)
        return None

    def read(self, name: str, packages: Collection[str]) -> CatalogEntry:
        """Return an installed operator; without a Subscription that follows it, every solution must contain it.

        Args:
            name: Its name.
            packages: The packages of the Subscriptions that follow it.

        Raises:
            CatalogError: OLM cannot read its properties.
        """
        version = self.values[name]
        spec = mapping(version.get("spec"))
        annotation = mapping(mapping(version.get("metadata")).get("annotations")).get(PROPERTIES_ANNOTATION)
        number = text(spec.get("version")) or _NO_VERSION
        inferred = tuple(_inferred_properties(spec))
        if isinstance(annotation, str):
            properties = tuple(_annotated_properties(annotation))
        else:
            value: JsonValue = {
                "packageName": next(iter(packages), ""),
                "version": number if number != _NO_VERSION else "",
            }
            properties = (*inferred, *[BlobProperty(PACKAGE, value)] * (len(packages) == 1))
        package = next(iter(sorted(packages)), "")
        for item in properties:
            if item.type == PACKAGE:
                package = text(mapping(item.value).get("packageName")) or package
        bundle = BundleProperties(name, package, number, properties)
        key = CatalogKey("", namespace_of(version))
        return CatalogEntry(bundle, key, is_mandatory=not packages, hold=self._hold(name))


def _annotated_properties(annotation: str) -> Iterator[BlobProperty]:
    """Yield the properties that OLM has copied from the catalog; raises CatalogError for a damaged annotation."""
    try:
        value = json.loads(annotation)
        listed = fields.member(fields.mapping(value, "the annotation"), "properties")
        for item in fields.items(listed, "properties"):
            members = fields.mapping(item, "a property")
            yield BlobProperty(fields.text(fields.member(members, "type"), "type"), fields.member(members, "value"))
    except (ValueError, RecursionError, FieldTypeError) as error:
        raise CatalogError(f"invalid annotation {PROPERTIES_ANNOTATION}: {error}") from error


def _inferred_properties(spec: Mapping[str, Any]) -> Iterator[BlobProperty]:
    """Yield the APIs of a ClusterServiceVersion that has no properties; raises CatalogError for an invalid CRD name."""
    for section, kind in (("owned", GVK), ("required", REQUIRED_GVK)):
        for crd in map(mapping, items(mapping(spec.get("customresourcedefinitions")).get(section))):
            _, dot, group = text(crd.get("name")).partition(".")
            if not dot:
                raise CatalogError(f"invalid name of a CustomResourceDefinition: {text(crd.get('name'))!r}")
            yield BlobProperty(kind, {"group": group, "version": crd.get("version"), "kind": crd.get("kind")})
        for api in map(mapping, items(mapping(spec.get("apiservicedefinitions")).get(section))):
            yield BlobProperty(kind, {name: api.get(name) for name in ("group", "version", "kind")})
