"""The state of OLM v0 in a cluster, as the Kubernetes API returns its objects, and what each namespace does next."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from opmkit.bundle.property_types import REQUIRED_GVK
from opmkit.core.json_types import JsonResult
from opmkit.documents.lenient import items, mapping, text
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.blobs import PACKAGE, BlobProperty
from opmkit.index.plan.candidate import GVK, BundleProperties, CatalogEntry, CatalogKey
from opmkit.index.plan.namespace import Namespace, Subscription
from opmkit.index.plan.result import NamespacePlan, PlanProblem, PlanReport
from opmkit.index.plan.walk import walk
from opmkit.index.suggestions import suggest_names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from opmkit.index.plan.namespace import ResolvableCatalog

DEFAULT_GLOBAL_NAMESPACES = ("openshift-marketplace", "olm", "operator-lifecycle-manager")
"""Namespaces whose CatalogSources all others see, in installations of OLM."""
PROPERTIES_ANNOTATION = "operatorframework.io/properties"
EXCLUDE_GLOBAL_ANNOTATION = "olm.operatorframework.io/exclude-global-namespace-resolution"
_FAIL_FORWARD = "TechPreviewUnsafeFailForward"
_KINDS = ("ClusterServiceVersion", "Subscription", "CatalogSource", "OperatorGroup")


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


@dataclass(frozen=True, slots=True)
class ClusterState(JsonResult):
    """The state of OLM v0 in a cluster.

    Attributes:
        namespaces: The namespaces with Subscriptions, by name.
        sources: The CatalogSources, by namespace and name.
        global_namespace: Name of the namespace whose catalogs all others see, or "" if there is none.
    """

    namespaces: tuple[ClusterNamespace, ...]
    sources: tuple[ClusterCatalogSource, ...]
    global_namespace: str = ""

    @classmethod
    def parse(cls, content: bytes, name: str) -> ClusterState:
        """Parse the output of ``kubectl get csv,subscription,catalogsource,operatorgroup -A -o json``.

        Args:
            content: The output.
            name: Name of its file, for messages.

        Raises:
            CatalogError: It is not a list of objects in JSON, or has no Subscription.
        """
        hint = "write it with kubectl get csv,subscription,catalogsource,operatorgroup -A -o json"
        try:
            value = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise CatalogError(f"{name}: not JSON: {error}", hint=hint) from error
        if not isinstance(mapping(value).get("items"), list):
            raise CatalogError(f"{name}: not a list of objects", hint=hint)
        return cls.of_objects(value["items"], name)

    @classmethod
    def of_objects(cls, objects: Iterable[object], name: str = "the cluster") -> ClusterState:
        """Return the state of ClusterServiceVersions, Subscriptions, CatalogSources and OperatorGroups.

        Args:
            objects: The objects.
            name: Where they are from, for messages.

        Raises:
            CatalogError: There is no Subscription.
        """
        by_kind: defaultdict[str, defaultdict[str, list[Mapping[str, Any]]]] = defaultdict(lambda: defaultdict(list))
        for each in map(mapping, objects):
            by_kind[text(each.get("kind"))][_namespace(each)].append(each)
        versions, subscriptions, catalog_sources, groups = (by_kind[kind] for kind in _KINDS)
        if not subscriptions:
            raise CatalogError(f"{name}: no Subscription found", hint="include subscriptions of all namespaces (-A)")
        namespaces = [
            _read_namespace(namespace, found, versions[namespace], groups[namespace] if groups else None)
            for namespace, found in sorted(subscriptions.items())
        ]
        read = [_read_source(source) for found in catalog_sources.values() for source in found]
        return cls(tuple(namespaces), tuple(sorted(read, key=_order)), _global_namespace(namespaces, read))

    def find_source(self, name: str) -> ClusterCatalogSource:
        """Return the CatalogSource called ``NAME`` or ``NAMESPACE/NAME``.

        Raises:
            CatalogError: There is none, or more than one.
        """
        namespace, _, short = name.rpartition("/")
        matching = [each for each in self.sources if each.key.name == short and namespace in ("", each.key.namespace)]
        if len(matching) == 1:
            return matching[0]
        names = [f"{each.key.namespace}/{each.key.name}" for each in matching or self.sources]
        if matching:
            raise CatalogError(f"several CatalogSources are called {name}", hint=f"name one: {', '.join(names)}")
        raise CatalogError(f"CatalogSource {name!r} not found", hint=suggest_names("CatalogSources", name, names))

    def visible_sources(self, namespace: ClusterNamespace) -> list[ClusterCatalogSource]:
        """Return the CatalogSources that OLM resolves the Subscriptions of a namespace with."""
        seen = {namespace.name} | ({self.global_namespace} if namespace.sees_global_catalogs else set())
        return [source for source in self.sources if source.key.namespace in seen]

    def needed_sources(self) -> list[ClusterCatalogSource]:
        """Return the CatalogSources that at least one namespace sees."""
        needed = {source.key for namespace in self.namespaces for source in self.visible_sources(namespace)}
        return [source for source in self.sources if source.key in needed]


@dataclass(frozen=True, slots=True)
class PlannedNamespace:
    """What OLM does in a namespace of a cluster.

    Attributes:
        name: Its name.
        plan: The resolutions; None if OLM resolves nothing.
        problem: Why it resolves nothing, or "".
        notes: What delays updates, or is not considered.
    """

    name: str
    plan: NamespacePlan | None
    problem: str = ""
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the plan in JSON types."""
        planned = self.plan.to_dict() if self.plan else {}
        return {**planned, "namespace": self.name, "problem": self.problem, "notes": list(self.notes)}


