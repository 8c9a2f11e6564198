"""Output of ``opm mirror``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opmkit.cli.hints import format_hint
from opmkit.cli.output.console import OutputFormat, format_count, format_size, print_json, print_line, print_table
from opmkit.cli.output.errors import print_hint, print_to_stderr
from opmkit.cli.output.streams import printing_result

if TYPE_CHECKING:
    from opmkit.core.progress import Progress
    from opmkit.supply.mirror.copy import CopyOptions
    from opmkit.supply.mirror.load import MirrorLoad
    from opmkit.supply.mirror.mirror import IndexMirror
    from opmkit.supply.mirror.model import MirrorFailure


def run_mirror(opened: IndexMirror | MirrorLoad, options: CopyOptions, bars: Progress) -> None:
    """Copy the images; report on stderr what was copied, whatever the outcome is."""
    try:
        opened.run(options, progress=bars)
    finally:
        report = opened.report
        size = format_size(report.transferred)
        print_to_stderr(
            f"{format_count(len(report.copied), 'image')} copied ({size}), {len(report.present)} already present, "
            f"{len(report.failures)} failed"
        )


def print_mirror(opened: IndexMirror | MirrorLoad, output: OutputFormat, *, is_dry_run: bool) -> None:
    """Print the catalogs in the target, the plan, or all as JSON; and the failures on stderr."""
    if output is OutputFormat.JSON:
        print_json(_as_json(opened))
    elif is_dry_run:
        _print_plan(opened)
    else:
        with printing_result("the index was mirrored"):
            for catalog in opened.catalogs:
                print_line(f"{catalog.name}:{catalog.tag}@{catalog.digest}")
    for failure in opened.report.failures:
        _print_failure(failure)


def _print_plan(opened: IndexMirror | MirrorLoad) -> None:
    rows = [
        (
            str(image.request.reference),
            "present" if image.is_present else format_size(image.size),
            "" if image.is_present else format_size(image.missing or 0),
            f"{image.target}:{image.tag}",
        )
        for image in opened.plan.images
    ]
    for catalog, source in opened.local_catalogs:
        size = "present" if catalog.is_present else format_size(catalog.size)
        rows.append((f"{source.name}@{catalog.digest}", size, "", f"{catalog.name}:{catalog.tag}"))
    print_table(("SOURCE", "SIZE", "TO TRANSFER", "TARGET"), rows, optional=("TARGET",))
    plan = opened.plan
    print_line(
        f"{format_count(len(plan.absent), 'image')} to copy, {len(plan.present)} present, {len(plan.failures)} failed; "
        f"{format_size(plan.size)} in total"
    )


def _print_failure(failure: MirrorFailure) -> None:
    from opmkit.supply.mirror.errors import failure_lines

    first, *others = failure_lines([failure])
    print_to_stderr(f"Error: {first}", *others)
    print_hint(failure.error.hint)


def _as_json(opened: IndexMirror | MirrorLoad) -> dict[str, Any]:
    """Return the result with hints in terms of flags."""
    from opmkit import MirrorResult

    result = MirrorResult.from_mirror(opened)
    failures = [
        {
            "image": failure.image,
            "message": failure.error.message,
            "hint": format_hint(failure.error.hint),
            "needed_by": failure.needed_by,
        }
        for failure in result.failures
    ]
    return {**result.to_dict(), "failures": failures}
