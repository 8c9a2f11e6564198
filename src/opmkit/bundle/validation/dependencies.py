"""Parse the dependencies file of a bundle.

A constraint (``olm.constraint``) is a CEL rule (``cel``), a package, an API (``gvk``), or a compound of constraints
(``all``, ``any``, ``not``). OLM's resolver accepts all of them, the Go validators only CEL rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from msgspec import Struct

from opmkit.bundle.errors import InvalidBundle
from opmkit.bundle.finding import Finding
from opmkit.bundle.property_types import CONSTRAINT, GVK, LABEL, PACKAGE
from opmkit.bundle.validation.compat import Compat
from opmkit.documents import fields
from opmkit.documents.document import MAX_CONSTRAINT_DEPTH
from opmkit.documents.errors import FieldTypeError
from opmkit.documents.fields import describe
from opmkit.documents.json_value import UINT64, encode
from opmkit.documents.lenient import scalar_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opmkit.bundle.validation.bundle_view import BundleView, ManifestView
    from opmkit.documents.fields import FieldPath
    from opmkit.documents.json_value import JsonValue


MAX_CONSTRAINT_BYTES = 131072
"""Maximum size of a constraint as JSON, a limit of OLM's resolver."""

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


class Requirement(Struct, frozen=True):
    """A required API, package or label, or a CEL rule.

    Attributes:
        type: GVK, PACKAGE, LABEL or CEL.
        members: Strings by name, or "" if absent; empty for a missing CEL rule. The version range of a package is
            always called ``version``.
        path: Path of the members in the file.
    """

    type: str
    members: Mapping[str, str]
    path: FieldPath

    def at(self, member: str) -> FieldPath:
        """Return the path of a member."""
        return (*self.path, member)


class Dependencies(Struct, frozen=True):
    """Content of a dependencies file.

    Attributes:
        file: Path of the file, or "" if there is none.
        requirements: Valid requirements.
        errors: Values of wrong types.
        invalid_constraints: Constraints of invalid structure.
    """

    file: str = ""
    requirements: tuple[Requirement, ...] = ()
    errors: tuple[Finding, ...] = ()
    invalid_constraints: tuple[Finding, ...] = ()


def read_dependencies(bundle: BundleView) -> Dependencies:
    """Return the dependencies in the first metadata file that has some, except the annotations file."""
    compound = bundle.compat is Compat.OPMKIT
    for file in bundle.files_in("metadata"):
        if bundle.annotations_file is not None and file.path == bundle.annotations_file.path:
            continue
        key = (read_dependencies, compound)
        if key not in file.content.memo:
            file.content.memo[key] = _Parser(compound=compound).parse(file)
        dependencies = cast("Dependencies | None", file.content.memo[key])
        if dependencies is not None:
            return dependencies
    return Dependencies()


