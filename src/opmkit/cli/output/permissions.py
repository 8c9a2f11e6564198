"""Output of ``opm bundle permissions``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.cli.output.console import print_line, print_table
from opmkit.core.escape import code, table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from opmkit import Danger, Grant, InstalledObject, PermissionDiff, PermissionReport

    Section = tuple[str, Sequence[str], list[tuple[str, ...]]]
    """A heading, a header, and rows."""

_DANGERS = ("KIND", "SUBJECT", "MAY")
_GRANTS = ("SCOPE", "SUBJECT", "GROUPS", "RESOURCES", "VERBS", "NAMES")
_OBJECTS = ("KIND", "NAMES")
_CORE = '""'


def print_permissions(sections: Iterable[Section]) -> None:
    """Print each section as a table with its heading."""
    for number, (heading, header, rows) in enumerate(sections):
        if number:
            print_line("")
        print_line(heading)
        if rows:
            print_table(header, rows)


def permissions_as_markdown(sections: Iterable[Section]) -> str:
    """Return each section as a table below its heading."""
    parts = []
    for heading, header, rows in sections:
        title = f"**{code(heading)}**" if not rows else f"### {code(heading)}"
        titles = [name.capitalize() for name in header]
        parts.append(f"{title}\n\n{table(titles, (tuple(map(code, row)) for row in rows))}" if rows else title)
    return "\n\n".join(parts)


def report_sections(report: PermissionReport) -> Iterator[Section]:
    """Yield the sections of the permissions of a bundle."""
    permissions = report.permissions
    modes = ", ".join(permissions.install_modes) or "none"
    dangers = "dangerous permissions" if report.dangers else "no dangerous permissions"
    yield f"{permissions.bundle}: {dangers}", _DANGERS, list(map(_danger, report.dangers))
    yield f"All permissions (install modes: {modes})", _GRANTS, list(_grants(permissions.grants))
    yield "All objects", _OBJECTS, list(_objects(permissions.objects))


def diff_sections(diff: PermissionDiff) -> Iterator[Section]:
    """Yield the sections of the difference between the permissions of two versions."""
    if not diff:
        yield f"{diff.new} may do the same as {diff.old}", (), []
    for may, dangers, grants in (
        ("may now", diff.gained_dangers, diff.gained),
        ("may no longer", diff.lost_dangers, diff.lost),
    ):
        if dangers:
            yield f"{diff.new} {may}, dangerously", _DANGERS, list(map(_danger, dangers))
        if grants:
            yield f"{diff.new} {may}", _GRANTS, list(_grants(grants))


def _danger(danger: Danger) -> tuple[str, ...]:
    return danger.kind.value, danger.subject, str(danger)


def _objects(objects: Iterable[InstalledObject]) -> Iterator[tuple[str, ...]]:
    """Yield each kind with the names of its objects."""
    names: dict[str, dict[str, None]] = {}
    for each in objects:
        names.setdefault(each.kind, {})[each.name] = None
    for kind, found in sorted(names.items()):
        yield kind, ", ".join(found)


def _grants(grants: Iterable[Grant]) -> Iterator[tuple[str, ...]]:
    for grant in grants:
        if grant.unknown_role:
            yield grant.scope.value, grant.subject, "-", grant.unknown_role, "-", ""
        for rule in grant.rules:
            groups = ", ".join(group or _CORE for group in rule.groups) or "-"
            names = ", ".join(rule.names)
            what = ", ".join(rule.resources or rule.urls)
            yield grant.scope.value, grant.subject, groups, what, ", ".join(rule.verbs), names
