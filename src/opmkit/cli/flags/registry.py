"""Flags for access to registries."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from opmkit.cli.flags.output import ProgressOption
from opmkit.cli.parser.declaration import flag
from opmkit.cli.progress.command import ProgressFormat, set_progress_format, transfer_observer

if TYPE_CHECKING:
    from opmkit import RegistryOptions
    from opmkit.api import Opm
    from opmkit.imagetools.image_format import ImageFormat

REGISTRY_PANEL = "Registry access"
CA_FILE_HELP = "PEM file of additional authorities to trust"


@dataclass(frozen=True, slots=True)
class RegistryFlags:
    """Flags for access to registries."""

    panel: ClassVar[str] = REGISTRY_PANEL

    skip_tls: bool = flag(False, "")
    skip_tls_verify: bool = flag(False, "Accept any TLS certificate, and plain HTTP from registries without TLS")
    use_http: bool = flag(False, "Accept plain HTTP and any TLS certificate")
    ca_file: Path | None = flag(None, CA_FILE_HELP, metavar="FILE")
    cert_dir: Path | None = flag(
        None,
        "Directory of certificates instead of certs.d: authorities (*.crt), client (*.cert, *.key)",
        metavar="DIR",
    )
    authfile: Path | None = flag(
        None, "Credentials file, in the format of podman's auth.json or docker's config.json", metavar="FILE"
    )
    signature_policy: Path | None = flag(None, "policy.json to read instead of the machine's", metavar="FILE")
    insecure_policy: bool = flag(False, "Accept images whatever policy.json requires")
    debug: bool = flag(False, "")
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
        if self.signature_policy and self.insecure_policy:
            raise UsageError("--signature-policy and --insecure-policy exclude each other")
        plain_http = self.use_http or self.skip_tls
        return RegistryOptions(
            plain_http=plain_http,
            verify_tls=not (self.skip_tls_verify or plain_http),  # HTTPS of base images and public bundles is accepted
            ca_file=self.ca_file,
            cert_dir=self.cert_dir,
            authfile=self.authfile,
            signature_policy=self.signature_policy,
            insecure_policy=self.insecure_policy,
            transfers=transfer_observer(),
        )

    def opm(
        self, container_tool: str = "none", *, build_tool: str = "", image_format: ImageFormat | None = None
    ) -> Opm:
        """Return the operations with the given settings; raises UsageError for conflicting flags."""
        from opmkit.api import Opm

        return Opm(self.options(), None, container_tool, build_tool, image_format)
