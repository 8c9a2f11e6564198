"""Flags and arguments of the commands that sign and verify images."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from opmkit import SignatureFormat
from opmkit.cli.output.errors import UsageError, conflicting_flags, print_to_stderr
from opmkit.cli.parser.declaration import flag
from opmkit.core.errors import OpmkitError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit import CertificateIdentity, KeylessSigner, SigningKey

KEYLESS_PANEL = "Keyless signatures"
_VERIFY = "opm image verify"
_TAG_VERIFIERS = "opm, cosign 2 and 3, podman, CRI-O and OpenShift"
_KEYLESS_TAG_VERIFIERS = "cosign 2 and 3, podman, CRI-O and OpenShift, but not by opm"
SignedImages = Annotated[
    list[str], typer.Argument(metavar="IMAGE...", help="Images, in registries or in layouts (oci:DIR:TAG)")
]
SignedImage = Annotated[str, typer.Argument(metavar="IMAGE", help="Image, in a registry or in a layout (oci:DIR:TAG)")]


@dataclass(frozen=True, slots=True)
class SigningFlags:
    """Flags for the key or the identity to sign with, and for the format."""

    key: str = flag(
        "",
        "Private key of cosign or in PEM format, or env://VARIABLE; its password is in COSIGN_PASSWORD",
        metavar="FILE",
    )
    format: SignatureFormat | None = flag(
        None,
        "Format to store: under cosign's tag, which podman and clusters verify as well; as a Sigstore bundle, "
        "which cosign 3 and opm verify; or both. Default: tag with a key, and bundle for keyless signatures",
    )
    new_bundle_format: bool = flag(False, "Same as --format bundle, as in cosign")
    keyless: bool = flag(False, "Sign with a certificate for an OIDC identity instead of a key", panel=KEYLESS_PANEL)
    identity_token: str = flag(
        "",
        "OIDC token; default: SIGSTORE_ID_TOKEN, the token of the CI platform, or a login in the browser",
        panel=KEYLESS_PANEL,
        metavar="TOKEN",
    )
    trust_config: Path | None = flag(
        None,
        "Client trust configuration of a Sigstore instance; default: the public instance",
        panel=KEYLESS_PANEL,
        metavar="FILE",
    )

    def check(self) -> None:
        """Raise UsageError unless either a key or keyless signing is selected."""
        if bool(self.key) == self.keyless:
            raise UsageError("pass either --key or --keyless", "opm image sign")
        if not self.keyless and (self.identity_token or self.trust_config):
            raise UsageError("--identity-token and --trust-config require --keyless", "opm image sign")
        if self.new_bundle_format and self.format not in (None, SignatureFormat.BUNDLE):
            raise conflicting_flags("--new-bundle-format", "--format", "opm image sign")

    @property
    def stored_format(self) -> SignatureFormat:
        """The format in which the signature is stored."""
        default = SignatureFormat.BUNDLE if self.keyless or self.new_bundle_format else SignatureFormat.TAG
        return self.format or default

    def signer(self) -> SigningKey | KeylessSigner:
        """Return the key, which is not loaded yet, or the identity to sign with."""
        if self.keyless:
            from opmkit import KeylessSigner

            token = self.identity_token or os.environ.get("SIGSTORE_ID_TOKEN", "")
            interactive = sys.stdin.isatty() and sys.stderr.isatty()
            return KeylessSigner(token, self.trust_config, interactive, self.stored_format)
        from opmkit import SigningKey

        return SigningKey(self.key, read_password, self.stored_format)

    def print_verifiers(self) -> None:
        """Print on stderr which programs can verify the signatures that are stored."""
        if self.stored_format.has_tag:
            verifiers = _KEYLESS_TAG_VERIFIERS if self.keyless else _TAG_VERIFIERS
            print_to_stderr(f"stored under cosign's tag: verified by {verifiers}")
        if self.stored_format.has_bundle:
            others = "" if self.stored_format.has_tag else "; podman, CRI-O and OpenShift require --format both"
            print_to_stderr(f"stored as a Sigstore bundle: verified by opm and cosign 3{others}")


@dataclass(frozen=True, slots=True)
class SignerFlags:
    """Flags for the key or the identity that must have signed an image."""

    panel: ClassVar[str] = KEYLESS_PANEL

    key: list[str] | None = flag(None, "Public keys, of which one must have signed", panel="", metavar="FILE,...")
    certificate_identity: str = flag(
        "", "E-mail address or URI in the certificate of a keyless signature", metavar="NAME"
    )
    certificate_oidc_issuer: str = flag("", "OIDC issuer of this identity", metavar="URL")
    trusted_root: Path | None = flag(
        None, "trusted_root.json of a Sigstore instance; default: the public instance", metavar="FILE"
    )

    def check(self) -> None:
        """Raise UsageError unless either keys or an identity with its issuer are given."""
        if bool(self.key) == bool(self.certificate_identity):
            raise UsageError("pass either --key, or --certificate-identity with --certificate-oidc-issuer", _VERIFY)
        if bool(self.certificate_identity) != bool(self.certificate_oidc_issuer):
            raise UsageError("--certificate-identity and --certificate-oidc-issuer require each other", _VERIFY)
        if self.trusted_root and not self.certificate_identity:
            raise UsageError("--trusted-root requires --certificate-identity", _VERIFY)

    @property
    def certificate(self) -> CertificateIdentity | None:
        """The identity that must have signed; None if keys must have signed."""
        if not self.certificate_identity:
            return None
        from opmkit import CertificateIdentity

        return CertificateIdentity(self.certificate_identity, self.certificate_oidc_issuer, self.trusted_root)


def read_password() -> str:
    """Return the password of a private key, from COSIGN_PASSWORD or from the terminal."""
    if "COSIGN_PASSWORD" in os.environ:
        return os.environ["COSIGN_PASSWORD"]
    if not sys.stdin.isatty():
        raise OpmkitError("the private key is encrypted: no password", hint="set COSIGN_PASSWORD to the password")
    from getpass import getpass

    return getpass("Password of the private key: ")


def read_new_password(key: str) -> str:
    """Return a password for the new private key in a file, from COSIGN_PASSWORD or twice from the terminal."""
    if "COSIGN_PASSWORD" not in os.environ:
        from getpass import getpass

        if not sys.stdin.isatty():
            raise OpmkitError(
                f"{key}: does not exist and cannot be created: no password",
                hint="set COSIGN_PASSWORD to a new password",
            )
        password = getpass(f"Password for {key}: ")
        if getpass("The same password again: ") != password:
            raise UsageError("the passwords differ", hint="try again")
        return password
    return os.environ["COSIGN_PASSWORD"]


def parse_annotations(values: Sequence[str], command: str) -> dict[str, str]:
    """Parse annotations of the form NAME=VALUE; raises UsageError for the command."""
    annotations = {}
    for text in values:
        name, separator, value = text.partition("=")
        if not name or not separator:
            raise UsageError(f"invalid annotation {text!r}: expected NAME=VALUE", command)
        annotations[name] = value
    return annotations
