"""Flags for access to registries."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.flags.progress import ProgressOption
from opmkit.cli.progress.command import ProgressFormat, set_progress_format, transfer_observer

if TYPE_CHECKING:
    from opmkit import RegistryOptions
    from opmkit.api import Opm
    from opmkit.imagetools.image_format import ImageFormat

REGISTRY_PANEL = "Registry access"
CA_FILE_HELP = "PEM file of additional certificate authorities to trust"


@dataclass(frozen=True, slots=True)
class RegistryFlags:
    """Flags for access to registries."""

    skip_tls: Annotated[bool, typer.Option("--skip-tls", hidden=True)] = False
    skip_tls_verify: Annotated[
        bool,
        typer.Option(
            "--skip-tls-verify",
            help="Accept any TLS certificate, and plain HTTP from registries without TLS",
            rich_help_panel=REGISTRY_PANEL,
        ),
    ] = False
    use_http: Annotated[
        bool,
        typer.Option("--use-http", help="Use plain HTTP for all registries", rich_help_panel=REGISTRY_PANEL),
    ] = False
    ca_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=CA_FILE_HELP, rich_help_panel=REGISTRY_PANEL),
    ] = None
    cert_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Directory of certificates to use instead of certs.d: authorities (*.crt), client (*.cert, *.key)",
            rich_help_panel=REGISTRY_PANEL,
        ),
    ] = None
    authfile: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Credentials file, in the format of podman's auth.json or docker's config.json",
            rich_help_panel=REGISTRY_PANEL,
        ),
    ] = None
    debug: Annotated[bool, typer.Option("--debug", hidden=True)] = False
    progress: ProgressOption = ProgressFormat.AUTO

    def check(self) -> None:
        """Apply the format of progress; raise ImageToolsError if the credentials file does not exist."""
        set_progress_format(self.progress)
        if self.authfile is not None:
            from opmkit.imagetools.credentials import check_authfile

            check_authfile(self.authfile)

    def options(self) -> RegistryOptions:
        """Return the options of the registry client; raises UsageError for conflicting flags."""
        from opmkit import RegistryOptions
        from opmkit.cli.output.errors import UsageError, print_warning

        if self.skip_tls:
            print_warning("--skip-tls is deprecated: it means --use-http")
        if self.use_http and self.skip_tls_verify:
            raise UsageError("--use-http and --skip-tls-verify exclude each other")
        if self.ca_file and self.skip_tls_verify:
            raise UsageError("--ca-file and --skip-tls-verify exclude each other")
        return RegistryOptions(
            plain_http=self.use_http or self.skip_tls,
            verify_tls=not self.skip_tls_verify,
            ca_file=self.ca_file,
            cert_dir=self.cert_dir,
            authfile=self.authfile,
            transfers=transfer_observer(),
        )

    def opm(
        self, container_tool: str = "none", *, build_tool: str = "", image_format: ImageFormat | None = None
    ) -> Opm:
        """Return the operations with the given settings; raises UsageError for conflicting flags."""
        from opmkit.api import Opm

        return Opm(self.options(), None, container_tool, build_tool, image_format)
