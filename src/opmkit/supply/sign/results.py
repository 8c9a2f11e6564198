"""Private keys in files, and the results of signing, attesting and verifying images."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from opmkit.core.json_types import JsonResult
from opmkit.supply.sign.formats import SignatureFormat

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from opmkit.supply.sign.sign import Signer
    from opmkit.supply.sign.verify import Attestation, Signature


@dataclass(frozen=True)
class SigningKey:
    """A private key to sign with, in a file of cosign or in PEM format.

    Attributes:
        source: The path of the file, or ``env://NAME`` for an environment variable.
        password: The password of an encrypted key.
        format: The format to store signatures and attestations in: ``tag``, ``bundle`` or ``both``.
    """

    source: Path | str
    password: str = field(default="", repr=False)
    format: SignatureFormat | str = SignatureFormat.TAG

    @cached_property
    def signer(self) -> Signer:
        """The signer with the decrypted key; decryption takes about a second.

        Raises:
            InvalidKey: The key cannot be read, decrypted or used.
        """
        from opmkit.supply.sign.key_files import load_private_key
        from opmkit.supply.sign.sign import Signer

        return Signer(load_private_key(str(self.source), lambda: self.password), SignatureFormat(self.format))


@dataclass(frozen=True, slots=True)
class KeyPair(JsonResult):
    """The files of a new key pair.

    Attributes:
        private_key: The encrypted private key.
        public_key: The public key.
    """

    private_key: Path
    public_key: Path


@dataclass(frozen=True, slots=True)
class SignedImage(JsonResult):
    """An image that was signed, with the annotations of the signature.

    Attributes:
        image: The reference by digest.
        digest: The digest.
        annotations: The signed annotations.
    """

    image: str
    digest: str
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AttestedImage(JsonResult):
    """An image that statements were attached to.

    Attributes:
        image: The reference by digest.
        digest: The digest.
        predicate_types: The URIs of the types of the statements.
    """

    image: str
    digest: str
    predicate_types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class VerifiedImage(JsonResult):
    """An image with its verified signatures.

    Attributes:
        image: The reference by digest, under which the verified image can be pulled.
        signatures: The signatures that satisfy the requirements, at least one.
    """

    image: str
    signatures: tuple[Signature, ...]


@dataclass(frozen=True, slots=True)
class VerifiedAttestations(JsonResult):
    """An image with its verified attestations.

    Attributes:
        image: The reference by digest.
        attestations: The attestations of the required type by the required signer, at least one.
    """

    image: str
    attestations: tuple[Attestation, ...]
