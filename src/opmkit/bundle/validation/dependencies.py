"""What a bundle requires of other bundles, out of its dependencies file.

A constraint (``olm.constraint``) holds one of: a rule (``cel``), a package, an API (``gvk``), or constraints of which
all, any or none must hold. The references' validators know rules alone, although the resolver takes all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, cast

from opmkit.bundle import fields
from opmkit.bundle.errors import InvalidBundle
from opmkit.bundle.fields import describe
from opmkit.bundle.finding import Finding
from opmkit.bundle.json_value import UINT64, encode
from opmkit.bundle.lenient import scalar_text
from opmkit.bundle.validation.compat import Compat

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opmkit.bundle.field_path import FieldPath
    from opmkit.bundle.json_value import JsonValue
    from opmkit.bundle.validation.bundle_view import BundleView, Manifest

MAX_CONSTRAINT_BYTES = 131072
"""Bytes that a constraint may have as JSON; the resolver refuses larger ones."""
MAX_CONSTRAINT_DEPTH = 32
"""Constraints within constraints; nothing that a person writes comes near."""

GVK: Final = "olm.gvk"
PACKAGE: Final = "olm.package"
LABEL: Final = "olm.label"
CONSTRAINT: Final = "olm.constraint"
CEL: Final = "cel"

_MEMBERS: Mapping[str, tuple[str, ...]] = {
    GVK: ("group", "version", "kind"),
    PACKAGE: ("packageName", "version"),
    LABEL: ("label",),
    CEL: ("rule",),
}
_COMPOUND = ("all", "any", "not")
_SIMPLE = {"gvk": GVK, "package": PACKAGE, "cel": CEL}
_RANGE = "versionRange"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One thing that is required: an API, a package, a label, or that a rule holds.

    ``members`` are its texts by their names, "" where they are not given; the range of a package is ``version``,
    whatever its name is where it stands. ``path`` leads to them. A rule that is not there at all has no members.
    """

    type: str
    members: Mapping[str, str]
    path: FieldPath

    def at(self, member: str) -> FieldPath:
        """The way to a member."""
        return (*self.path, member)


@dataclass(frozen=True, slots=True)
class Dependencies:
    """What the dependencies file says; what in it is ``unreadable``, and what is no constraint (``misshapen``)."""

    file: str = ""
    requirements: tuple[Requirement, ...] = ()
    unreadable: tuple[Finding, ...] = ()
    misshapen: tuple[Finding, ...] = ()


def read_dependencies(bundle: BundleView) -> Dependencies:
    """Read the dependencies of a bundle: the first file of its metadata, beside the annotations, that has some."""
    compound = bundle.compat is Compat.OPMKIT
    for file in bundle.files_in("metadata"):
        if bundle.annotations_file is not None and file.path == bundle.annotations_file.path:
            continue
        key = (read_dependencies, compound)
        if key not in file.content.memo:
            file.content.memo[key] = _Reader(compound=compound).read(file)
        found = cast("Dependencies | None", file.content.memo[key])
        if found is not None:
            return found
    return Dependencies()


