"""Install modes: the namespaces that an operator watches, and the OperatorGroups that select them."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from opmkit.author.run.errors import InstallationConflict, InvalidInstallMode
from opmkit.author.run.hint_terms import OlmSetting
from opmkit.author.run.objects import name_of, strings
from opmkit.bundle.kubernetes_names import dns1123_label
from opmkit.core.hints import Hint

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence


class InstallModeType(StrEnum):
    """The types of install modes of a ClusterServiceVersion."""

    OWN = "OwnNamespace"
    SINGLE = "SingleNamespace"
    MULTI = "MultiNamespace"
    ALL = "AllNamespaces"


_FORMS_HINT = "write OwnNamespace, AllNamespaces, SingleNamespace=NAMESPACE or MultiNamespace=NAMESPACE,NAMESPACE"


class InstallMode(Struct, frozen=True):
    """A requested install mode; ``namespaces`` are the ones to watch, empty for OwnNamespace and AllNamespaces."""

    type: InstallModeType
    namespaces: tuple[str, ...] = ()

    @classmethod
    def parse(cls, value: str) -> InstallMode:
        """Parse ``TYPE`` or ``TYPE=NAMESPACE,...``.

        Raises:
            InvalidInstallMode: The type is unknown, or does not fit the namespaces.
        """
        name, _, listed = value.partition("=")
        if name not in list(InstallModeType):
            raise InvalidInstallMode(f"install mode {value!r}: unknown type {name!r}", hint=_FORMS_HINT)
        type_ = InstallModeType(name)
        namespaces = tuple(sorted({namespace.strip() for namespace in listed.split(",")})) if listed else ()
        problem = _count_problem(type_, len(namespaces))
        problem = problem or next((f"namespace {each!r}: {p}" for each in namespaces for p in dns1123_label(each)), "")
        if problem:
            raise InvalidInstallMode(f"install mode {value!r}: {problem}", hint=_FORMS_HINT)
        return cls(type_, namespaces)

    def __str__(self) -> str:
        """Return the form that `parse` reads."""
        return f"{self.type}={','.join(self.namespaces)}" if self.namespaces else str(self.type)

    def targets(self, namespace: str) -> tuple[str, ...]:
        """Return the namespaces that an operator in ``namespace`` watches; empty for all."""
        return (namespace,) if self.type is InstallModeType.OWN else self.namespaces


def _count_problem(type_: InstallModeType, count: int) -> str:
    if type_ in (InstallModeType.OWN, InstallModeType.ALL):
        return "it takes no namespaces" if count else ""
    if type_ is InstallModeType.SINGLE:
        return "" if count == 1 else "it takes exactly one namespace"
    return "" if count else "it takes at least one namespace"


def choose_install_mode(
    operator: str, supported: Collection[str], requested: InstallMode | None, namespace: str
) -> InstallMode:
    """Return the install mode to use: the requested one, or else AllNamespaces or OwnNamespace if supported.

    Raises:
        InvalidInstallMode: The operator does not support the mode, or only modes for which namespaces are required.
    """
    known = [type_ for type_ in InstallModeType if type_ in supported]
    listed = ", ".join(known)
    if not known:
        raise InvalidInstallMode(
            f"{operator}: not installable: its ClusterServiceVersion supports no install mode",
            hint="set supported: true for at least one entry of spec.installModes",
        )
    if requested is None:
        default = next((type_ for type_ in (InstallModeType.ALL, InstallModeType.OWN) if type_ in known), None)
        if default is None:
            raise InvalidInstallMode(
                f"{operator}: no default install mode: it supports only {listed}",
                hint=Hint(
                    "name the namespaces to watch with {}", OlmSetting.INSTALL_MODE.with_value(f"{known[0]}=NAMESPACE")
                ),
            )
        return InstallMode(default)
    if requested.type not in known:
        raise InvalidInstallMode(
            f"{operator}: install mode {requested.type} unsupported: it supports {listed}",
            hint="choose a supported mode, or change spec.installModes of the ClusterServiceVersion",
        )
    if requested == InstallMode(InstallModeType.SINGLE, (namespace,)):
        raise InvalidInstallMode(
            f"install mode {requested}: {namespace} is the operator's namespace",
            hint=Hint("pass {} to watch it", OlmSetting.INSTALL_MODE.with_value(str(InstallModeType.OWN))),
        )
    return requested


def check_operator_groups(
    groups: Sequence[Mapping[str, Any]],
    operator: str,
    supported: Collection[str],
    requested: InstallMode | None,
    namespace: str,
) -> Mapping[str, Any] | None:
    """Return the OperatorGroup of a namespace, None if it has to be created.

    Raises:
        InstallationConflict: There are several, or the only one does not select the requested namespaces, or
            namespaces that the operator does not support.
    """
    if not groups:
        return None
    if len(groups) > 1:
        names = ", ".join(sorted(map(name_of, groups)))
        raise InstallationConflict(
            f"namespace {namespace}: more than one OperatorGroup: {names}: OLM installs nothing in such a namespace",
            hint=Hint.any_of("delete all but one", Hint("choose another namespace with {}", OlmSetting.NAMESPACE)),
        )
    (group,) = groups
    targets = group_targets(group)
    if requested and set(requested.targets(namespace)) != set(targets):
        raise InstallationConflict(
            f"OperatorGroup {namespace}/{name_of(group)}: it selects {_describe(targets)}, but mode {requested} "
            f"requires {_describe(requested.targets(namespace))}",
            hint=Hint.any_of(
                "delete the OperatorGroup", Hint("choose another namespace with {}", OlmSetting.NAMESPACE)
            ),
        )
    missing = sorted(required_modes(targets, namespace) - set(supported))
    if missing:
        raise InstallationConflict(
            f"OperatorGroup {namespace}/{name_of(group)}: it selects {_describe(targets)}, but {operator} does not "
            f"support {' and '.join(missing)}",
            hint=Hint.any_of(
                "delete the OperatorGroup", Hint("choose another namespace with {}", OlmSetting.NAMESPACE)
            ),
        )
    return group


def group_targets(group: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the namespaces that an OperatorGroup selects; empty for all."""
    targets = strings(group, "spec", "targetNamespaces") or strings(group, "status", "namespaces")
    return () if "" in targets else tuple(sorted(targets))


def required_modes(targets: Sequence[str], namespace: str) -> set[str]:
    """Return the install modes that an operator in ``namespace`` must support for an OperatorGroup with these targets.

    The rules are those of OLM, which reports the reason UnsupportedOperatorGroup if one is violated.
    """
    if not targets:
        return {str(InstallModeType.ALL)}
    if len(targets) == 1:
        return {str(InstallModeType.OWN if targets[0] == namespace else InstallModeType.SINGLE)}
    own = {str(InstallModeType.OWN)} if namespace in targets else set[str]()
    return {str(InstallModeType.MULTI), *own}


def _describe(targets: Sequence[str]) -> str:
    if not targets:
        return "all namespaces"
    return f"namespace {targets[0]}" if len(targets) == 1 else f"namespaces {', '.join(targets)}"
