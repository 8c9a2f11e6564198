"""A real API server permits no more than ``opm bundle permissions`` reports.

The report is read by code of this module alone: `_Report` knows its JSON, and what Kubernetes documents about roles.
"""

from __future__ import annotations

import json
import time
from fnmatch import fnmatchcase
from itertools import product
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import requests

from opmkit import Opm, RenderRequest
from tests.kit.cluster.client import PATIENCE
from tests.kit.random_permissions import (
    ACCOUNTS,
    COLLECTED,
    GROUPS,
    RBAC,
    RESOURCES,
    SHARED,
    URLS,
    VERBS,
    RandomBundle,
)
from tests.kit.rounds import rounds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from tests.kit.cluster.client import KubeClient, Object
    from tests.kit.cluster.cluster import Cluster

_API = "/apis/rbac.authorization.k8s.io/v1"
_ROLES, _BINDINGS = f"{_API}/clusterroles", f"{_API}/clusterrolebindings"
_ELSEWHERE = "elsewhere"
_BUNDLES = 10
"""Number of bundles in a round."""
_PROBES = 12
"""Number of requests that each subject is asked about, in addition to the list of its rules."""
_INCLUDED = {"admin": {"edit", "view"}, "edit": {"view"}}
"""Roles that Kubernetes aggregates to others."""


class Subject(NamedTuple):
    """Who sends requests; service accounts have the groups that Kubernetes gives them."""

    user: str
    groups: tuple[str, ...] = ()

    @classmethod
    def account(cls, namespace: str, name: str) -> Subject:
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
        return cls(f"system:serviceaccount:{namespace}:{name}", groups)

    @property
    def all_groups(self) -> tuple[str, ...]:
        return (*self.groups, "system:authenticated")

    def is_named(self, subject: Mapping[str, str], namespace: str) -> bool:
        """Return whether a binding names this subject."""
        if subject["kind"] == "Group":
            return subject["name"] in self.all_groups
        if subject["kind"] == "User":
            return subject["name"] == self.user
        return self.user == f"system:serviceaccount:{subject.get('namespace') or namespace}:{subject['name']}"


OTHERS = (
    *(Subject(name) for name in ("alice", "carol", "erin", "victor")),
    Subject("dave", ("crew",)),
    Subject.account("other", "monitor"),
    Subject.account("kube-system", "op"),
)


class Request(NamedTuple):
    """A request; with a URL, it is not for a resource."""

    verb: str
    group: str = ""
    resource: str = ""
    name: str = ""
    url: str = ""

    def is_permitted(self, *rules: Mapping[str, list[str]]) -> bool:
        """Return whether one of the rules of a report permits it."""
        return any(map(self._is_permitted, rules))

    def _is_permitted(self, rule: Mapping[str, list[str]]) -> bool:
        if not {self.verb, "*"} & set(rule["verbs"]):
            return False
        if self.url:
            return any(fnmatchcase(self.url, url) for url in rule["urls"])
        subresource = f"*/{self.resource.partition('/')[2]}"
        resources = {self.resource, "*"} | ({subresource} if subresource != "*/" else set())
        return bool(
            {self.group, "*"} & set(rule["groups"])
            and resources & set(rule["resources"])
            and (not rule["names"] or self.name in rule["names"])
        )


