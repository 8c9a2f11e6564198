"""The PROJECT file of kubebuilder and operator-sdk, version 3, with located errors."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from opmkit.bundle.errors import InvalidProject
from opmkit.core.files import disk_errors, open_regular
from opmkit.documents import MAX_BYTES
from opmkit.documents.content import Content
from opmkit.documents.fields import describe, format_path

if TYPE_CHECKING:
    from opmkit.documents.fields import FieldPath
    from opmkit.documents.json_value import JsonValue


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
        name: Name of the project, or "" if it is not set.
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

    def to_dict(self) -> dict[str, Any]:
        """Return the content in JSON types."""
        return {**asdict(self), "plugins": sorted(self.plugins)}

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
        InvalidProject: The file does not exist or is invalid; the message contains the line.
        DiskError: The file cannot be read.
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


class LocatedValue(Struct, frozen=True):
    """A value of a file, and its path from the root of the document."""

    file: Path
    content: Content
    value: JsonValue
    path: FieldPath = ()

    @classmethod
    def read(cls, file: Path) -> LocatedValue:
        """Decode the first document of a file.

        Raises:
            InvalidProject: The file is not valid YAML.
            DiskError: The file cannot be read.
        """
        with disk_errors(file), open_regular(file) as stream:
            return cls.parse(file, stream.read(MAX_BYTES + 1))

    @classmethod
    def parse(cls, file: Path, raw: bytes) -> LocatedValue:
        """Decode the first document in the bytes of a file.

        Raises:
            InvalidProject: The bytes are not valid YAML.
        """
        content = Content.read(raw)
        if content.error:
            raise InvalidProject(content.error.located(str(file)), hint="correct the YAML")
        return cls(file, content, content.value)

    def get(self, name: str) -> LocatedValue:
        """Return the member of a mapping; the value of a missing one is None.

        Raises:
            InvalidProject: The value is neither a mapping nor null.
        """
        return LocatedValue(self.file, self.content, self.mapping().get(name), (*self.path, name))

    def items(self) -> list[LocatedValue]:
        """Return the items of a list, none for null.

        Raises:
            InvalidProject: The value is neither a list nor null.
        """
        if self.value is None:
            return []
        if not isinstance(self.value, list):
            raise self._mismatch("a list")
        return [LocatedValue(self.file, self.content, item, (*self.path, n)) for n, item in enumerate(self.value)]

    def mapping(self) -> dict[str, JsonValue]:
        """Return a mapping, an empty one for null.

        Raises:
            InvalidProject: The value is neither a mapping nor null.
        """
        if self.value is None:
            return {}
        if not isinstance(self.value, dict):
            raise self._mismatch("a mapping")
        return self.value

    def text(self) -> str:
        """Return a string, or "" for null.

        Raises:
            InvalidProject: The value is neither a string nor null.
        """
        if self.value is None:
            return ""
        if not isinstance(self.value, str):
            raise self._mismatch("a string")
        return self.value

    def boolean(self) -> bool:
        """Return a boolean, False for null.

        Raises:
            InvalidProject: The value is neither a boolean nor null.
        """
        if self.value is None:
            return False
        if not isinstance(self.value, bool):
            raise self._mismatch("a boolean")
        return self.value

    def error(self, problem: str, *, hint: str) -> InvalidProject:
        """Return the error for this value; ``problem`` is a predicate such as "is empty"."""
        line, column = self.content.locate(self.path)
        location = "".join(f":{number}" for number in (line, column) if number)
        subject = format_path(self.path) or "the document"
        return InvalidProject(f"{self.file}{location}: {subject} {problem}", hint=hint)

    def _mismatch(self, wanted: str) -> InvalidProject:
        quotes = " (put it in quotes)" if wanted == "a string" and isinstance(self.value, bool | int | float) else ""
        return self.error(f"is {describe(self.value)}, not {wanted}", hint=f"write {wanted}{quotes}")
