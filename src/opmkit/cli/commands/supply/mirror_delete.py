"""``opm mirror delete``: delete mirrored catalogs with the images that nothing else needs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opmkit.cli.flags.output import Output
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.help.panels import ADVANCED_PANEL
from opmkit.cli.hints import format_hint
from opmkit.cli.output.console import OutputFormat, format_count, print_json, print_line, print_table
from opmkit.cli.output.errors import UsageError, conflicting_flags, print_hint, print_to_stderr, print_warnings
from opmkit.cli.output.streams import printing_result
from opmkit.cli.parser.declaration import argument, flag
from opmkit.cli.progress.command import progress, waiting

if TYPE_CHECKING:
    from collections.abc import Sized

    from opmkit import MirrorDeletion, MirrorResult


def delete(
    ctx: typer.Context,
    *,
    catalogs: list[str] | None = argument(
        None, "Catalogs to delete, by the names of their sources or in the target", metavar="[CATALOG]..."
    ),
    to: Annotated[
        str, typer.Option("--to", metavar="TARGET", help="Target of the mirror: REGISTRY or REGISTRY/PREFIX")
    ],
    config: Path | None = flag(
        None,
        "DeleteImageSetConfiguration or ImageSetConfiguration with what to delete, instead of CATALOG",
        "-c",
        metavar="FILE",
    ),
    yes: bool = flag(False, "Delete the images; without it, the plan is shown, and nothing is deleted", "--yes", "-y"),
    yes_unrecorded: bool = flag(
        False, "With --yes, also delete the images of which no record says that they were mirrored for the catalog"
    ),
    keep: list[str] | None = flag(
        None, "Further indexes whose images are kept: images, directories or databases", metavar="INDEX,..."
    ),
    search: bool = flag(
        True,
        "Look for catalogs to keep in all repositories of the target",
        "--search/--no-search",
        panel=ADVANCED_PANEL,
    ),
    max_nested_paths: int | None = flag(
        None,
        "Components of a repository name in the target, as it was mirrored",
        panel=ADVANCED_PANEL,
        metavar="NUMBER",
        min=2,
    ),
    workers: int = flag(8, "Requests at the same time", panel=ADVANCED_PANEL, metavar="NUMBER", min=1, max=64),
    output: Output = OutputFormat.TEXT,
    registry_flags: RegistryFlags,
) -> None:
    """Delete mirrored catalogs from a registry with their images, except those that another catalog needs

    Without --yes, the images to delete and those to keep are listed, with what needs them. The catalogs that the
    registry keeps are found in its repositories below the prefix; name others with --keep. An image is also kept if it
    has another tag. Signatures and attestations are deleted with their images. The catalogs are deleted last, so a run
    that was interrupted can be repeated. The registry frees the space of layers by its own garbage collection.

    Only what 'opm mirror' has put there according to its records is deleted. Other images of the catalog are listed as
    unrecorded, such as those of releases without records; --yes --yes-unrecorded deletes them as well.

    With --config, the catalogs and images of an ImageSetConfiguration are deleted. Those of a
    DeleteImageSetConfiguration are, too, but where it selects packages, only the images of the selected bundles.

    [bold]Examples:[/]
      opm mirror delete quay.io/me/catalog:1 --to registry.example.com/mirror
      opm mirror delete quay.io/me/catalog:1 --to registry.example.com/mirror --yes
      opm mirror delete --config delete.yaml --to registry.example.com/mirror --keep quay.io/me/other:1
    """
    from opmkit import DeletionOptions, ImageSet

    if config is None and not catalogs:
        raise UsageError("CATALOG or --config is required", ctx.command_path)
    if config is not None and catalogs:
        raise conflicting_flags("CATALOG", "--config", ctx.command_path)
    content = ImageSet.read(config) if config else catalogs or []
    if isinstance(content, ImageSet):
        print_warnings(content.warnings)
    options = DeletionOptions(tuple(keep or ()), search, max_nested_paths, workers, yes_unrecorded)
    with progress() as bars:
        with waiting("Preparing the deletion"):
            planned = registry_flags.opm().open_mirror_deletion(content, to, options, progress=bars)
        result = planned.result
        if yes:
            with waiting("Deleting"):
                result = planned.run()
    _print_deletion(result, output, is_done=yes)
    if result.failures or (yes and any(each.is_catalog for each in result.in_state("unrecorded"))):
        raise typer.Exit(1)


def _print_deletion(result: MirrorDeletion, output: OutputFormat, *, is_done: bool) -> None:
    """Print the plan or the result as a table or as JSON, and the failures to stderr."""
    with printing_result("the images were deleted" if is_done else "nothing was deleted"):
        if output is OutputFormat.JSON:
            print_json(_as_json(result))
        else:
            if result.images:
                rows = [(image.target, image.state, image.kept_for) for image in result.images]
                print_table(("IMAGE", "STATE", "KEPT FOR"), rows)
            print_line(_count_images(result, is_done=is_done))
    print_to_stderr(_kept_catalogs(result))
    if not is_done and result.in_state("delete"):
        print_to_stderr("Nothing was deleted. To delete the images, pass --yes")
    if advice := _unrecorded_advice(result, is_done=is_done):
        print_to_stderr(advice)
    print_failures(result)
    if result.failures:
        print_to_stderr("The catalogs were not deleted. Run the command again to continue")


def _unrecorded_advice(result: MirrorDeletion, *, is_done: bool) -> str:
    """Return how to delete the unrecorded images, "" for none: they are found by a catalog that is still there."""
    unrecorded = result.in_state("unrecorded")
    if not unrecorded:
        return ""
    text = (
        f"No record says that {format_count(len(unrecorded), 'image')} of these {_were(unrecorded)} mirrored for "
        "what is deleted. "
    )
    has_ended = all(each.state in ("deleted", "absent") for each in result.images if each.is_catalog)
    if is_done and has_ended and not result.failures:
        return f"{text}They remain, and nothing leads to them any more: delete them with another tool"
    advice = f"{text}To delete what is listed as unrecorded, pass --yes-unrecorded in addition to --yes"
    return advice if is_done else f"{advice}; a deletion without it leaves nothing that leads to them"


def _were(images: Sized) -> str:
    return "was" if len(images) == 1 else "were"


def print_failures(result: MirrorDeletion | MirrorResult) -> None:
    """Print the images that could not be mirrored or deleted to stderr, with the causes."""
    for failure in result.failures:
        first, *others = failure.lines()
        print_to_stderr(f"Error: {first}", *others)
        print_hint(failure.error.hint)


def print_deletion_summary(result: MirrorDeletion, *, is_done: bool) -> None:
    """Print the number of images that were deleted or would be, and the catalogs that remain, to stderr."""
    print_to_stderr(_count_images(result, is_done=is_done), _kept_catalogs(result))


def _kept_catalogs(result: MirrorDeletion) -> str:
    return f"Catalogs that remain in the target: {', '.join(result.kept_catalogs) or 'none'}"


def _count_images(result: MirrorDeletion, *, is_done: bool) -> str:
    state = "deleted" if is_done else "delete"
    images = result.in_state(state)
    others = sum(len(image.artifacts) + len(image.children) for image in images)
    text = f"{format_count(len(images), 'image')} {'deleted' if is_done else 'to delete'}"
    with_others = f" with {format_count(others, 'manifest')} of signatures and platforms" if others else ""
    unrecorded = len(result.in_state("unrecorded"))
    return (
        f"{text}{with_others}, {len(result.in_state('kept'))} kept, {len(result.in_state('absent'))} not in the target"
        + (f", {unrecorded} unrecorded" if unrecorded else "")
    )


def _as_json(result: MirrorDeletion) -> dict[str, Any]:
    """Return the result with hints in terms of flags."""
    failures = [
        {"image": failure.image, "message": failure.error.message, "hint": format_hint(failure.error.hint)}
        for failure in result.failures
    ]
    return {**result.to_dict(), "failures": failures}
