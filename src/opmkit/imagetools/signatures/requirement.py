"""Requirements of signature policies on the images of a scope, and the check of one image."""

from __future__ import annotations

import base64
import errno
import re
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from opmkit.core.files import read_limited
from opmkit.imagetools.signatures.errors import (
    InvalidKey,
    InvalidSignature,
    InvalidSignaturePolicy,
    VerificationFailed,
)
from opmkit.imagetools.signatures.identity import IdentityRule, SignedIdentity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opmkit.imagetools.reference import Reference
    from opmkit.imagetools.repository import ImageSource
    from opmkit.imagetools.signatures.attachments import SignatureTarget
    from opmkit.imagetools.signatures.keys import PublicKey
    from opmkit.imagetools.signatures.lookaside import Lookaside
    from opmkit.imagetools.spec.fields import Fields

_REKOR_FIELDS = ("rekorPublicKeyPath", "rekorPublicKeyPaths", "rekorPublicKeyData", "rekorPublicKeyDatas")
_AUTHORITY_FIELDS = ("fulcio", "pki")
_GPG_KEYS = "GPGKeys"
_KEY_TYPES = (_GPG_KEYS, "signedByGPGKeys", "X509Certificates", "signedByX509CAs")
_SUPPORTED = "use sigstoreSigned with keyPath, signedBy with GPGKeys, insecureAcceptAnything or reject"


class RequirementKind(StrEnum):
    """The type of a requirement on images."""

    ACCEPT = "insecureAcceptAnything"
    REJECT = "reject"
    SIGSTORE = "sigstoreSigned"
    GPG = "signedBy"
    BASE_LAYER = "signedBaseLayer"


_KEY_FIELDS = {
    RequirementKind.SIGSTORE: ("keyPath", "keyPaths", "keyData", "keyDatas"),
    RequirementKind.GPG: ("keyPath", "keyPaths", "keyData"),
}


class PolicyKey(Struct, frozen=True):
    """A key in a policy, whose file is read when it is needed.

    Attributes:
        name: The path, or the place in the policy, for messages.
        content: The key, b"" if it is in the file ``name``.
    """

    name: str
    content: bytes = b""

    def read(self) -> bytes:
        """Return the key; raise InvalidKey if the file cannot be read."""
        if self.content:
            return self.content
        if "://" in self.name:
            raise InvalidKey(f"{self.name}: invalid path of a key", hint="write the path of a file")
        try:
            return read_limited(Path(self.name))
        except FileNotFoundError as error:
            raise InvalidKey(f"{self.name}: file does not exist", hint="check the path") from error
        except OSError as error:
            is_path = error.errno != errno.EINVAL
            problem = f"{self.name}: {error.strerror}" if is_path else f"{self.name!r}: not a valid path"
            raise InvalidKey(problem, hint="check the path") from error


class CheckedImage(Struct, frozen=True):
    """An image to check.

    Attributes:
        subject: The image, for messages.
        name: Its canonical name, None if it has none.
        targets: It in the places where its signatures may be.
        lookaside: The place of signatures outside registries.
    """

    subject: str
    name: Reference | None
    targets: Sequence[SignatureTarget[ImageSource]]
    lookaside: Lookaside