class _Report:
    """The report of a bundle that is installed in a namespace, to watch this one or all."""

    def __init__(self, report: Object, client: KubeClient, namespace: str, *, watches_all: bool) -> None:
        self._report, self._namespace = report, namespace
        self._everywhere = {"cluster", "watched-namespaces"} if watches_all else {"cluster"}
        self._roles = {each["metadata"]["name"]: each for each in client.list(_ROLES)}
        self._bindings = client.list(_BINDINGS) + client.list(f"{_API}/rolebindings")

    def rules(self, subject: Subject, namespace: str) -> list[Mapping[str, list[str]]]:
        """Return the rules that the report lists for a subject in a namespace, "" for objects of the cluster."""
        roles, found = self._bound(subject), []
        for grant in self._report["grants"]:
            is_here = grant["scope"] in self._everywhere or namespace == self._namespace
            if is_here and self._is_granted(grant["subject"], subject, roles):
                found += [*grant["rules"], *self._content(grant["unknown_role"])]
        return found

    def _bound(self, subject: Subject) -> set[tuple[str, str]]:
        """Return kinds and names of the roles that bindings in the cluster give to a subject."""
        found = set()
        for each in self._bindings:
            namespace = each["metadata"].get("namespace", "")
            if any(subject.is_named(named, namespace) for named in each.get("subjects") or ()):
                kind, name = each["roleRef"]["kind"], each["roleRef"]["name"]
                found |= {
                    (kind, one) for one in ({name, *_INCLUDED.get(name, ())} if kind == "ClusterRole" else {name})
                }
        return found

    def _is_granted(self, text: str, subject: Subject, roles: set[tuple[str, str]]) -> bool:
        kind, _, name = text.rpartition(" ")
        if kind in ("User", "Group"):
            return subject.is_named({"kind": kind, "name": name}, "")
        if kind in ("Users with ClusterRole", "Users with Role"):
            return (kind.rpartition(" ")[2], name) in roles
        if kind == "Users with ClusterRoles that aggregate":
            return any(name == f"{key}={value}" for role in roles for key, value in self._selected(*role))
        namespace, _, account = text.rpartition("/")
        return subject.user == f"system:serviceaccount:{namespace or self._namespace}:{account}"

    def _selected(self, kind: str, name: str) -> Iterator[tuple[str, str]]:
        role = self._roles.get(name, {}) if kind == "ClusterRole" else {}
        for selector in (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ():
            yield from selector.get("matchLabels", {}).items()

    def _content(self, unknown: str) -> Iterator[dict[str, list[str]]]:
        """Yield the rules that the cluster has for a role whose rules the report does not know."""
        keys = {"verbs": "verbs", "groups": "apiGroups", "resources": "resources", "names": "resourceNames"}
        name = unknown.partition(",")[0].partition(" ")[2] if unknown.startswith("ClusterRole ") else ""
        for rule in self._roles.get(name, {}).get("rules") or ():
            yield {key: rule.get(field, []) for key, field in {**keys, "urls": "nonResourceURLs"}.items()}


class _Judge:
    """What subjects may do, by the API server."""

    def __init__(self, cluster: Cluster) -> None:
        self._client = cluster.client
        self._number = 0

    def requests(self, subject: Subject, namespace: str) -> set[Request]:
        """Return what a subject may do in a namespace; wildcards are verbs, resources and so on like others."""
        headers = [("Impersonate-User", subject.user), *(("Impersonate-Group", each) for each in subject.groups)]
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectRulesReview",
            "spec": {"namespace": namespace},
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
        status = self._client.request("POST", path, json=body, headers=dict(headers))["status"]
        assert not status["incomplete"]
        found = set()
        for rule in status["resourceRules"]:
            values = product(rule["verbs"], rule["apiGroups"], rule["resources"], rule.get("resourceNames") or [""])
            found |= {Request(*each) for each in values}
        for rule in status["nonResourceRules"]:
            found |= {Request(verb, url=url) for verb, url in product(rule["verbs"], rule["nonResourceURLs"])}
        return found

    def allows(self, subject: Subject, namespace: str, request: Request) -> bool:
        """Return whether a subject may send a request."""
        if request.url:
            attributes: dict[str, Any] = {"nonResourceAttributes": {"path": request.url, "verb": request.verb}}
        else:
            resource, _, subresource = request.resource.partition("/")
            named = {"resource": resource, "subresource": subresource, "name": request.name, "group": request.group}
            attributes = {"resourceAttributes": {"verb": request.verb, "namespace": namespace, **named}}
        spec = {"user": subject.user, "groups": list(subject.all_groups), **attributes}
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        return bool(self._client.post(path, body)["status"]["allowed"])

    def wait(self, namespace: str) -> None:
        """Return once controllers have aggregated all roles, and the authorizer has seen all changes before."""
        _until(lambda: _are_aggregated(self._client.list(_ROLES)))
        self._number += 1
        name, subjects = f"mark-{namespace}-{self._number}", [{"kind": "User", "name": "marker", "apiGroup": RBAC[:-3]}]
        for kind, place in (("ClusterRole", {}), ("Role", {"namespace": namespace})):
            metadata, selector = {"name": name, **place}, {"matchLabels": {"mark": name}}
            rules: dict[str, Any] = {"rules": [{"verbs": [name], "apiGroups": [kind], "resources": ["marks"]}]}
            reference = {"apiGroup": RBAC[:-3], "kind": kind, "name": name}
            if kind == "ClusterRole":  # the controller has to aggregate it
                part = {"name": f"{name}-part", "labels": selector["matchLabels"]}
                self._client.apply({"apiVersion": RBAC, "kind": kind, "metadata": part, **rules})
                rules = {"aggregationRule": {"clusterRoleSelectors": [selector]}}
            self._client.apply({"apiVersion": RBAC, "kind": kind, "metadata": metadata, **rules})
            bind = {"kind": f"{kind}Binding", "roleRef": reference, "subjects": subjects}
            self._client.apply({"apiVersion": RBAC, "metadata": metadata, **bind})
            request = Request(name, kind, "marks")
            _until(lambda request=request: self.allows(Subject("marker"), namespace, request))


def _are_aggregated(roles: list[Object]) -> bool:
    """Return whether each ClusterRole that selects others has their rules; it keeps its own if it selects none."""
    for role in roles:
        selectors = (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()
        others = [other for other in roles if other is not role and _is_selected(other, selectors)]
        if not _rules(role) >= _rules(*others):
            return False
    return True


def _is_selected(role: Object, selectors: Iterable[Object]) -> bool:
    labels = (role["metadata"].get("labels") or {}).items()
    return any(each.get("matchLabels", {}).items() <= labels for each in selectors)


def _rules(*roles: Object) -> set[str]:
    return {json.dumps(rule, sort_keys=True) for role in roles for rule in role.get("rules") or ()}


def _until(condition: Any) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def inhabited(empty_cluster: Cluster) -> Cluster:
    """Return a cluster with roles, and subjects that are bound to them."""
    client, users = empty_cluster.client, "rbac.authorization.k8s.io"
    for name in ("other", _ELSEWHERE):
        empty_cluster.create_namespace(name)
    reviews = {"verbs": ["create"], "apiGroups": ["authorization.k8s.io"], "resources": ["selfsubjectrulesreviews"]}
    configmaps = {"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]}
    for name, rule in ((SHARED, configmaps), ("reviewer", reviews)):
        client.apply({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": name}, "rules": [rule]})
    selector = {"clusterRoleSelectors": [{"matchLabels": COLLECTED}]}
    client.apply(
        {"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": "collector"}, "aggregationRule": selector}
    )
    groups = {"crew": SHARED, "system:authenticated": "reviewer"}
    for name, role in {"carol": "collector", "erin": "edit", "victor": "view", **groups}.items():
        subject = {"kind": "Group" if name in groups else "User", "name": name, "apiGroup": users}
        reference = {"apiGroup": users, "kind": "ClusterRole", "name": role}
        bind = {"kind": "ClusterRoleBinding", "metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
        client.apply({"apiVersion": RBAC, **bind})
    return empty_cluster


def _write(bundle: RandomBundle, directory: Path) -> None:
    for number, value in enumerate(bundle.objects):
        path = directory / "manifests" / f"{number}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value))
    annotations = {"operators.operatorframework.io.bundle.package.v1": "demo"}
    (directory / "metadata").mkdir()
    (directory / "metadata" / "annotations.yaml").write_text(json.dumps({"annotations": annotations}))


def _objects_of_olm_v0(bundle: RandomBundle, *, watches_all: bool) -> Iterator[Object]:
    """Yield what OLM v0 creates: the manifests, service accounts, and roles for the ClusterServiceVersion."""
    yield from bundle.objects[1:]
    strategy = bundle.csv["spec"]["install"]["spec"]
    for key in ("permissions", "clusterPermissions"):
        for number, granted in enumerate(strategy[key]):
            account, is_wide = granted["serviceAccountName"], watches_all or key == "clusterPermissions"
            rules = list(granted["rules"])
            if watches_all and key == "permissions":
                rules.append({"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["namespaces"]})
            kind, name = "ClusterRole" if is_wide else "Role", f"{bundle.namespace}-{key.lower()}-{number}"
            subject = {"kind": "ServiceAccount", "name": account, "namespace": bundle.namespace}
            reference = {"apiGroup": RBAC[:-3], "kind": kind, "name": name}
            yield {"apiVersion": RBAC, "kind": kind, "metadata": {"name": name}, "rules": rules}
            metadata = {"name": name}
            yield {
                "apiVersion": RBAC,
                "kind": f"{kind}Binding",
                "metadata": metadata,
                "roleRef": reference,
                "subjects": [subject],
            }


def _replace(client: KubeClient, value: Object) -> None:
    """Create an object, or replace an existing one as OLM v0 does."""
    path = client.path(value)
    try:
        client.post(path.rpartition("/")[0], value)
    except requests.HTTPError as error:
        if error.response is None or error.response.status_code != 409:
            raise
        client.request("PUT", path, json=value)


def _install(client: KubeClient, bundle: RandomBundle, directory: Path, *, version: int, watches_all: bool) -> None:
    if version:
        request = RenderRequest(bundle.namespace, () if watches_all else (bundle.namespace,))
        objects: Iterable[Object] = map(dict, Opm().render_bundle(str(directory), request).objects)
    else:
        objects = _objects_of_olm_v0(bundle, watches_all=watches_all)
    for value in objects:
        if value["kind"] != "Deployment":
            placed = {**value, "metadata": {**value["metadata"], "namespace": bundle.namespace}}
            if value["kind"].startswith("Cluster"):
                placed = value
            client.apply(placed) if version else _replace(client, placed)


@pytest.mark.parametrize("round_", rounds(30, 3))
def test_subjects_may_do_no_more_than_the_report_says(inhabited: Cluster, tmp_path: Path, round_: int) -> None:
    client, judge, gained = inhabited.client, _Judge(inhabited), 0
    judge.wait(_ELSEWHERE)
    initial = {path: {each["metadata"]["name"]: each for each in client.list(path)} for path in (_ROLES, _BINDINGS)}
    usual = {subject: judge.requests(subject, _ELSEWHERE) for subject in OTHERS}
    usual_account = judge.requests(Subject.account("other", "default"), _ELSEWHERE)
    for seed in range(round_ * _BUNDLES, (round_ + 1) * _BUNDLES):
        namespace, directory, random = f"op-{seed}", tmp_path / str(seed), Random(seed)
        inhabited.create_namespace(namespace)
        bundle = RandomBundle(seed, namespace)
        watches_all = "AllNamespaces" in bundle.modes and random.choice((bundle.modes == ["AllNamespaces"], True))
        _write(bundle, directory)
        permissions = Opm().bundle_permissions(str(directory)).to_dict()
        _install(client, bundle, directory, version=seed % 2, watches_all=watches_all)
        judge.wait(namespace)
        report = _Report(permissions, client, namespace, watches_all=watches_all)
        for subject in (*OTHERS, *(Subject.account(namespace, name) for name in ACCOUNTS)):
            known = usual.get(subject, usual_account)
            reported = {place: report.rules(subject, place) for place in (namespace, _ELSEWHERE, "")}
            for place in (namespace, _ELSEWHERE):
                found = judge.requests(subject, place) - known
                gained += len(found)
                unseen = [each for each in found if not each.is_permitted(*reported[place])]
                assert not unseen, (seed, subject, place, unseen, bundle.objects)
            for _ in range(_PROBES):
                place, request = random.choice((namespace, _ELSEWHERE, "")), _random_request(random)
                if judge.allows(subject, place, request) and not request.is_permitted(*map(_rule, known)):
                    assert request.is_permitted(*reported[place]), (seed, subject, place, request, bundle.objects)
        _restore(client, judge, initial)
    assert gained > 10 * _BUNDLES


def _random_request(random: Random) -> Request:
    verb = random.choice(VERBS[:-1])
    if random.random() < 0.2:
        return Request(verb, url=random.choice(URLS[:-1]).replace("*", "x"))
    resource = random.choice(RESOURCES[:-1]).replace("*", "reefs")
    return Request(verb, random.choice(GROUPS[:-1]), resource, random.choice(("", "a", "c")))


def _rule(request: Request) -> dict[str, list[str]]:
    """Return the rule that permits a request, as a report has it."""
    values = {"verbs": request.verb, "groups": request.group, "resources": request.resource}
    names = {"names": [request.name] if request.name else [], "urls": [request.url] if request.url else []}
    return {**{key: [value] for key, value in values.items()}, **names}


def _restore(client: KubeClient, judge: _Judge, initial: Mapping[str, Mapping[str, Object]]) -> None:
    """Remove roles and bindings of a bundle, and restore those that it has replaced.

    The controller that aggregates roles can overwrite a restored role once more.
    """
    is_changed = True
    while is_changed:
        is_changed = False
        for path, wanted in initial.items():
            for each in client.list(path):
                name = each["metadata"]["name"]
                if name not in wanted:
                    client.delete(f"{path}/{name}")
                elif _content(each) != _content(wanted[name]):
                    metadata = {
                        key: value for key, value in wanted[name]["metadata"].items() if key != "resourceVersion"
                    }
                    client.request("PUT", f"{path}/{name}", json={**wanted[name], "metadata": metadata})
                    is_changed = True
        judge.wait(_ELSEWHERE)


def _content(value: Object) -> tuple[Any, ...]:
    return _rules(value), value.get("aggregationRule"), value.get("subjects"), value["metadata"].get("labels")
