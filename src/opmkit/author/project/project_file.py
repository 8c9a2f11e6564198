"""The PROJECT file of kubebuilder and operator-sdk, version 3."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from opmkit.author.project.located import LocatedValue
from opmkit.bundle.errors import InvalidProject

PROJECT_FILE = "PROJECT"
_VERSIONS = ("3", 3)


class OperatorType(StrEnum):
    """Kind of an operator project, by the first known plugin of its layout."""

    GO = "go"
    HELM = "helm"
    ANSIBLE = "ansible"
    UNKNOWN = "unknown"


class GroupVersionKind(NamedTuple):
    """An API; ``group`` is the full name of the group."""

    group: str
    version: str
    kind: str

    def __str__(self) -> str:
        """Return ``KIND.VERSION.GROUP``, as kubectl writes it."""
        return f"{self.kind}.{self.version}.{self.group}"


@dataclass(frozen=True, slots=True)
class Project:
    """The content of a PROJECT file.

    Attributes:
        name: Name of the project, "" if it is not set.
        domain: Domain of the API groups.
        layout: Keys of the plugins that created the project.
        multigroup: Whether the APIs are in several groups, with a directory for each.
        resources: APIs of the project, in the order of the file; those of Kubernetes and of others are omitted.
        plugins: Keys of the plugins with a configuration.
    """

    name: str = ""
    domain: str = ""
    layout: tuple[str, ...] = ()
    multigroup: bool = False
    resources: tuple[GroupVersionKind, ...] = ()
    plugins: frozenset[str] = frozenset()

    @property
    def operator_type(self) -> OperatorType:
        """The kind of the project."""
        for key in self.layout:
            for kind in (OperatorType.GO, OperatorType.HELM, OperatorType.ANSIBLE):
                if key.startswith(kind):
                    return kind
        return OperatorType.UNKNOWN


def read_project(directory: Path = Path()) -> Project:
    """Read the PROJECT file of a directory.

    Raises:
        InvalidProject: if the file does not exist or is invalid; the message contains the line.
        DiskError: if the file cannot be read.
    """
    file = directory / PROJECT_FILE
    if not file.exists():
        raise InvalidProject(
            f"{file}: no such file", hint="run the command in the root directory of an operator project"
        )
    root = LocatedValue.read(file)
    version = root.get("version")
    if version.value not in _VERSIONS:
        raise version.error('is not "3"', hint="migrate the project to version 3 of the PROJECT file")
    return Project(
        root.get("projectName").text(),
        root.get("domain").text(),
        _layout(root.get("layout")),
        root.get("multigroup").boolean(),
        tuple(_resource(item) for item in root.get("resources").items() if not _is_foreign(item)),
        frozenset(root.get("plugins").mapping()),
    )


def _layout(layout: LocatedValue) -> tuple[str, ...]:
    """Return the plugins; old files have a string with the only one."""
    return (layout.text(),) if isinstance(layout.value, str) else tuple(item.text() for item in layout.items())


def _is_foreign(resource: LocatedValue) -> bool:
    return resource.get("core").boolean() or resource.get("external").boolean()


def _resource(resource: LocatedValue) -> GroupVersionKind:
    group, domain = resource.get("group").text(), resource.get("domain").text()
    return GroupVersionKind(
        ".".join(filter(None, (group, domain))), resource.get("version").text(), resource.get("kind").text()
    )