class PolicyRequirement(Struct, frozen=True, dict=True):
    """A requirement on the images of a scope.

    Attributes:
        path: The place of the requirement in the policy, for messages.
        kind: The type.
        keys: The keys of which one must have signed.
        identity: The name that the signature must contain.
        unsupported: The place in the policy of what cannot be checked, so that no image satisfies the requirement.
    """

    path: str
    kind: RequirementKind
    keys: tuple[PolicyKey, ...] = ()
    identity: SignedIdentity = field(default_factory=SignedIdentity)
    unsupported: str = ""

    @classmethod
    def parse(cls, fields: Fields) -> PolicyRequirement:
        """Parse a requirement.

        Raises:
            InvalidSignaturePolicy: The requirement is malformed; to ignore a part would accept too much.
            InvalidImage: A field is unknown or has the wrong type.
        """
        kind = fields.string("type")
        if kind not in list(RequirementKind):
            raise InvalidSignaturePolicy(f"{fields.path}.type: unsupported type {kind!r}", hint=_SUPPORTED)
        match RequirementKind(kind):
            case RequirementKind.SIGSTORE | RequirementKind.GPG as known:
                return cls._parse_signed(fields, known)
            case RequirementKind.BASE_LAYER as known:
                fields.require_only("type", "baseLayerIdentity")
                SignedIdentity.parse(fields.nested("baseLayerIdentity"))
                return cls(fields.path, known, unsupported=f"{fields.path}.type: {kind}")
            case known:
                fields.require_only("type")
                return cls(fields.path, known)

    @classmethod
    def _parse_signed(cls, fields: Fields, kind: RequirementKind) -> PolicyRequirement:
        names, unsupported = _KEY_FIELDS[kind], ""
        identity = SignedIdentity(IdentityRule.MATCH_REPO_DIGEST_OR_EXACT)
        if "signedIdentity" in fields.values:
            identity = SignedIdentity.parse(fields.nested("signedIdentity"))
        if kind is RequirementKind.GPG:
            fields.require_only("type", "keyType", *names, "signedIdentity")
            key_type = fields.string("keyType")
            if key_type not in _KEY_TYPES:
                raise InvalidSignaturePolicy(f"{fields.path}.keyType: invalid key type {key_type!r}", hint=_SUPPORTED)
            unsupported = "" if key_type == _GPG_KEYS else f"{fields.path}.keyType: {key_type}"
        else:
            fields.require_only("type", *names, *_AUTHORITY_FIELDS, *_REKOR_FIELDS, "signedIdentity")
            names, unsupported = (*names, *_AUTHORITY_FIELDS), _parse_authorities(fields)
        keys = tuple(_keys(fields))
        if sum(name in fields.values for name in names) != 1 or not (keys or unsupported):
            raise InvalidSignaturePolicy(f"{fields.path}: expected one of {', '.join(names)}", hint=_SUPPORTED)
        return cls(fields.path, kind, keys, identity, unsupported)

    @cached_property
    def public_keys(self) -> tuple[PublicKey, ...]:
        """The keys of SIGSTORE; raises InvalidKey."""
        from opmkit.imagetools.signatures.keys import PublicKey  # slow to import: cryptographic libraries

        return tuple(PublicKey.parse(content, key.name) for key, content in self._read_keys())

    def require_usable(self) -> None:
        """Raise InvalidSignaturePolicy or InvalidKey unless images can be checked."""
        if self.unsupported:
            raise InvalidSignaturePolicy(f"{self.unsupported}: unsupported", hint=_SUPPORTED)
        if self.kind is RequirementKind.SIGSTORE:
            _ = self.public_keys
        elif self.kind is RequirementKind.GPG:
            _ = list(self._read_keys())

    @property
    def accepts_all(self) -> bool:
        """Whether every image satisfies the requirement."""
        return self.kind is RequirementKind.ACCEPT

    def check_always(self, subject: str) -> None:
        """Raise VerificationFailed for an image if no image satisfies the requirement."""
        if self.kind is RequirementKind.REJECT:
            raise VerificationFailed(
                f"{subject}: rejected by {self.path}", hint="use another image, or change the policy"
            )

    def check(self, image: CheckedImage) -> None:
        """Raise VerificationFailed unless an image satisfies the requirement.

        Raises:
            InvalidSignaturePolicy: The requirement is not supported.
            InvalidKey: A key cannot be read or used.
        """
        self.check_always(image.subject)
        if self.accepts_all:
            return
        self.require_usable()
        if self.identity.depends_on_image and image.name is None:
            raise VerificationFailed(
                f"{image.subject}: {self.path} requires the name of the image in the signature, but a file has no such "
                "name",
                hint="use exactRepository in the policy; for a bundle to add, pass the image to record as SOURCE=IMAGE",
            )
        if self.kind is RequirementKind.GPG:
            self._check_messages(image)
        else:
            self._check_attachments(image)

    def _check_attachments(self, image: CheckedImage) -> None:
        """Check the signatures of cosign, which are attached to the image in its repository."""
        from opmkit.imagetools.signatures.verify import SignatureRequirements, verify_signatures

        requirements = SignatureRequirements(self.public_keys, identity=self.identity.matcher(image.name))
        *others, last = image.targets
        for target in others:
            try:
                verify_signatures(target.source, target.image.digest, image.subject, requirements, first=True)
            except VerificationFailed:
                continue
            return
        verify_signatures(last.source, last.image.digest, image.subject, requirements, first=True)

    def _check_messages(self, image: CheckedImage) -> None:
        """Check the OpenPGP messages about an image, which are outside its repository."""
        from opmkit.imagetools.signatures.documents import SimpleSigning
        from opmkit.imagetools.signatures.pgp import open_keyring  # slow to import: subprocess

        if image.name is None:
            raise VerificationFailed(
                f"{image.subject}: {self.path} requires a signature, which only images of registries have",
                hint="copy the image to a registry",
            )
        digest = image.targets[0].image.digest
        is_accepted = self.identity.matcher(image.name)
        problems: list[str] = []
        with open_keyring({key.name: content for key, content in self._read_keys()}) as keyring:
            for message in image.lookaside.signatures(image.name, digest):
                try:
                    content = SimpleSigning.parse(keyring.read(message))
                except InvalidSignature as error:
                    problems.append(error.message)
                    continue
                if content.digest == digest and is_accepted(content.repository):
                    return
                problems.append(f"for {content.repository or '(none)'}@{content.digest}")
        names = ", ".join(key.name for key in self.keys)
        found = f"{len(problems)} found: {'; '.join(dict.fromkeys(problems))}" if problems else "none found"
        raise VerificationFailed(
            f"{image.subject}: no valid signature by {names}, which {self.path} requires: {found}",
            hint="check where registries.d says that its signatures are, and that this is the key of its publisher",
        )

    def _read_keys(self) -> Iterator[tuple[PolicyKey, bytes]]:
        for key in self.keys:
            try:
                yield key, key.read()
            except InvalidKey as error:
                raise InvalidKey(f"{self.path}: {error.message}", hint=error.hint) from error


