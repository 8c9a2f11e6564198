"""The state of OLM v0 in a cluster, as the Kubernetes API returns its objects, and what each namespace does next."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opmkit.core.json_types import JsonResult
from opmkit.documents.document_stream import read_documents
from opmkit.documents.errors import InvalidDocument
from opmkit.documents.lenient import mapping, text
from opmkit.index.errors import CatalogError
from opmkit.index.plan.cluster_objects import (
    EXCLUDE_GLOBAL_ANNOTATION,
    ClusterCatalogSource,
    ClusterNamespace,
    namespace_of,
    read_namespace,
    read_source,
    referred_sources,
)
from opmkit.index.plan.namespace import Namespace, unmatched_subscriptions
from opmkit.index.plan.result import NamespacePlan, PlanProblem, PlanReport
from opmkit.index.suggestions import suggest_names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from opmkit.documents.json_value import JsonValue
    from opmkit.index.plan.candidate import CatalogKey
    from opmkit.index.plan.namespace import ResolvableCatalog

DEFAULT_GLOBAL_NAMESPACES = ("openshift-marketplace", "olm", "operator-lifecycle-manager")
"""Namespaces whose CatalogSources all others see, in installations of OLM."""
_KINDS = ("ClusterServiceVersion", "Subscription", "CatalogSource", "OperatorGroup")


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
        """Parse the output of ``kubectl get csv,subscription,catalogsource,operatorgroup -A -o json`` (or ``yaml``).

        Args:
            content: The output, or manifests in YAML.
            name: Name of its file, for messages.

        Raises:
            CatalogError: It contains no Kubernetes objects, or no Subscription.
        """
        hint = "write it with kubectl get csv,subscription,catalogsource,operatorgroup -A -o json"
        objects: list[JsonValue] = []
        for document in read_documents(content):
            if isinstance(document, InvalidDocument):
                raise CatalogError(f"{name}: neither JSON nor YAML: {document.problem}", hint=hint)
            value = document.value
            if not isinstance(value, dict) or not isinstance(listed := value.get("items", [value]), list):
                raise CatalogError(f"{name}: not a list of objects", hint=hint)
            objects += listed
        return cls.of_objects(objects, name)

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
            by_kind[text(each.get("kind"))][namespace_of(each)].append(each)
        versions, subscriptions, catalog_sources, groups = (by_kind[kind] for kind in _KINDS)
        if not subscriptions:
            raise CatalogError(f"{name}: no Subscription found", hint="include subscriptions of all namespaces (-A)")
        namespaces = [
            read_namespace(namespace, found, versions[namespace], groups[namespace])
            for namespace, found in sorted(subscriptions.items())
        ]
        read = [read_source(source) for found in catalog_sources.values() for source in found]
        read = read or referred_sources(namespaces)  # manifests of operators come without those of catalogs
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

    def missing_sources(self, namespace: ClusterNamespace) -> Mapping[CatalogKey, str]:
        """Return why OLM resolves Subscriptions of a namespace without the CatalogSources that they name."""
        visible = {source.key for source in self.visible_sources(namespace)}
        known = {source.key for source in self.sources}
        keys = {subscription.catalog for subscription in namespace.subscriptions} - visible
        return {key: self._why_missing(key, namespace, exists=key in known) for key in keys}

    def _why_missing(self, key: CatalogKey, namespace: ClusterNamespace, *, exists: bool) -> str:
        name = f"CatalogSource {key.namespace}/{key.name}"
        if not exists:
            return f"{name} does not exist"
        if key.namespace == self.global_namespace and not namespace.sees_global_catalogs:
            return f"the OperatorGroup excludes {name} ({EXCLUDE_GLOBAL_ANNOTATION})"
        elsewhere = " or ".join(filter(None, (namespace.name, self.global_namespace)))
        return f"{name} is not in the namespace {elsewhere}, so that OLM does not use it"

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
        missing = state.missing_sources(each)
        namespace = Namespace(each.name, visible, each.subscriptions, each.installed, missing)
        plan, problem, notes = None, each.problem, each.notes
        if problem:
            reasons = unmatched_subscriptions(namespace)
            notes += tuple(f"Subscription {each.subscription.name}: {each.problem}; {each.remedy}" for each in reasons)
        else:
            try:
                plan = NamespacePlan.of_namespace(namespace)
            except CatalogError as error:
                problem = error.message
        planned.append(PlannedNamespace(each.name, plan, problem, notes))
    return ClusterPlan(tuple(planned))


def _order(source: ClusterCatalogSource) -> tuple[str, str]:
    return source.key.namespace, source.key.name


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
