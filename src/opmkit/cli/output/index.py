"""Output of commands that change an index."""

from __future__ import annotations

import sys
from contextlib import contextmanager, nullcontext, redirect_stdout
from typing import TYPE_CHECKING, Any

import typer

from opmkit.cli.hints import format_hint
from opmkit.cli.output.console import OutputFormat, print_json, print_line, print_report
from opmkit.cli.output.errors import print_to_stderr, print_warning, print_warnings
from opmkit.cli.output.streams import printing_result
from opmkit.cli.progress.command import progress

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opmkit import AppliedChange, BuiltIndex, IndexPlan, UpdatePlan
    from opmkit.api import Opm
    from opmkit.api.session import BuiltImages
    from opmkit.cli.flags.target import OutputFlags
    from opmkit.imagetools.tools.tool import ContainerTool
    from opmkit.index.change import Change

_INSPECT = "run 'opm image inspect' with the name of the image to see what was published"


def change_and_print(
    opm: Opm, change: Change, plan: IndexPlan, output_flags: OutputFlags, *, as_go: bool = False
) -> None:
    """Change an index, build the new image as planned, and print the result, see `print_built`."""
    with progress("Changing the index") as bars:
        built = opm.change_index(change, plan, progress=bars)
    print_built(built, output_flags, opm, push=plan.push, as_go=as_go)


def print_built(built: BuiltIndex, output_flags: OutputFlags, opm: Opm, *, push: bool, as_go: bool = False) -> None:
    """Print the names and the digest of the new image, or what would change; to stderr, where it is stored.

    With ``as_go``, the command is one of Go opm, which prints no names: they are omitted unless they are asked for, as
    on a terminal, or Go opm cannot build such an image.
    """
    unpushed = () if push else _names_in_registries(built.references)
    names = ", ".join(f"{name}@{built.digest}" if built.digest else name for name in built.references)
    done = f"{names}: {'published' if push else 'built'}" if names else "the changed index was written"
    with nullcontext() if output_flags.dry_run else printing_result(done, _INSPECT if push else ""):
        _print_change(built, output_flags, quiet=as_go and bool(unpushed) and not output_flags.is_requested)
    if not push:
        print_unpushed(built.references, opm.built_images)


def print_unpushed(references: Sequence[str], place: ContainerTool | BuiltImages) -> None:
    """Print to stderr, in one line, where images are stored that were built but not pushed, and how to push them.

    Images in layouts and archives are omitted: their names are their locations.
    """
    names = _names_in_registries(references)
    if names:
        has_engine = place.name != "none"
        program = f"{place.name} push" if has_engine else "opm image push"
        command = " && ".join(f"{program} {name}" for name in names)
        stored = place.storage if has_engine else f"{place.storage}, not in that of podman or docker"
        print_to_stderr(f"{', '.join(names)}: built but not pushed: stored in {stored}; push with '{command}'")


def _names_in_registries(references: Sequence[str]) -> tuple[str, ...]:
    """Return the names of images that are neither in layouts nor in archives."""
    from opmkit import Reference
    from opmkit.imagetools.reference import parse_image_reference

    return tuple(name for name in references if isinstance(parse_image_reference(name), Reference))


def print_database_change(result: AppliedChange, output_flags: OutputFlags) -> None:
    """Print what changed, or would change, in a database."""
    from opmkit import BuiltIndex

    with nullcontext() if output_flags.dry_run else printing_result("the database was changed"):
        _print_change(BuiltIndex((), "", result), output_flags)


def _print_change(built: BuiltIndex, output_flags: OutputFlags, *, quiet: bool = False) -> None:
    """Print warnings, and the result unless it is ``quiet`` text."""
    result = built.result
    print_warnings(result.warnings)
    for image in result.skipped:
        print_warning(f"{image}: skipped: already in the index")
    for failure in result.failures:
        first, *others = failure.lines
        print_warning(f"permissive mode: ignored: {first}", *others)
    if result.report and output_flags.output is not OutputFormat.JSON:
        for line in result.report.lines():
            (print_line if output_flags.dry_run else print_to_stderr)(line)  # stdout is for the new image's name
    if result.plan and output_flags.output is not OutputFormat.JSON:
        print_plan_of_change(result.plan, to_stdout=output_flags.dry_run)
    if output_flags.output is OutputFormat.JSON:
        print_json(_built_as_json(built))
    elif output_flags.dry_run:
        _print_diff(result)
    elif not quiet:
        for reference in built.references:
            print_line(f"{reference}@{built.digest}" if built.digest else reference)


def print_plan_of_change(plan: UpdatePlan, *, to_stdout: bool) -> None:
    """Print what becomes of installed versions; to stderr if stdout is for the result of the change."""
    from opmkit.cli.output.plan import print_updates

    with nullcontext() if to_stdout else redirect_stdout(sys.stderr):
        print_updates(plan)


def _print_diff(result: AppliedChange) -> None:
    """Print what would change; that nothing would, only if no report shows it."""
    from opmkit.index.diff.report import diff_as_text, diff_totals

    if result.diff or not result.report:
        print_report(diff_as_text(result.diff))
    if result.diff:
        print_line(diff_totals(result.diff))


def _built_as_json(built: BuiltIndex) -> dict[str, Any]:
    """Return the result in JSON types, with hints in terms of flags."""
    failures = [{**failure.to_dict(), "hint": format_hint(failure.hint)} for failure in built.result.failures]
    return {**built.to_dict(), "failures": failures}


@contextmanager
def fatal_if_not_removed(output_flags: OutputFlags) -> Iterator[None]:
    """Print the log record of Go opm, without an ``Error:`` line, for a package that is not in the database.

    IIB retries with --permissive if it finds this record and no ``Error:`` line.
    """
    from opmkit.cli.output.server_logs import format_record
    from opmkit.index.errors import PackageNotRemoved

    try:
        yield
    except PackageNotRemoved as error:
        if output_flags.output is OutputFormat.JSON:  # callers of Go opm do not ask for JSON
            raise
        print_to_stderr(format_record("fatal", "permissive mode disabled", {"error": error.message}))
        raise typer.Exit(1) from error