Requirements = tuple[PolicyRequirement, ...]


def _parse_authorities(fields: Fields) -> str:
    """Return the place of what makes a requirement depend on certificates or logs, "" without it: it is not supported.

    Raises:
        InvalidSignaturePolicy: The combination is one because of which containers/image rejects the whole policy.
    """
    logs = [name for name in _REKOR_FIELDS if name in fields.values]
    authorities = [name for name in _AUTHORITY_FIELDS if name in fields.values]
    if len(logs) > 1 or ("pki" in authorities and logs) or ("fulcio" in authorities and not logs):
        problem = "expected one log with fulcio, none with pki, and at most one with keys"
        raise InvalidSignaturePolicy(f"{fields.path}: {problem}: {', '.join(_REKOR_FIELDS)}", hint=_SUPPORTED)
    return next((f"{fields.path}.{name}" for name in (*authorities, *logs)), "")


def _keys(requirement: Fields) -> Iterator[PolicyKey]:
    paths = list(filter(None, [requirement.string("keyPath", "")]))
    yield from map(PolicyKey, (*paths, *requirement.strings("keyPaths")))
    data = [requirement.string("keyData")] if "keyData" in requirement.values else []
    for position, text in enumerate([*data, *requirement.strings("keyDatas")]):
        name = f"{requirement.path} (key {position + 1})"
        try:
            content = base64.b64decode(re.sub(r"[\r\n]", "", text), validate=True)
        except ValueError as error:
            raise InvalidSignaturePolicy(f"{name}: invalid base64", hint="encode the public key in base64") from error
        if not content:
            raise InvalidSignaturePolicy(f"{name}: no key", hint="encode the public key in base64")
        yield PolicyKey(name, content)
