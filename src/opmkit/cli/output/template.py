"""Edits of template files, and their output."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import typer

from opmkit.cli.output.console import OutputFormat, print_json, print_line, print_text
from opmkit.cli.output.errors import print_error, print_to_stderr, print_warning
from opmkit.cli.output.streams import printing_result
from opmkit.core.errors import OpmkitError

if TYPE_CHECKING:
    from opmkit.cli.flags.template import EditFlags
    from opmkit.index.templates.edit.result import TemplateEdit

Edit: TypeAlias = Callable[[str, bytes], "TemplateEdit"]
"""Edits a template, given by its name and content."""


class TemplateOutdated(OpmkitError):
    """Templates that lack an edit."""


def edit_files(paths: Mapping[str, Path], edit: Edit, flags: EditFlags) -> None:
    """Edit template files, all of them or none, and print the changes.

    Raises:
        TemplateOutdated: a template would change, with ``--check``.
        OpmkitError: a template cannot be edited, read or written.
    """
    from opmkit.index.templates.edit.write import change_files, read_template

    edits: dict[str, TemplateEdit] = {}
    before: dict[str, bytes] = {}

    def edit_all(contents: Mapping[str, bytes]) -> Mapping[str, bytes]:
        before.update(contents)
        edits.update({name: edit(name, content) for name, content in contents.items()})
        return {name: result.template.raw for name, result in edits.items()}

    if flags.dry_run or flags.fail_on_change:
        edit_all({name: read_template(path) for name, path in paths.items()})
        _print_diffs(before, edits, flags)
        return
    change_files(paths, edit_all)
    with printing_result(f"{', '.join(paths)}: edited"):
        _print_changes(before, edits, flags)


def _print_changes(before: Mapping[str, bytes], edits: Mapping[str, TemplateEdit], flags: EditFlags) -> None:
    _print_warnings(edits)
    if flags.output is OutputFormat.JSON:
        print_json({"templates": [_as_dict(name, before[name], edit) for name, edit in edits.items()]})
        return
    for name, edit in edits.items():
        for change in edit.changes:
            print_line(f"{name}: {change}")
        if not edit.changes:
            print_to_stderr(f"{name}: nothing to change")


def _print_diffs(before: Mapping[str, bytes], edits: Mapping[str, TemplateEdit], flags: EditFlags) -> None:
    _print_warnings(edits)
    if flags.output is OutputFormat.JSON:
        print_json({"templates": [_as_dict(name, before[name], edit) for name, edit in edits.items()]})
    for name, edit in edits.items():
        if flags.output is OutputFormat.JSON:
            continue
        if edit.template.raw == before[name]:
            print_to_stderr(f"{name}: nothing to change")
        else:
            print_text(edit.template.diff(before[name]).removesuffix("\n"))
    outdated = [name for name, edit in edits.items() if edit.template.raw != before[name]]
    if flags.fail_on_change and outdated:
        error = TemplateOutdated(f"{', '.join(outdated)}: would change", hint="run the command without --check")
        if flags.output is OutputFormat.JSON:  # the result is already printed
            print_error(error)
            raise typer.Exit(1)
        raise error


def _print_warnings(edits: Mapping[str, TemplateEdit]) -> None:
    for edit in edits.values():
        for warning in edit.warnings:
            print_warning(warning)


def _as_dict(name: str, before: bytes, edit: TemplateEdit) -> dict[str, Any]:
    return {
        "file": name,
        "changed": edit.template.raw != before,
        "changes": [change.as_dict() for change in edit.changes],
        "warnings": list(edit.warnings),
        "diff": edit.template.diff(before),
    }
