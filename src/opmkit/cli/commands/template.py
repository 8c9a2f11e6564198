"""``opm template``: edit and render catalog templates."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.bundle_rendering import image_renderer, render_bundle
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.flags.template import CreateChannel, DefaultChannel, EdgeFlags, EditFlags
from opmkit.cli.output.errors import UsageError, print_warning
from opmkit.cli.output.template import edit_files
from opmkit.cli.parser.go_commands import given_flags, require_flags

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.index.templates.edit.bundles import TemplateBundle
    from opmkit.index.templates.edit.result import TemplateEdit

TemplateArgument = Annotated[Path, typer.Argument(metavar="TEMPLATE", help="Template file, in YAML or JSON")]


def add(
    ctx: typer.Context,
    *,
    template: TemplateArgument,
    bundle: Annotated[
        str,
        typer.Argument(
            metavar="BUNDLE", help="Bundle image to list, or DIR=IMAGE to read the bundle from a directory instead"
        ),
    ],
    channel: Annotated[
        list[str] | None,
        typer.Option(
            "--channel",
            metavar="NAME,...",
            help="Channels, or in a semver template any of candidate, fast and stable; default: the only one",
        ),
    ] = None,
    create_channel: CreateChannel = False,
    default_channel: DefaultChannel = "",
    base: Annotated[
        str, typer.Option("--base", metavar="BUNDLE", help="Bundle to substitute, in a substitutes template")
    ] = "",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the image of a bundle with the same name")
    ] = False,
    edge_flags: EdgeFlags,
    edit_flags: EditFlags,
    registry_flags: RegistryFlags,
) -> None:
    """Add a bundle to a template

    The bundle replaces the head of each channel, and must be newer. Comments and formatting are retained. Nothing is
    written if the update graph would be invalid. A bundle that is already there changes nothing.

    [bold]Examples:[/]

      opm template add lagoon.yaml quay.io/me/lagoon-bundle:0.3.0 --channel alpha

      opm template add lagoon.yaml ./0.3.0=quay.io/me/lagoon-bundle:0.3.0 --channel alpha,stable --dry-run

      opm template add lagoon.yaml quay.io/me/lagoon-bundle:0.2.1 --channel stable --after lagoon-operator.v0.2.0

      opm template add lagoon.yaml quay.io/me/lagoon-bundle@sha256:2c26... --overwrite
    """
    from opmkit.index.templates.edit.apply import TemplateAddOptions
    from opmkit.index.templates.edit.apply import add as add_to_template
    from opmkit.index.templates.edit.template import EditableTemplate

    _check_exists(template)
    options = TemplateAddOptions(
        tuple(channel or ()), edge_flags.options(ctx), create_channel, base, overwrite, default_channel
    )
    added = _read_bundle(bundle, registry_flags, ctx.command_path)
    renderer = image_renderer(registry_flags)

    def edit(name: str, content: bytes) -> TemplateEdit:
        return add_to_template(EditableTemplate.parse(content, name), added, options, renderer)

    edit_files({str(template): template}, edit, edit_flags)


def promote(
    ctx: typer.Context,
    *,
    template: TemplateArgument,
    bundle: Annotated[
        str,
        typer.Argument(
            metavar="BUNDLE", help="Name or image of a bundle of the template; in a semver template also its version"
        ),
    ],
    to_channel: Annotated[
        list[str] | None,
        typer.Option("--to-channel", "--to", metavar="NAME,...", help="Channels to add the bundle to (required)"),
    ] = None,
    from_channel: Annotated[
        str,
        typer.Option(
            "--from-channel", "--from", metavar="NAME", help="Channel that has the bundle; default: the only one"
        ),
    ] = "",
    create_channel: CreateChannel = False,
    default_channel: DefaultChannel = "",
    edge_flags: EdgeFlags,
    edit_flags: EditFlags,
    registry_flags: RegistryFlags,
) -> None:
    """Add a bundle of one channel of a template to other channels

    There the bundle replaces the head, and skips what lies between both in the first channel. It keeps its range of
    skipped versions. In a new channel it has the same edges.

    [bold]Examples:[/]

      opm template promote lagoon.yaml lagoon-operator.v0.3.0 --from-channel candidate --to-channel stable

      opm template promote semver.yaml quay.io/me/lagoon-bundle:0.3.0 --to stable
    """
    from opmkit.index.templates.edit.apply import PromoteOptions
    from opmkit.index.templates.edit.apply import promote as promote_in_template
    from opmkit.index.templates.edit.template import EditableTemplate

    if not to_channel:
        raise UsageError('required flag(s) "to-channel" not set', ctx.command_path)
    _check_exists(template)
    options = PromoteOptions(from_channel, tuple(to_channel), edge_flags.options(ctx), create_channel, default_channel)
    renderer = image_renderer(registry_flags)

    def edit(name: str, content: bytes) -> TemplateEdit:
        return promote_in_template(EditableTemplate.parse(content, name), bundle, options, renderer)

    edit_files({str(template): template}, edit, edit_flags)


def deprecate(
    ctx: typer.Context,
    *,
    template: TemplateArgument,
    bundle: Annotated[
        list[str] | None, typer.Argument(metavar="[BUNDLE]...", help="Names of bundles to deprecate")
    ] = None,
    channel: Annotated[
        list[str] | None, typer.Option("--channel", metavar="NAME,...", help="Channels to deprecate")
    ] = None,
    package: Annotated[bool, typer.Option("--package", help="Deprecate the package")] = False,
    message: Annotated[
        str,
        typer.Option("--message", "-m", metavar="TEXT", help="Message to users: the reason and what to use instead"),
    ] = "",
    undo: Annotated[bool, typer.Option("--undo", help="Remove deprecations instead of adding them")] = False,
    edit_flags: EditFlags,
) -> None:
    """Deprecate bundles, channels or the package of a template

    [bold]Examples:[/]

      opm template deprecate lagoon.yaml lagoon-operator.v0.1.0 -m "Has a security problem. Update to 0.2.0."

      opm template deprecate lagoon.yaml --channel alpha -m "Use the channel stable."

      opm template deprecate lagoon.yaml --channel alpha --undo
    """
    from opmkit.index.templates.edit.deprecations import deprecate as deprecate_in_template
    from opmkit.index.templates.edit.template import EditableTemplate

    references = list(_references(bundle or [], channel or [], package=package))
    if not references:
        raise UsageError("nothing to deprecate: pass a BUNDLE, --channel or --package", ctx.command_path)
    if ("message" in given_flags(ctx)) == undo or bool(message) == undo:
        raise UsageError("pass either --message or --undo", ctx.command_path)
    _check_exists(template)

    def edit(name: str, content: bytes) -> TemplateEdit:
        return deprecate_in_template(EditableTemplate.parse(content, name), references, message)

    edit_files({str(template): template}, edit, edit_flags)


def release(
    ctx: typer.Context,
    *,
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Bundle directory with a release-config.yaml: OPERATOR/VERSION")
    ],
    image: Annotated[
        str, typer.Option("--image", metavar="IMAGE", help="Image of the bundle, which the templates list (required)")
    ] = "",
    edit_flags: EditFlags,
    registry_flags: RegistryFlags,
) -> None:
    """Add a bundle to the templates that its release-config.yaml names

    The templates are in the directory catalog-templates of the operator. All of them are changed, or none. Channels,
    and templates of the catalog_mapping in ci.yaml, are created if they do not exist.

    [bold]Example:[/] opm template release operators/lagoon/0.3.0 --image quay.io/me/lagoon-bundle:0.3.0
    """
    from opmkit.index.templates.edit.release import plan_release

    require_flags(ctx, "image")
    blob = f"{directory}={image}"
    plan = plan_release(directory, _read_bundle(blob, registry_flags, ctx.command_path), image_renderer(registry_flags))
    edit_files(plan.paths, plan.edit, edit_flags)


def _check_exists(template: Path) -> None:
    from opmkit import CatalogError

    if not template.is_file():
        kind = "is a directory" if template.is_dir() else "no such file or directory"
        raise CatalogError(f"{template}: {kind}", hint="pass a template file")


def _read_bundle(text: str, registry_flags: RegistryFlags, command: str) -> TemplateBundle:
    """Read a bundle given as IMAGE or SOURCE=IMAGE."""
    from opmkit import Reference
    from opmkit.bundle.source import BundleSource
    from opmkit.index.fbc.from_bundle import with_image
    from opmkit.index.templates.edit.bundles import TemplateBundle

    source, equals, image = text.rpartition("=")
    if equals:
        Reference.parse(image)
    elif Path(text).is_dir():
        raise UsageError(
            f"{text}: a template lists images, not directories", command, hint=f"pass {text}=IMAGE with its image"
        )
    elif BundleSource.parse(text).warning:
        print_warning(f"the template will list {text}, which clusters cannot pull; name it as {text}=REGISTRY/IMAGE")
    blob = render_bundle(registry_flags, source if equals else text)
    added = TemplateBundle.from_blob(with_image(blob, image) if equals else blob)
    return replace(added, digest=lambda: registry_flags.tool().registry_digest(Reference.parse(added.image)))


def _references(bundles: list[str], channels: list[str], *, package: bool) -> Iterator[tuple[str, str]]:
    from opmkit.index.fbc.blobs import BUNDLE, CHANNEL, PACKAGE

    yield from ((BUNDLE, name) for name in bundles)
    yield from ((CHANNEL, name) for name in channels)
    if package:
        yield PACKAGE, ""
