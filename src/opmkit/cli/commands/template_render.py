"""``opm template render``: render all catalog templates of a repository in one run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from opmkit import CatalogCompat
from opmkit.cli.flags.output import Output
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.help.panels import ADVANCED_PANEL
from opmkit.cli.output.console import OutputFormat, format_count, print_json, print_line
from opmkit.cli.output.errors import conflicting_flags, print_to_stderr, print_warning, print_warnings
from opmkit.cli.output.fbc import CatalogFormat, CompatOption, parse_level, parse_openshift_version
from opmkit.cli.parser.declaration import argument, flag
from opmkit.cli.progress.command import progress

if TYPE_CHECKING:
    from opmkit import RenderedTemplates

_COMMAND = "opm template render"
_LOCK_PANEL = "Lock file"


def render(
    ctx: typer.Context,
    *,
    templates: list[Path] | None = argument(
        None, "Template files, and directories to search; default: the current one", metavar="PATH"
    ),
    output_dir: Path = flag(Path("catalogs"), "Directory of the catalogs", metavar="DIR"),
    file_format: CatalogFormat = flag(CatalogFormat.YAML, "Format of the catalogs: yaml or json", "--format"),
    path: str = flag(
        "",
        "Path of each catalog below DIR; default: {{.Catalog}}/{{.Package}}/catalog and the extension of the format",
        metavar="TEMPLATE",
    ),
    openshift_version: list[str] | None = flag(
        None,
        "OpenShift versions of the catalogs to render; default: all that the templates name",
        metavar="VERSION,...",
    ),
    migrate_level: str = flag(
        "",
        "Migration of all bundles: none, bundle-object-to-csv-metadata or all; default: by the OpenShift "
        "version, bundle-object-to-csv-metadata from 4.17 on",
        panel=ADVANCED_PANEL,
        metavar="LEVEL",
    ),
    lock: Path = flag(
        Path("catalog.lock"), "Lock file with the digests of image tags", panel=_LOCK_PANEL, metavar="FILE"
    ),
    no_lock: bool = flag(False, "Resolve all tags, without a lock file", panel=_LOCK_PANEL),
    update: bool = flag(False, "Resolve all tags again, and lock them", panel=_LOCK_PANEL),
    update_image: list[str] | None = flag(
        None, "Resolve these images again, and lock them", panel=_LOCK_PANEL, metavar="IMAGE,..."
    ),
    frozen: bool = flag(False, "Fail if a tag is not in the lock file", panel=_LOCK_PANEL),
    offline: bool = flag(
        False, "Do not access registries: fail if a tag is not locked or a bundle is not cached", panel=_LOCK_PANEL
    ),
    pin: bool = flag(
        False, "Write the digests of bundle images to the catalogs, instead of tags", panel=ADVANCED_PANEL
    ),
    no_validate: bool = flag(False, "Write catalogs even if they are invalid", panel=ADVANCED_PANEL),
    check: bool = flag(False, "Write nothing; list the files that are not up to date, and exit with 1 if any"),
    compat: CompatOption = CatalogCompat.NEWEST,
    output: Output = OutputFormat.TEXT,
    registry_flags: RegistryFlags,
) -> None:
    """Render all catalog templates of a repository in one run

    Each bundle image is pulled once. The lock file makes later runs reproducible; with it, and with the cached bundles,
    they need no network. All errors are reported, and catalogs are only written if there are none.

    An operator directory with a catalog_mapping in ci.yaml is rendered to DIR/CATALOG/OPERATOR/catalog.yaml. Other
    templates name the OpenShift version in their path, such as v4.17.yaml, and are rendered to
    DIR/v4.17/PACKAGE/catalog.yaml.

    [bold]Examples:[/]
      opm template render operators --output-dir catalogs
      opm template render lagoon.yaml --openshift-version 4.16,4.17
      opm template render --output-dir . --path '{{.Catalog}}/catalog/{{.Package}}/catalog.json'
      opm template render --check --frozen
      opm template render --update-image quay.io/me/lagoon-bundle:0.2.0
    """
    from opmkit import TemplateOptions

    _check_flags(no_lock=no_lock, update=update, update_image=update_image, frozen=frozen, offline=offline)
    for version in openshift_version or ():
        parse_openshift_version(version, _COMMAND)
    options = TemplateOptions(
        openshift_versions=tuple(openshift_version or ()),
        file_format=file_format,
        path=path,
        lock=None if no_lock else lock,
        lock_mode="frozen" if frozen else "update" if update else "use",
        update_images=frozenset(update_image or ()),
        offline=offline,
        pin=pin,
        validate=not no_validate,
        level=parse_level(migrate_level, compat) if migrate_level else None,
        compat=compat,
        warn=print_warning,
    )
    opm = registry_flags.opm()
    with progress("Rendering templates") as bars:
        result = opm.render_templates(templates or [Path()], output_dir, options, check=check, progress=bars)
    _print_result(result, options.lock, output)
    if result.is_stale:
        ctx.exit(1)


def _check_flags(*, no_lock: bool, update: bool, update_image: list[str] | None, frozen: bool, offline: bool) -> None:
    given = [
        flag
        for flag, is_given in (("--update", update), ("--update-image", update_image), ("--frozen", frozen))
        if is_given
    ]
    if no_lock and given:
        raise conflicting_flags("--no-lock", given[0], _COMMAND)
    if frozen and len(given) > 1:
        raise conflicting_flags(given[0], "--frozen", _COMMAND)
    if offline and given and not frozen:
        raise conflicting_flags(given[0], "--offline", _COMMAND)


def _print_result(result: RenderedTemplates, lock: Path | None, output: OutputFormat) -> None:
    """Print a line per file that is written or stale, and a summary to stderr; or everything as JSON."""
    print_warnings(result.warnings)
    if output is OutputFormat.JSON:
        print_json(result.to_dict())
        return
    for catalog in result.catalogs:
        if catalog.status != "unchanged":
            print_line(f"{catalog.path}: {catalog.status}")
    if lock and result.lock != "unchanged":
        print_line(f"{lock}: {result.lock}")
    for tag in result.moved:
        print_line(f"{tag.image}: moved from {tag.locked} to {tag.current}")
    changed = sum(catalog.status != "unchanged" for catalog in result.catalogs)
    counts = f"{format_count(len(result.catalogs), 'catalog')} from {format_count(result.images, 'image')}"
    print_to_stderr(f"{counts}, {changed} {'stale' if result.is_stale else 'changed'}")
