"""Keyless signatures: certificates that Sigstore's Fulcio issues to identities, verified by sigstore-python.

This module requires the extra ``keyless``.
"""

from __future__ import annotations

import base64
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.serialization import Encoding

from opmkit.core.errors import DiskError, LimitExceeded
from opmkit.core.files import read_limited
from opmkit.core.hints import Hint, install_extra
from opmkit.imagetools.errors import ImageToolsError
from opmkit.imagetools.hint_terms import ImageSetting
from opmkit.imagetools.signatures.attachments import (
    SIGNATURE_ANNOTATION,
    SIGNATURE_SUFFIX,
    SIMPLE_SIGNING_LAYER,
    attach_bundle,
    attach_layer,
)
from opmkit.imagetools.signatures.documents import (
    MAX_ATTESTATION_SIZE,
    SIGN_PREDICATE,
    SignatureFormat,
    SimpleSigning,
    Statement,
)
from opmkit.imagetools.signatures.errors import InvalidSignature
from opmkit.imagetools.spec.fields import Fields, dump_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from sigstore.models import Bundle, ClientTrustConfig
    from sigstore.oidc import IdentityToken
    from sigstore.sign import Signer as SigstoreSigner
    from sigstore.verify import Verifier

    from opmkit.imagetools.repository import Repository
    from opmkit.imagetools.spec import Descriptor


_CERTIFICATE_ANNOTATION, _LOG_ANNOTATION = "dev.sigstore.cosign/certificate", "dev.sigstore.cosign/bundle"


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

    def __post_init__(self) -> None:
        """Raise ValueError for an empty name, which sigstore-python would take for any."""
        if not self.identity or not self.issuer:
            raise ValueError("the identity and the issuer of a certificate cannot be empty")

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
        _check_installed()
        from sigstore.errors import Error
        from sigstore.models import TrustedRoot
        from sigstore.verify import Verifier

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
                    hint=Hint(
                        "check the network and the proxy settings, or pass the file as {}", ImageSetting.TRUSTED_ROOT
                    ),
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


