"""Keyless signatures: certificates that Sigstore's Fulcio issues to identities, verified by sigstore-python.

This module requires the extra ``keyless``.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from opmkit.imagetools.errors import ImageToolsError
from opmkit.imagetools.hints import Hint, Setting
from opmkit.imagetools.signing.errors import InvalidSignature

if TYPE_CHECKING:
    from pathlib import Path

    from sigstore.verify import Verifier


@dataclass(frozen=True)
class CertificateIdentity:
    """The identity that a certificate must name: an e-mail address or URI, and the OIDC issuer that confirmed it.

    Attributes:
        identity: The subject alternative name of the certificate.
        issuer: The URL of the OIDC issuer.
        trusted_root: A file with the certificate authorities and logs to trust; by default those of the public
            Sigstore instance, which are downloaded by TUF.
    """

    identity: str
    issuer: str
    trusted_root: Path | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """The identity and its issuer, for messages."""
        return f"{self.identity} ({self.issuer})"

    def load(self) -> None:
        """Read or download the trusted root; raise ImageToolsError."""
        _ = self.verifier

    @cached_property
    def verifier(self) -> Verifier:
        """The verifier with the trusted root.

        Raises:
            ImageToolsError: The extra is not installed, or the trusted root cannot be read or downloaded.
        """
        try:
            from sigstore.errors import Error
            from sigstore.models import TrustedRoot
            from sigstore.verify import Verifier
        except ImportError as error:
            raise ImageToolsError(
                "keyless signatures are not supported by this installation: sigstore not found",
                hint="install the extra: pip install 'opmkit[keyless]'",
            ) from error
        logging.getLogger("sigstore").setLevel(logging.ERROR)
        try:
            if self.trusted_root is None:
                return Verifier.production()
            return Verifier(trusted_root=TrustedRoot.from_file(str(self.trusted_root)))
        except OSError as error:
            raise ImageToolsError(
                f"{error.filename or self.trusted_root}: {error.strerror or error}",
                hint="check the path of the trusted root, and the network if none is given",
            ) from error
        except (Error, ValueError) as error:
            if self.trusted_root is None:
                raise ImageToolsError(
                    f"Sigstore: the trusted root cannot be downloaded: {_one_line(error)}",
                    hint=Hint("check the network and the proxy settings, or pass the file as {}", Setting.TRUSTED_ROOT),
                ) from error
            raise ImageToolsError(
                f"{self.trusted_root}: invalid trusted root: {_one_line(error)}",
                hint="pass a trusted_root.json of a Sigstore instance",
            ) from error

    def verify(self, bundle: bytes) -> bytes:
        """Verify a bundle with an envelope, and return the payload of the envelope.

        The certificate must have been valid at the time that the transparency log or a timestamp authority confirms.

        Raises:
            InvalidSignature: The bundle is malformed, or the signature is not by this identity.
        """
        verifier = self.verifier
        from sigstore.errors import Error
        from sigstore.models import Bundle
        from sigstore.verify.policy import Identity

        try:
            parsed = Bundle.from_json(bundle)
            _, payload = verifier.verify_dsse(parsed, Identity(identity=self.identity, issuer=self.issuer))
        except (Error, ValueError, TypeError, AttributeError, KeyError) as error:
            raise InvalidSignature(f"not signed by {self.name}: {_one_line(error)}") from error
        return payload


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
