"""Output of edits of template files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from opmkit.cli.output.console import OutputFormat, print_json, print_line, print_text
from opmkit.cli.output.errors import print_error, print_to_stderr, print_warning
from opmkit.cli.output.streams import printing_result
from opmkit.core.errors import OpmkitError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from opmkit import EditedTemplate
    from opmkit.cli.flags.template import EditFlags


class TemplateOutdated(OpmkitError):
    """Templates that lack an edit."""


def print_edited(templates: Sequence[EditedTemplate], flags: EditFlags) -> None:
    """Print the changes of template files, or their differences if nothing was to be written.

    Raises:
        TemplateOutdated: a template would change, with ``--check``.
    """
    if flags.is_dry_run:
        _print_templates(templates, flags, _print_diff)
        _check_outdated(templates, flags)
        return
    with printing_result(f"{', '.join(template.file for template in templates)}: edited"):
        _print_templates(templates, flags, _print_changes)


def _print_templates(
    templates: Sequence[EditedTemplate], flags: EditFlags, print_template: Callable[[EditedTemplate], None]
) -> None:
    for template in templates:
        for warning in template.warnings:
            print_warning(warning)
    if flags.output is OutputFormat.JSON:
        print_json({"templates": [template.to_dict() for template in templates]})
        return
    for template in templates:
        print_template(template)


def _print_changes(template: EditedTemplate) -> None:
    for change in template.changes:
        print_line(f"{template.file}: {change}")
    if not template.changes:
        print_to_stderr(f"{template.file}: nothing to change")


def _print_diff(template: EditedTemplate) -> None:
    if template.is_changed:
        print_text(template.diff.removesuffix("\n"))
    else:
        print_to_stderr(f"{template.file}: nothing to change")


def _check_outdated(templates: Sequence[EditedTemplate], flags: EditFlags) -> None:
    outdated = [template.file for template in templates if template.is_changed]
    if flags.fail_on_change and outdated:
        error = TemplateOutdated(f"{', '.join(outdated)}: would change", hint="run the command without --check")
        if flags.output is OutputFormat.JSON:  # the result is already printed
            print_error(error)
            raise typer.Exit(1)
        raise error
