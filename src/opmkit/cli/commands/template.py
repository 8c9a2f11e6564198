"""``opm template``: edit and render catalog templates."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.flags.template import CreateChannel, DefaultChannel, EdgeFlags, EditFlags
from opmkit.cli.output.errors import UsageError, print_warning
from opmkit.cli.output.template import print_edited
from opmkit.cli.parser.declaration import argument, flag
from opmkit.cli.parser.go_commands import given_flags, require_flags
from opmkit.cli.progress.command import progress

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
    channel: list[str] | None = flag(
        None,
        "Channels, or in a semver template any of candidate, fast and stable; default: the only one",
        metavar="NAME,...",
    ),
    create_channel: CreateChannel = False,
    default_channel: DefaultChannel = "",
    base: str = flag("", "Bundle to substitute, in a substitutes template", metavar="BUNDLE"),
    overwrite: bool = flag(False, "Replace the image of a bundle with the same name"),
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
    from opmkit import TemplateAddOptions

    options = TemplateAddOptions(
        tuple(channel or ()), edge_flags.options(ctx), create_channel, base, overwrite, default_channel
    )
    opm = registry_flags.opm()
    with progress() as bars:
        edited = opm.add_to_template(
            template, bundle, options, dry_run=edit_flags.is_dry_run, warn=print_warning, progress=bars
        )
    print_edited(edited, edit_flags)


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
    to_channel: list[str] | None = flag(
        None, "Channels to add the bundle to (required)", "--to-channel", "--to", metavar="NAME,..."
    ),
    from_channel: str = flag(
        "", "Channel that has the bundle; default: the only one", "--from-channel", "--from", metavar="NAME"
    ),
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
    from opmkit import PromoteOptions

    if not to_channel:
        raise UsageError('required flag(s) "to-channel" not set', ctx.command_path)
    options = PromoteOptions(from_channel, tuple(to_channel), edge_flags.options(ctx), create_channel, default_channel)
    opm = registry_flags.opm()
    with progress() as bars:
        edited = opm.promote_in_template(
            template, bundle, options, dry_run=edit_flags.is_dry_run, warn=print_warning, progress=bars
        )
    print_edited(edited, edit_flags)


def deprecate(
    ctx: typer.Context,
    *,
    template: TemplateArgument,
    bundle: list[str] | None = argument(None, "Names of bundles to deprecate", metavar="[BUNDLE]..."),
    channel: list[str] | None = flag(None, "Channels to deprecate", metavar="NAME,..."),
    package: bool = flag(False, "Deprecate the package"),
    message: str = flag("", "Message to users: the reason and what to use instead", "-m", metavar="TEXT"),
    undo: bool = flag(False, "Remove deprecations instead of adding them"),
    edit_flags: EditFlags,
) -> None:
    """Deprecate bundles, channels or the package of a template

    [bold]Examples:[/]
      opm template deprecate lagoon.yaml lagoon-operator.v0.1.0 -m "Has a security problem. Update to 0.2.0."
      opm template deprecate lagoon.yaml --channel alpha -m "Use the channel stable."
      opm template deprecate lagoon.yaml --channel alpha --undo
    """
    from opmkit import Opm

    if not (bundle or channel or package):
        raise UsageError("nothing to deprecate: pass a BUNDLE, --channel or --package", ctx.command_path)
    if ("message" in given_flags(ctx)) == undo or bool(message) == undo:
        raise UsageError("pass either --message or --undo", ctx.command_path)
    edited = Opm().deprecate_in_template(
        template, message, bundles=bundle or (), channels=channel or (), package=package, dry_run=edit_flags.is_dry_run
    )
    print_edited(edited, edit_flags)


def release(
    ctx: typer.Context,
    *,
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Bundle directory with a release-config.yaml: OPERATOR/VERSION")
    ],
    image: str = flag("", "Image of the bundle, which the templates list (required)", metavar="IMAGE"),
    edit_flags: EditFlags,
    registry_flags: RegistryFlags,
) -> None:
    """Add a bundle to the templates that its release-config.yaml names

    The templates are in the directory catalog-templates of the operator. All of them are changed, or none. Channels,
    and templates of the catalog_mapping in ci.yaml, are created if they do not exist.

    [bold]Example:[/] opm template release operators/lagoon/0.3.0 --image quay.io/me/lagoon-bundle:0.3.0
    """
    require_flags(ctx, "image")
    opm = registry_flags.opm()
    with progress() as bars:
        edited = opm.release_to_templates(
            directory, image, dry_run=edit_flags.is_dry_run, warn=print_warning, progress=bars
        )
    print_edited(edited, edit_flags)