@dataclass(frozen=True)
class KeylessSigner:
    """A signer with a certificate for an OIDC identity.

    Attributes:
        token: The OIDC token; by default that of the CI platform, or of a login in the browser.
        trust_config: A file with the trusted root and the services of a Sigstore instance, by default the public one.
        interactive: Whether a login in the browser is possible.
        format: The format to store signatures in; attestations are only stored as bundles.
    """

    token: str = field(default="", repr=False)
    trust_config: Path | None = None
    interactive: bool = False
    format: SignatureFormat = SignatureFormat.BUNDLE

    def sign(
        self, repository: Repository, image: Descriptor, name: str, annotations: Mapping[str, str] | None = None
    ) -> None:
        """Sign an image and store the signature next to it; it contains the name of the repository.

        Raises:
            ImageToolsError: The extra is not installed, there is no identity, or a service failed.
        """
        statement = Statement(image.digest, SIGN_PREDICATE, {}, name or image.digest, annotations or {})
        payload = SimpleSigning(name, image.digest, annotations or {}).encode()
        with self._signer() as signer:
            bundle = _sign_statement(signer, statement) if self.format.has_bundle else b""
            layer = _layer_annotations(signer.sign_artifact(payload)) if self.format.has_tag else {}
        if layer:
            attach_layer(repository, image.digest, SIGNATURE_SUFFIX, payload, SIMPLE_SIGNING_LAYER, layer)
        if bundle:
            attach_bundle(repository, image, bundle, SIGN_PREDICATE)

    def attest(self, repository: Repository, image: Descriptor, statement: Statement) -> None:
        """Sign a statement about an image and store the bundle as its referrer.

        Raises:
            ImageToolsError: The extra is not installed, there is no identity, a service failed, or the format is not
                ``bundle``.
        """
        if self.format.has_tag:
            raise ImageToolsError(
                f"keyless attestations: unsupported format: {self.format}", hint="store them in the format bundle"
            )
        named = replace(statement, repository=statement.repository or image.digest)  # sigstore requires a name
        with self._signer() as signer:
            bundle = _sign_statement(signer, named)
        attach_bundle(repository, image, bundle, statement.predicate_type)

    @contextmanager
    def _signer(self) -> Iterator[SigstoreSigner]:
        """Request a certificate, and translate the errors of the services."""
        import requests

        token, config = self._identity_token, self._config()
        from sigstore.errors import Error
        from sigstore.sign import SigningContext

        try:
            with SigningContext.from_trust_config(config).signer(token) as signer:
                yield signer
        except (ImageToolsError, LimitExceeded, DiskError):
            raise
        except (Error, requests.RequestException, ValueError, LookupError) as error:
            raise self._failure(error) from error
        except Exception as error:
            # Clients of the services raise errors that are not part of the public interface.
            if not type(error).__module__.startswith("sigstore."):
                raise
            raise self._failure(error) from error

    @cached_property
    def _identity_token(self) -> IdentityToken:
        _check_installed()
        from sigstore.errors import Error
        from sigstore.oidc import IdentityToken, Issuer, detect_credential

        try:
            raw = self.token or detect_credential()
            if raw:
                return IdentityToken(raw)
            if self.interactive:
                return Issuer(self._config().signing_config.get_oidc_url()).identity_token()
        except (Error, ValueError) as error:
            raise ImageToolsError(
                f"invalid OIDC token: {_one_line(error)}",
                hint=Hint(
                    "pass a token with the audience sigstore in {} or SIGSTORE_ID_TOKEN", ImageSetting.IDENTITY_TOKEN
                ),
            ) from error
        raise ImageToolsError(
            "no identity for a keyless signature: no OIDC token found",
            hint=Hint.any_of(
                "permit the CI job to request tokens, such as id-token: write in GitHub Actions",
                Hint("pass {} or SIGSTORE_ID_TOKEN", ImageSetting.IDENTITY_TOKEN),
            ),
        )

    def _config(self) -> ClientTrustConfig:
        from sigstore.errors import Error
        from sigstore.models import ClientTrustConfig

        try:
            if self.trust_config is None:
                return ClientTrustConfig.production()
            return ClientTrustConfig.from_json(read_limited(self.trust_config).decode())
        except OSError as error:
            raise ImageToolsError(
                f"{error.filename or self.trust_config}: {error.strerror or error}", hint="check the path"
            ) from error
        except (Error, ValueError) as error:
            name = self.trust_config or "configuration of the public Sigstore instance"
            raise ImageToolsError(
                f"{name}: cannot be read: {_one_line(error)}",
                hint="check the network, or pass the client trust configuration of another instance",
            ) from error

    def _failure(self, error: Exception) -> ImageToolsError:
        return ImageToolsError(
            f"keyless signature: the Sigstore services failed: {_one_line(error) or type(error).__name__}",
            hint="check the network and the identity, and try again",
        )


def _sign_statement(signer: SigstoreSigner, statement: Statement) -> bytes:
    """Sign a statement and log the signature; return the bundle."""
    from sigstore.dsse import Statement as SigstoreStatement

    return signer.sign_dsse(SigstoreStatement(statement.encode())).to_json().encode()


def _layer_annotations(bundle: Bundle) -> dict[str, str]:
    """Return the annotations of a layer under cosign's tag: the signature, its certificate and its log entry."""
    fields = Fields.from_json(bundle.to_json().encode(), "bundle", limit=MAX_ATTESTATION_SIZE)
    entries = fields.nested("verificationMaterial").items("tlogEntries", limit=1)
    (entry,) = (Fields.from_value(item, path) for path, item in entries)
    promise = entry.nested("inclusionPromise").string("signedEntryTimestamp", "")
    if not promise:
        raise ImageToolsError(
            "the transparency log confirms entries in a form that cosign's tags cannot contain",
            hint="store the signature in the format bundle",
        )
    payload = {
        "body": entry.string("canonicalizedBody"),
        "integratedTime": int(entry.string("integratedTime")),
        "logIndex": int(entry.string("logIndex")),
        "logID": base64.b64decode(entry.nested("logId").string("keyId")).hex(),
    }
    return {
        SIGNATURE_ANNOTATION: fields.nested("messageSignature").string("signature"),
        _CERTIFICATE_ANNOTATION: bundle.signing_certificate.public_bytes(Encoding.PEM).decode(),
        _LOG_ANNOTATION: dump_json({"SignedEntryTimestamp": promise, "Payload": payload}).decode(),
    }


def _check_installed() -> None:
    """Raise ImageToolsError if the extra is not installed."""
    try:
        import sigstore  # noqa: F401
    except ImportError as error:
        raise ImageToolsError(
            "keyless signatures are not supported by this installation: sigstore not found",
            hint=install_extra("keyless"),
        ) from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