@dataclass(frozen=True, slots=True)
class ClusterPlan(PlanReport):
    """What OLM v0 does in a cluster.

    Attributes:
        namespaces: The namespaces with Subscriptions, by name.
    """

    namespaces: tuple[PlannedNamespace, ...]

    @property
    def targets(self) -> tuple[str, ...]:
        """The namespaces."""
        return tuple(f"namespace {each.name}" for each in self.namespaces)

    def problems(self) -> Iterator[PlanProblem]:
        """Yield why namespaces are blocked, or their updates do not end."""
        for target, each in zip(self.targets, self.namespaces, strict=True):
            if each.problem:
                yield PlanProblem(target, "blocked", each.problem)
            elif each.plan:
                yield from each.plan.problems()

    def to_dict(self) -> dict[str, Any]:
        """Return the plan in JSON types."""
        return {"namespaces": [namespace.to_dict() for namespace in self.namespaces]}


def plan_cluster(state: ClusterState, catalogs: Collection[ResolvableCatalog]) -> ClusterPlan:
    """Plan what OLM v0 does in each namespace until nothing changes.

    Args:
        state: The state of the cluster.
        catalogs: The catalogs of `ClusterState.needed_sources`.
    """
    by_key = {catalog.key: catalog for catalog in catalogs}
    planned = []
    for each in state.namespaces:
        visible = tuple(by_key[source.key] for source in state.visible_sources(each))
        plan, problem = None, each.problem
        if not problem:
            try:
                plan = NamespacePlan(walk(Namespace(each.name, visible, each.subscriptions, each.installed)))
            except CatalogError as error:
                problem = error.message
        planned.append(PlannedNamespace(each.name, plan, problem, each.notes))
    return ClusterPlan(tuple(planned))


def _namespace(value: Mapping[str, Any]) -> str:
    return text(mapping(value.get("metadata")).get("namespace"))


def _name(value: Mapping[str, Any]) -> str:
    return text(mapping(value.get("metadata")).get("name"))


def _order(source: ClusterCatalogSource) -> tuple[str, str]:
    return source.key.namespace, source.key.name


def _read_source(source: Mapping[str, Any]) -> ClusterCatalogSource:
    spec = mapping(source.get("spec"))
    priority = spec.get("priority")
    key = CatalogKey(_name(source), _namespace(source))
    return ClusterCatalogSource(key, text(spec.get("image")), priority if isinstance(priority, int) else 0)


def _global_namespace(namespaces: Iterable[ClusterNamespace], sources: Collection[ClusterCatalogSource]) -> str:
    """Return the namespace that Subscriptions of most other namespaces refer to, otherwise one with a default name."""
    with_sources = {source.key.namespace for source in sources}
    referred = Counter(
        each.catalog.namespace
        for namespace in namespaces
        for each in namespace.subscriptions
        if each.catalog.namespace != namespace.name and each.catalog.namespace in with_sources
    )
    defaults = [name for name in DEFAULT_GLOBAL_NAMESPACES if name in with_sources]
    return referred.most_common(1)[0][0] if referred else defaults[0] if defaults else ""


