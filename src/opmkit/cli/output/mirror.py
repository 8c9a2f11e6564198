"""Output of ``opm mirror``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opmkit.cli.hints import format_hint
from opmkit.cli.output.console import OutputFormat, format_count, format_size, print_json, print_line, print_table
from opmkit.cli.output.errors import print_hint, print_to_stderr
from opmkit.cli.output.streams import printing_result

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit import MirrorResult


def print_copied(result: MirrorResult) -> None:
    """Report on stderr what was copied."""
    print_to_stderr(
        f"{format_count(_count(result, 'copied'), 'image')} copied ({format_size(result.transferred)}), "
        f"{_count(result, 'present')} already present, {len(result.failures)} failed"
    )


def print_written(result: MirrorResult, archive: Path | None, manifests: Path | None) -> None:
    """Report on stderr whether an archive was written, and the manifests."""
    if archive:
        print_to_stderr(f"{archive}: {'written' if result.has_changed else 'unchanged'}")
    if result.manifests:
        print_to_stderr(f"manifests written to {manifests}: {', '.join(result.manifests)}")


def print_mirror(result: MirrorResult, output: OutputFormat, *, is_dry_run: bool) -> None:
    """Print the catalogs in the target, the plan, or all as JSON; and the failures on stderr."""
    if output is OutputFormat.JSON:
        print_json(_as_json(result))
    elif is_dry_run:
        _print_plan(result)
    else:
        with printing_result("the index was mirrored"):
            for catalog in result.catalogs:
                print_line(f"{catalog.name}:{catalog.tag}@{catalog.digest}")
    for failure in result.failures:
        first, *others = failure.lines()
        print_to_stderr(f"Error: {first}", *others)
        print_hint(failure.error.hint)


def _count(result: MirrorResult, status: str) -> int:
    return sum(image.status == status for image in result.images)


def _print_plan(result: MirrorResult) -> None:
    rows = [
        (image.source, "present", "", image.target)
        if image.status == "present"
        else (image.source, format_size(image.size), format_size(image.missing or 0), image.target)
        for image in result.images
    ]
    for catalog in result.catalogs:
        if catalog.is_local:
            size = "present" if catalog.is_present else format_size(catalog.size)
            rows.append((f"{catalog.source_name}@{catalog.digest}", size, "", f"{catalog.name}:{catalog.tag}"))
    print_table(("SOURCE", "SIZE", "TO TRANSFER", "TARGET"), rows, optional=("TARGET",))
    print_line(
        f"{format_count(_count(result, 'absent'), 'image')} to copy, {_count(result, 'present')} present, "
        f"{len(result.failures)} failed; {format_size(result.size)} in total"
    )


def _as_json(result: MirrorResult) -> dict[str, Any]:
    """Return the result with hints in terms of flags."""
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
