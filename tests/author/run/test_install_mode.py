"""Install modes, and the OperatorGroups that they require."""

from __future__ import annotations

from typing import Any

import pytest

from opmkit.author.run.errors import InstallationConflict, InvalidInstallMode
from opmkit.author.run.install_mode import (
    InstallMode,
    InstallModeType,
    check_operator_groups,
    choose_install_mode,
    group_targets,
    required_modes,
)

ALL_MODES = [str(mode) for mode in InstallModeType]


def group(*targets: str, name: str = "group") -> dict[str, Any]:
    spec = {"targetNamespaces": list(targets)} if targets else {}
    return {"metadata": {"name": name, "namespace": "ns"}, "spec": spec, "status": {"namespaces": [*(targets or [""])]}}


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("AllNamespaces", ()),
        ("OwnNamespace", ("ns",)),
        ("SingleNamespace=a", ("a",)),
        ("MultiNamespace=b, a", ("a", "b")),
    ],
)
def test_install_mode_selects_namespaces(text: str, targets: tuple[str, ...]) -> None:
    mode = InstallMode.parse(text)
    assert mode.targets("ns") == targets
    assert InstallMode.parse(str(mode)) == mode


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "unknown type ''"),
        ("Any", "unknown type 'Any'"),
        ("OwnNamespace=ns", "it takes no namespaces"),
        ("AllNamespaces=a,b", "it takes no namespaces"),
        ("SingleNamespace", "exactly one namespace"),
        ("SingleNamespace=a,b", "exactly one namespace"),
        ("MultiNamespace=", "at least one namespace"),
        ("MultiNamespace=a,B", "namespace 'B': it must consist of"),
    ],
)
def test_malformed_install_mode_is_an_error(text: str, problem: str) -> None:
    with pytest.raises(InvalidInstallMode, match=problem) as caught:
        InstallMode.parse(text)
    assert "OwnNamespace, AllNamespaces" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("supported", "expected"),
    [(ALL_MODES, "AllNamespaces"), (["OwnNamespace", "SingleNamespace"], "OwnNamespace")],
)
def test_default_mode_requires_no_namespaces(supported: list[str], expected: str) -> None:
    assert str(choose_install_mode("op.v1", supported, None, "ns")) == expected


@pytest.mark.parametrize(
    ("supported", "requested", "problem"),
    [
        ([], "", "supports no install mode"),
        (["Unknown"], "", "supports no install mode"),
        (["SingleNamespace"], "", "no default install mode: it supports only SingleNamespace"),
        (["OwnNamespace"], "AllNamespaces", "install mode AllNamespaces unsupported: it supports OwnNamespace"),
        (ALL_MODES, "SingleNamespace=ns", "ns is the operator's namespace"),
    ],
)
def test_unsupported_mode_is_an_error(supported: list[str], requested: str, problem: str) -> None:
    mode = InstallMode.parse(requested) if requested else None
    with pytest.raises(InvalidInstallMode, match=problem):
        choose_install_mode("op.v1", supported, mode, "ns")


def test_group_of_a_namespace_is_used_if_it_fits() -> None:
    assert check_operator_groups([], "op.v1", ALL_MODES, None, "ns") is None
    existing = group("ns")
    assert check_operator_groups([existing], "op.v1", ALL_MODES, None, "ns") is existing
    assert check_operator_groups([existing], "op.v1", ALL_MODES, InstallMode.parse("OwnNamespace"), "ns") is existing


@pytest.mark.parametrize(
    ("groups", "supported", "requested", "problem"),
    [
        ([group(), group("ns", name="b")], ALL_MODES, "", "more than one OperatorGroup: b, group"),
        ([group()], ALL_MODES, "OwnNamespace", "selects all namespaces, but mode OwnNamespace requires namespace ns"),
        ([group("a", "b")], ["OwnNamespace"], "", "selects namespaces a, b, but op.v1 does not support MultiNamespace"),
        ([group("a", "ns")], ["MultiNamespace"], "", "does not support OwnNamespace"),
    ],
)
def test_unsuitable_group_is_a_conflict(
    groups: list[dict[str, Any]], supported: list[str], requested: str, problem: str
) -> None:
    mode = InstallMode.parse(requested) if requested else None
    with pytest.raises(InstallationConflict, match=problem):
        check_operator_groups(groups, "op.v1", supported, mode, "ns")


def test_targets_of_a_group_with_a_selector_are_in_its_status() -> None:
    selected = {"metadata": {"name": "g"}, "spec": {"selector": {}}, "status": {"namespaces": ["b", "a"]}}
    assert group_targets(selected) == ("a", "b")
    assert group_targets(group()) == ()


@pytest.mark.parametrize(
    ("targets", "modes"),
    [
        ((), {"AllNamespaces"}),
        (("ns",), {"OwnNamespace"}),
        (("a",), {"SingleNamespace"}),
        (("a", "b"), {"MultiNamespace"}),
        (("a", "ns"), {"MultiNamespace", "OwnNamespace"}),
    ],
)
def test_modes_that_olm_requires_for_targets(targets: tuple[str, ...], modes: set[str]) -> None:
    assert required_modes(targets, "ns") == modes