class _Parser(Struct):
    """Parses one file. If ``compound`` is not set, it accepts and ignores the same as the Go validators."""

    compound: bool
    requirements: list[Requirement] = []
    errors: list[Finding] = []
    invalid_constraints: list[Finding] = []

    def parse(self, file: ManifestView) -> Dependencies | None:
        """Return the dependencies in a file, or None if it has none."""
        value = fields.member(file.object, "dependencies")
        if self.compound and file.name.startswith("dependencies"):
            self._check_file(file, value)
        entries = value if isinstance(value, list) else []
        if not self.compound and not all(_is_entry(entry) for entry in entries):
            return None  # the Go validators ignore a file that has an entry of a wrong type
        for number, entry in enumerate(entries):
            self._dependency(entry, ("dependencies", number))
        if not entries and not self.errors:
            return None
        return Dependencies(file.path, tuple(self.requirements), tuple(self.errors), tuple(self.invalid_constraints))

    def _check_file(self, file: ManifestView, value: JsonValue) -> None:
        if (error := file.content.error) is not None:
            message = f"cannot read the dependencies: {error.problem}"
            self.errors.append(Finding(message, line=error.line, column=error.column))
        elif value is not None and not isinstance(value, list):
            self._add_error(("dependencies",), f"dependencies is {describe(value)}, not a list")

    def _add_error(self, path: FieldPath, message: str) -> None:
        self.errors.append(Finding(message, path=path))

    def _add_invalid(self, path: FieldPath, message: str) -> None:
        self.invalid_constraints.append(Finding(message, path=path))

    def _dependency(self, entry: JsonValue, path: FieldPath) -> None:
        if entry is not None and not isinstance(entry, dict):
            self._add_error(path, f"a dependency is {describe(entry)}, not a mapping with type and value")
            return
        members = entry or {}
        kind = scalar_text(fields.member(members, "type")) or ""
        if kind not in (GVK, PACKAGE, LABEL, CONSTRAINT):
            known = f"{GVK}, {PACKAGE}, {LABEL}, {CONSTRAINT}"
            self._add_error((*path, "type"), f"unknown type of dependency {kind!r}, not one of {known}")
        elif not any(key.lower() == "value" for key in members):
            self._add_error(path, f"a dependency of type {kind} has no value")
        elif kind == CONSTRAINT:
            self._constraint(fields.member(members, "value"), (*path, "value"))
        else:
            self._requirement(kind, fields.member(members, "value"), (*path, "value"))

    def _requirement(
        self, kind: str, value: JsonValue, path: FieldPath, names: Mapping[str, str] | None = None
    ) -> None:
        """Add a requirement; ``names`` maps members to their names in the file, if these differ."""
        members = {}
        try:
            given = fields.mapping(value, f"the value of {kind}")
            for member in _MEMBERS[kind]:
                name = (names or {}).get(member, member)
                members[member] = fields.text(fields.member(given, name), f"{name} of {kind}")
        except (InvalidBundle, FieldTypeError) as error:
            self._add_error(path, error.message)
        else:
            self.requirements.append(Requirement(kind, members, path))

    def _constraint(self, value: JsonValue, path: FieldPath) -> None:
        if not self.compound:
            self._cel_constraint(value, path)
        elif (size := _encoded_size(value)) > MAX_CONSTRAINT_BYTES:
            self._add_invalid(path, f"the constraint has {size} bytes, more than {MAX_CONSTRAINT_BYTES}")
        else:
            self._nested_constraint(value, path, 0)

    def _cel_constraint(self, value: JsonValue, path: FieldPath) -> None:
        if isinstance(value, dict) and fields.member(value, "cel") is not None:
            if isinstance(message := fields.member(value, "failureMessage"), str | None):
                self._requirement(CEL, fields.member(value, "cel"), (*path, "cel"))
            else:
                self._add_error((*path, "failureMessage"), f"failureMessage is {describe(message)}, not a string")
        elif value is None or isinstance(value, dict):
            self.requirements.append(Requirement(CEL, {}, path))
        else:
            self._add_error(path, f"the value of {CONSTRAINT} is {describe(value)}, not a mapping")

    def _nested_constraint(self, value: JsonValue, path: FieldPath, depth: int) -> None:
        if not isinstance(value, dict):
            self._add_error(path, f"a constraint is {describe(value)}, not a mapping")
            return
        if depth > MAX_CONSTRAINT_DEPTH:
            self._add_invalid(path, f"constraints are nested deeper than {MAX_CONSTRAINT_DEPTH} levels")
            return
        self._check_members(value, (*_SIMPLE, *_COMPOUND, "failureMessage"), path)
        message = fields.member(value, "failureMessage")
        if not isinstance(message, str | None):
            self._add_error((*path, "failureMessage"), f"failureMessage is {describe(message)}, not a string")
        forms = [form for form in (*_SIMPLE, *_COMPOUND) if fields.member(value, form) is not None]
        if len(forms) > 1:
            self._add_invalid(path, f"a constraint has {' and '.join(forms)}; only one is allowed")
        elif not forms:
            self.requirements.append(Requirement(CEL, {}, path))
        for form in forms:
            self._form(form, fields.member(value, form), (*path, form), depth)

    def _form(self, form: str, value: JsonValue, path: FieldPath, depth: int) -> None:
        if form in _COMPOUND:
            self._compound(form, value, path, depth)
            return
        kind = _SIMPLE[form]
        names = {"version": _RANGE} if kind == PACKAGE else {}
        if isinstance(value, dict):
            self._check_members(value, tuple(names.get(name, name) for name in _MEMBERS[kind]), path)
        self._requirement(kind, value, path, names)

    def _compound(self, form: str, value: JsonValue, path: FieldPath, depth: int) -> None:
        if not isinstance(value, dict):
            self._add_error(path, f"{form} is {describe(value)}, not a mapping with constraints")
            return
        self._check_members(value, ("constraints",), path)
        constraints = fields.member(value, "constraints")
        if constraints is not None and not isinstance(constraints, list):
            self._add_error((*path, "constraints"), f"constraints is {describe(constraints)}, not a list")
            return
        if not constraints:
            self._add_invalid(path, f"{form} has no constraints")
        for number, constraint in enumerate(constraints or ()):
            self._nested_constraint(constraint, (*path, "constraints", number), depth + 1)

    def _check_members(self, value: Mapping[str, JsonValue], known: tuple[str, ...], path: FieldPath) -> None:
        for name in _unknown_names(value, known):
            self._add_invalid((*path, name), f"unknown member {name!r} of a constraint, not one of {', '.join(known)}")


def _unknown_names(value: Mapping[str, JsonValue], known: tuple[str, ...]) -> Iterator[str]:
    folded = {name.lower() for name in known}
    return (name for name in value if name.lower() not in folded)


def _is_entry(entry: JsonValue) -> bool:
    if entry is None:
        return True
    return isinstance(entry, dict) and scalar_text(fields.member(entry, "type")) is not None


def _encoded_size(value: JsonValue) -> int:
    try:
        return len(encode(value, UINT64))
    except ValueError:  # infinite numbers, which decoding of real files rejects before
        return 0
