"""Policy rules, and what they permit beyond others."""

from __future__ import annotations

import time
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opmkit.bundle.permissions.rule import PolicyRule, uncovered

VERBS, GROUPS = ("get", "list", "*", "other"), ("", "apps", "*", "other")
RESOURCES = ("pods", "pods/log", "jobs/log", "*", "*/log", "*/other", "other", "other/other")
NAMES, URLS = ("a", "b", "other"), ("/x", "/x/y", "/x/*", "*", "/", "/z*", "/other")
WIDEST = PolicyRule(("*",), ("*",), ("*",))


def subset(values: tuple[str, ...]) -> st.SearchStrategy[tuple[str, ...]]:
    """Return a strategy for the values that rules name; requests also have the last one."""
    return st.lists(st.sampled_from(values[:-1]), max_size=2, unique=True).map(lambda found: tuple(sorted(found)))


RULES = st.lists(
    st.builds(PolicyRule, subset(VERBS), subset(GROUPS), subset(RESOURCES), subset(NAMES), subset(URLS)), max_size=4
)


def allows(rule: PolicyRule, verb: str, group: str, resource: str, name: str) -> bool:
    """Return the result of ``RuleAllows`` in Kubernetes' plugin/pkg/auth/authorizer/rbac for a resource."""
    _, slash, subresource = resource.partition("/")
    return (
        ("*" in rule.verbs or verb in rule.verbs)
        and ("*" in rule.groups or group in rule.groups)
        and any(each in ("*", resource) or (slash != "" and each == f"*/{subresource}") for each in rule.resources)
        and (not rule.names or name in rule.names)
    )


def allows_url(rule: PolicyRule, verb: str, url: str) -> bool:
    """Return the result of ``RuleAllows`` for a path."""
    return ("*" in rule.verbs or verb in rule.verbs) and any(
        each in ("*", url) or (each.endswith("*") and url.startswith(each.rstrip("*"))) for each in rule.urls
    )


@given(RULES, RULES)
def test_what_is_left_is_what_only_the_new_rules_permit(new: list[PolicyRule], owned: list[PolicyRule]) -> None:
    left = uncovered(new, owned)
    requests = product(VERBS, GROUPS, RESOURCES, ("", *NAMES))
    for verb, group, resource, name in requests:
        request = (verb, group, resource, name)
        wanted = any(allows(rule, *request) for rule in new)
        had, gained = (any(allows(rule, *request) for rule in rules) for rules in (owned, left))
        assert wanted == gained or (wanted and had), request
        assert (wanted and not had) <= gained, request
    for verb, url in product(VERBS, ("/x", "/x/y", "/x/other", "/", "/z", "/zz", "/other")):
        wanted, had, gained = (any(allows_url(rule, verb, url) for rule in rules) for rules in (new, owned, left))
        assert wanted == gained or (wanted and had), url
        assert (wanted and not had) <= gained, url
    assert uncovered(left, [*owned, *left]) == ()


@given(RULES, RULES)
def test_covered_rules_permit_nothing_new(new: list[PolicyRule], owned: list[PolicyRule]) -> None:
    if uncovered(new, owned) == ():
        for request in product(VERBS, GROUPS, RESOURCES, ("", *NAMES)):
            assert any(allows(rule, *request) for rule in owned) >= any(allows(rule, *request) for rule in new)


@pytest.mark.parametrize(
    ("new", "old"),
    [
        (PolicyRule(("get",), ("",), ("pods",)), WIDEST),
        (PolicyRule(("get",), ("",), ("pods/log",)), PolicyRule(("get",), ("",), ("*/log",))),
        (PolicyRule(("get",), ("",), ("*/log",)), PolicyRule(("get",), ("",), ("*",))),
        (PolicyRule(("get",), ("",), ("pods",), ("a",)), PolicyRule(("get",), ("",), ("pods",))),
        (PolicyRule(("get",), urls=("/x/y",)), PolicyRule(("get",), urls=("/x/*",))),
        (PolicyRule(("get",), urls=("/x",)), PolicyRule(("*",), names=("a",), urls=("*",))),
        (PolicyRule((), ("",), ("pods",)), PolicyRule()),
        (PolicyRule(("get",), (), ("pods",)), PolicyRule()),
    ],
    ids=str,
)
def test_covered(new: PolicyRule, old: PolicyRule) -> None:
    assert uncovered([new], [old]) == ()


@pytest.mark.parametrize(
    ("new", "old"),
    [
        (WIDEST, PolicyRule(("get", "list"), ("*",), ("*",))),
        (PolicyRule(("get",), ("",), ("pods/log",)), PolicyRule(("get",), ("",), ("pods",))),
        (PolicyRule(("get",), ("",), ("pods",)), PolicyRule(("get",), ("",), ("*/pods",))),
        (PolicyRule(("get",), ("",), ("pods",)), PolicyRule(("get",), ("",), ("pods",), ("a",))),
        (PolicyRule(("get",), ("",), ("pods",), ("b",)), PolicyRule(("get",), ("",), ("pods",), ("a",))),
        (PolicyRule(("get",), urls=("/x",)), PolicyRule(("get",), urls=("/x/*",))),
        (PolicyRule(("get",), urls=("/x",)), WIDEST),
    ],
    ids=str,
)
def test_not_covered(new: PolicyRule, old: PolicyRule) -> None:
    assert uncovered([new], [old]) == (new,)


def test_only_the_difference_is_left() -> None:
    new = PolicyRule(("get", "list", "watch"), ("", "apps"), ("deployments", "pods"))
    old = [PolicyRule(("get", "watch"), ("",), ("pods",)), PolicyRule(("list",), ("*",), ("deployments",))]
    assert uncovered([new, new], old) == (
        PolicyRule(("get", "watch"), ("",), ("deployments",)),
        PolicyRule(("list",), ("",), ("pods",)),
        PolicyRule(("get", "watch"), ("apps",), ("deployments",)),
        PolicyRule(("get", "list", "watch"), ("apps",), ("pods",)),
    )


def test_decoded_rules_are_sorted() -> None:
    value = {"verbs": ["list", "get", "get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": []}
    assert PolicyRule.from_decoded(value) == PolicyRule(("get", "list"), ("",), ("pods",))
    assert PolicyRule.from_decoded(value).size == 2


def test_many_rules_are_compared_quickly() -> None:
    rules = [PolicyRule(("get",), ("",), (f"r{number}",), urls=(f"/{number}/*",)) for number in range(20_000)]
    started = time.process_time()
    assert uncovered(rules, rules) == ()
    assert time.process_time() - started < 20
