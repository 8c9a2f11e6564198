"""Flags and arguments of the commands that sign and verify images."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.cli.registry_flags import RegistryFlags
    from opmkit.imagetools.signing.keys import PublicKey

SIGNING_PANEL = "Signing"
SignedImages = Annotated[
    list[str], typer.Argument(metavar="IMAGE...", help="Images, in registries or in layouts (oci:DIR:TAG)")
]
SignedImage = Annotated[str, typer.Argument(metavar="IMAGE", help="Image, in a registry or in a layout (oci:DIR:TAG)")]
SigningKey = Annotated[
    str,
    typer.Option(
        "--key",
        metavar="FILE",
        help="Private key: of cosign, or in PEM format; env://NAME reads a variable. COSIGN_PASSWORD is its password",
    ),
]
VerificationKeys = Annotated[
    list[str],
    typer.Option("--key", metavar="FILE,...", help="Public keys, of which one must have signed"),
]
NewBundleFormat = Annotated[
    bool,
    typer.Option(
        "--new-bundle-format", help="Store a Sigstore bundle as a referrer, as cosign 3 does, instead of cosign's tag"
    ),
]
RequireSignature = Annotated[
    str,
    typer.Option(
        "--require-signature",
        metavar="FILE",
        help="Public key that must have signed the bundle images, or a policy.json with keys by repository",
    ),
]


def read_password() -> str:
    """Return the password of a private key, from COSIGN_PASSWORD or from the terminal."""
    if "COSIGN_PASSWORD" in os.environ:
        return os.environ["COSIGN_PASSWORD"]
    if not sys.stdin.isatty():
        from opmkit.imagetools.signing.errors import InvalidKey

        raise InvalidKey("the private key is encrypted: no password", hint="set COSIGN_PASSWORD to the password")
    from getpass import getpass

    return getpass("Password of the private key: ")


def read_new_password() -> str:
    """Return a password for a new private key, from COSIGN_PASSWORD or twice from the terminal."""
    password = read_password()
    if "COSIGN_PASSWORD" not in os.environ:
        from getpass import getpass

        if getpass("The same password again: ") != password:
            raise UsageError("the passwords differ", hint="try again")
    return password


def parse_annotations(values: Sequence[str], command: str) -> dict[str, str]:
    """Parse NAME=VALUE."""
    annotations = {}
    for text in values:
        name, separator, value = text.partition("=")
        if not name or not separator:
            raise UsageError(f"invalid annotation {text!r}: expected NAME=VALUE", command)
        annotations[name] = value
    return annotations


def load_public_keys(sources: Sequence[str]) -> list[PublicKey]:
    """Return the public keys of files and environment variables."""
    from opmkit.imagetools.signing.key_files import load_public_key

    return [load_public_key(source) for source in sources]


def require_signatures(bundles: Sequence[str], required: str, registry_flags: RegistryFlags) -> list[str]:
    """Verify bundle images with a key or policy, unless it is "", and return sources that read the verified images."""
    if not required:
        return list(bundles)
    from opmkit.bundle.signed_sources import verified_sources
    from opmkit.imagetools.registry import RegistryClient
    from opmkit.imagetools.signing.policy import SignaturePolicy

    policy = SignaturePolicy.load(required)
    with RegistryClient(registry_flags.options()) as client:
        return verified_sources(bundles, policy, client)