def _read_namespace(
    name: str,
    subscriptions: Iterable[Mapping[str, Any]],
    versions: Iterable[Mapping[str, Any]],
    groups: Collection[Mapping[str, Any]] | None,
) -> ClusterNamespace:
    own = {_name(each): each for each in versions if not _is_copied(each)}
    followed: dict[str, str] = {}
    found, notes = [], []
    for subscription in sorted(subscriptions, key=_name):
        spec, status = mapping(subscription.get("spec")), mapping(subscription.get("status"))
        installed, package = text(status.get("installedCSV")), text(spec.get("name"))
        installed = installed if installed in own else ""
        followed.setdefault(installed, package)
        key = CatalogKey(text(spec.get("source")), text(spec.get("sourceNamespace")))
        starting = text(spec.get("startingCSV"))
        channel = text(spec.get("channel"))
        found.append(Subscription(_name(subscription), package, channel, key, starting, installed))
        if spec.get("installPlanApproval") == "Manual":
            notes.append(f"Subscription {_name(subscription)}: each step waits for the approval of its InstallPlan")
    installed_bundles = [_read_version(each, followed) for _, each in sorted(own.items())]
    sees_global, problem = True, ""
    if groups is not None:
        if len(groups) != 1:
            problem = f"it has {len(groups)} OperatorGroups instead of one, so that OLM resolves nothing"
        for group in groups:
            annotations = mapping(mapping(group.get("metadata")).get("annotations"))
            sees_global = annotations.get(EXCLUDE_GLOBAL_ANNOTATION) != "true"
            if mapping(group.get("spec")).get("upgradeStrategy") == _FAIL_FORWARD:
                notes.append(f"OperatorGroup {_name(group)}: updates of failed installations are not considered")
    return ClusterNamespace(name, tuple(found), tuple(installed_bundles), sees_global, problem, tuple(notes))


def _is_copied(version: Mapping[str, Any]) -> bool:
    labels = mapping(mapping(version.get("metadata")).get("labels"))
    return "olm.copiedFrom" in labels or mapping(version.get("status")).get("reason") == "Copied"


def _read_version(version: Mapping[str, Any], followed: Mapping[str, str]) -> CatalogEntry:
    """Return an installed operator; without a Subscription that follows it, every solution must contain it."""
    name, spec = _name(version), mapping(version.get("spec"))
    annotation = text(mapping(mapping(version.get("metadata")).get("annotations")).get(PROPERTIES_ANNOTATION))
    number = text(spec.get("version"))
    properties = tuple(_annotated_properties(annotation) if annotation else _inferred_properties(spec))
    package = followed.get(name, "")
    if not annotation and package:
        properties += (BlobProperty(PACKAGE, {"packageName": package, "version": number}),)
    for item in properties:
        if item.type == PACKAGE:
            package = text(mapping(item.value).get("packageName")) or package
    bundle = BundleProperties(name, package, number, properties)
    return CatalogEntry(bundle, CatalogKey("", _namespace(version)), is_mandatory=name not in followed)


def _annotated_properties(annotation: str) -> Iterator[BlobProperty]:
    """Yield the properties that OLM has copied from the catalog; those of a damaged annotation are ignored."""
    try:
        value = json.loads(annotation)
    except (ValueError, RecursionError):
        return
    for item in map(mapping, items(mapping(value).get("properties"))):
        yield BlobProperty(text(item.get("type")), item.get("value"))


def _inferred_properties(spec: Mapping[str, Any]) -> Iterator[BlobProperty]:
    """Yield the APIs of a ClusterServiceVersion that has no properties."""
    for section, kind in (("owned", GVK), ("required", REQUIRED_GVK)):
        for crd in map(mapping, items(mapping(spec.get("customresourcedefinitions")).get(section))):
            group = text(crd.get("name")).partition(".")[2]
            yield BlobProperty(kind, {"group": group, "version": crd.get("version"), "kind": crd.get("kind")})
        for api in map(mapping, items(mapping(spec.get("apiservicedefinitions")).get(section))):
            yield BlobProperty(kind, {name: api.get(name) for name in ("group", "version", "kind")})