@dataclass
class _Reader:
    """Reads one file. ``compound`` tells that constraints of all forms are taken, and no fault is passed over."""

    compound: bool
    requirements: list[Requirement] = field(default_factory=list)
    unreadable: list[Finding] = field(default_factory=list)
    misshapen: list[Finding] = field(default_factory=list)

    def read(self, file: Manifest) -> Dependencies | None:
        """Give what the file says, None if it has no dependencies."""
        named = fields.member(file.object, "dependencies")
        if self.compound and file.name.startswith("dependencies"):
            self._check_file(file, named)
        entries = named if isinstance(named, list) else []
        if not self.compound and not all(_is_entry(entry) for entry in entries):
            return None  # the references pass over a file with an entry of a wrong type
        for number, entry in enumerate(entries):
            self._dependency(entry, ("dependencies", number))
        if not entries and not self.unreadable:
            return None
        return Dependencies(file.path, tuple(self.requirements), tuple(self.unreadable), tuple(self.misshapen))

    def _check_file(self, file: Manifest, named: JsonValue) -> None:
        if (error := file.content.error) is not None:
            told = f"the dependencies can't be read: {error.problem}"
            self.unreadable.append(Finding(told, line=error.line, column=error.column))
        elif named is not None and not isinstance(named, list):
            self._refuse(("dependencies",), f"dependencies is {describe(named)}, not a list")

    def _refuse(self, path: FieldPath, told: str) -> None:
        self.unreadable.append(Finding(told, path=path))

    def _dependency(self, entry: JsonValue, path: FieldPath) -> None:
        if entry is not None and not isinstance(entry, dict):
            self._refuse(path, f"a dependency is {describe(entry)}, not a mapping of type and value")
            return
        parts = entry or {}
        kind = scalar_text(fields.member(parts, "type")) or ""
        if kind not in (GVK, PACKAGE, LABEL, CONSTRAINT):
            known = f"{GVK}, {PACKAGE}, {LABEL} or {CONSTRAINT}"
            self._refuse((*path, "type"), f"a dependency has the type {kind!r}, which is none of {known}")
        elif not any(key.lower() == "value" for key in parts):
            self._refuse(path, f"a dependency of type {kind} has no value")
        elif kind == CONSTRAINT:
            self._constraint(fields.member(parts, "value"), (*path, "value"))
        else:
            self._require(kind, fields.member(parts, "value"), (*path, "value"))

    def _require(self, kind: str, value: JsonValue, path: FieldPath, renamed: Mapping[str, str] | None = None) -> None:
        """Take a requirement; ``renamed`` are the names that its members have there, where they are others."""
        members = {}
        try:
            found = fields.mapping(value, f"the value of {kind}")
            for member in _MEMBERS[kind]:
                name = (renamed or {}).get(member, member)
                members[member] = fields.text(fields.member(found, name), f"{name} of {kind}")
        except InvalidBundle as error:
            self._refuse(path, error.message)
        else:
            self.requirements.append(Requirement(kind, members, path))

    def _constraint(self, value: JsonValue, path: FieldPath) -> None:
        if not self.compound:
            self._rule_alone(value, path)
        elif len(encoded := _encoded(value)) > MAX_CONSTRAINT_BYTES:
            told = f"the constraint has {len(encoded)} bytes, but may have {MAX_CONSTRAINT_BYTES} at most"
            self.misshapen.append(Finding(told, path=path))
        else:
            self._any_constraint(value, path, 0)

    def _rule_alone(self, value: JsonValue, path: FieldPath) -> None:
        if isinstance(value, dict) and fields.member(value, "cel") is not None:
            if isinstance(message := fields.member(value, "failureMessage"), str | None):
                self._require(CEL, fields.member(value, "cel"), (*path, "cel"))
            else:
                self._refuse((*path, "failureMessage"), f"failureMessage is {describe(message)}, not a string")
        elif value is None or isinstance(value, dict):
            self.requirements.append(Requirement(CEL, {}, path))
        else:
            self._refuse(path, f"the value of {CONSTRAINT} is {describe(value)}, not a mapping")

    def _any_constraint(self, value: JsonValue, path: FieldPath, depth: int) -> None:
        if not isinstance(value, dict):
            self._refuse(path, f"a constraint is {describe(value)}, not a mapping")
            return
        if depth > MAX_CONSTRAINT_DEPTH:
            self.misshapen.append(Finding(f"constraints are nested deeper than {MAX_CONSTRAINT_DEPTH}", path=path))
            return
        self._check_members(value, (*_SIMPLE, *_COMPOUND, "failureMessage"), path)
        message = fields.member(value, "failureMessage")
        if not isinstance(message, str | None):
            self._refuse((*path, "failureMessage"), f"failureMessage is {describe(message)}, not a string")
        forms = [form for form in (*_SIMPLE, *_COMPOUND) if fields.member(value, form) is not None]
        if len(forms) > 1:
            self.misshapen.append(Finding(f"a constraint has {' and '.join(forms)}, but may have one alone", path=path))
        elif not forms:
            self.requirements.append(Requirement(CEL, {}, path))
        for form in forms:
            self._form(form, fields.member(value, form), (*path, form), depth)

    def _form(self, form: str, value: JsonValue, path: FieldPath, depth: int) -> None:
        if form in _COMPOUND:
            self._compound(form, value, path, depth)
            return
        kind = _SIMPLE[form]
        renamed = {"version": _RANGE} if kind == PACKAGE else {}
        if isinstance(value, dict):
            self._check_members(value, tuple(renamed.get(name, name) for name in _MEMBERS[kind]), path)
        self._require(kind, value, path, renamed)

    def _compound(self, form: str, value: JsonValue, path: FieldPath, depth: int) -> None:
        if not isinstance(value, dict):
            self._refuse(path, f"{form} is {describe(value)}, not a mapping with constraints")
            return
        self._check_members(value, ("constraints",), path)
        constraints = fields.member(value, "constraints")
        if constraints is not None and not isinstance(constraints, list):
            self._refuse((*path, "constraints"), f"constraints is {describe(constraints)}, not a list")
            return
        if not constraints:
            self.misshapen.append(Finding(f"{form} has no constraints", path=path))
        for number, constraint in enumerate(constraints or ()):
            self._any_constraint(constraint, (*path, "constraints", number), depth + 1)

    def _check_members(self, value: Mapping[str, JsonValue], known: tuple[str, ...], path: FieldPath) -> None:
        for name in _unknown(value, known):
            told = f"a constraint has {name!r} where it may have {', '.join(known)}"
            self.misshapen.append(Finding(told, path=(*path, name)))


def _unknown(value: Mapping[str, JsonValue], known: tuple[str, ...]) -> Iterator[str]:
    folded = {name.lower() for name in known}
    return (name for name in value if name.lower() not in folded)


def _is_entry(entry: JsonValue) -> bool:
    if entry is None:
        return True
    return isinstance(entry, dict) and scalar_text(fields.member(entry, "type")) is not None


def _encoded(value: JsonValue) -> bytes:
    try:
        return encode(value, UINT64)
    except ValueError:  # what is no JSON can't be sized, nor does it get here out of YAML
        return b""
