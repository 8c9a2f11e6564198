"""Policies that require signatures: a public key for all images, or a policy.json by repository."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.imagetools.errors import InvalidImage, LimitExceeded
from opmkit.imagetools.reference import LayoutReference, OciArchiveReference, Reference
from opmkit.imagetools.signing.errors import InvalidPolicy, VerificationFailed
from opmkit.imagetools.signing.identity import IdentityMatcher, any_identity, identity_matcher
from opmkit.imagetools.signing.key_files import load_public_key, read_key_file
from opmkit.imagetools.signing.keys import PublicKey
from opmkit.imagetools.signing.target import open_for_verification
from opmkit.imagetools.signing.verify import SignatureRequirements, verify_signatures
from opmkit.imagetools.spec.fields import Fields

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.imagetools.reference import ImageReference
    from opmkit.imagetools.registry import RegistryClient
    from opmkit.imagetools.repository import ImageSource
    from opmkit.imagetools.signing.target import Target

_MAX_REQUIREMENTS = 100
_MAX_SIZE = 1 << 20
_KEY_FIELDS = ("keyPath", "keyPaths", "keyData", "keyDatas")
_UNSUPPORTED_FIELDS = ("fulcio", "pki", "rekorPublicKeyPath", "rekorPublicKeyPaths", "rekorPublicKeyData")
_SUPPORTED = "use sigstoreSigned with keyPath, insecureAcceptAnything or reject"


@dataclass(frozen=True, slots=True)
class SignaturePolicy:
    """Requirements on images, by their names.

    Attributes:
        source: The file of the key or policy, for messages.
        key: A key that must have signed every image, None if the document applies.
        document: The content of a policy.json (containers-policy.json(5)).
    """

    source: str
    key: PublicKey | None = None
    document: Fields = field(default_factory=lambda: Fields({}, "policy"))

    @classmethod
    def load(cls, source: str) -> SignaturePolicy:
        """Load a public key in PEM format, or a policy.json.

        Raises:
            InvalidKey: The file cannot be read, or is not a public key.
            InvalidPolicy: The file is not a valid policy.
        """
        content = read_key_file(source)
        if not content.lstrip().startswith(b"{"):
            return cls(source, PublicKey.parse(content, source))
        try:
            document = Fields.from_json(content, source, limit=_MAX_SIZE)
            policy = cls(source, document=document)
            for path, scope in policy._all_scopes():
                for requirement in _requirements(scope, path):
                    _check_requirement(requirement)
        except (InvalidImage, LimitExceeded) as error:
            raise InvalidPolicy(error.message, hint="see containers-policy.json(5)") from error
        return policy

    def verify(self, reference: ImageReference, client: RegistryClient) -> str:
        """Verify the image that a reference currently names, and return its digest.

        Raises:
            VerificationFailed: The image does not satisfy the policy.
            InvalidPolicy: The policy for this image is not supported.
            ImageToolsError: The image or its signatures cannot be read.
        """
        target = open_for_verification(reference, client)
        if self.key is not None:
            _verify(target, SignatureRequirements([self.key]))
            return target.image.digest
        try:
            for requirement in self._requirements_of(reference):
                self._apply(requirement, reference, target)
        except InvalidImage as error:
            raise InvalidPolicy(error.message, hint="see containers-policy.json(5)") from error
        return target.image.digest

    def _apply(self, requirement: Fields, reference: ImageReference, target: Target[ImageSource]) -> None:
        match requirement.string("type"):
            case "insecureAcceptAnything":
                return
            case "sigstoreSigned":
                identity: IdentityMatcher = any_identity
                if isinstance(reference, Reference):
                    name = replace(reference.with_default_tag(), short_name="")
                    identity = identity_matcher(requirement.nested("signedIdentity"), name)
                _verify(target, SignatureRequirements(list(_keys(requirement)), identity=identity))
            case _:
                raise VerificationFailed(
                    f"{target.name}: rejected by {requirement.path}", hint="use another image, or change the policy"
                )

    def _requirements_of(self, reference: ImageReference) -> list[Fields]:
        """Return the requirements of the most specific scope for an image."""
        scopes = self.document.nested("transports").nested(_transport(reference))
        for scope in _scopes(reference):
            if scopes.get(scope) is not None:
                return _requirements(scopes.get(scope), f"{scopes.path}.{scope or '(all)'}")
        return _requirements(self.document.get("default"), f"{self.document.path}.default")

    def _all_scopes(self) -> Iterator[tuple[str, object]]:
        yield f"{self.document.path}.default", self.document.get("default")
        transports = self.document.nested("transports")
        for transport in transports.values:
            scopes = transports.nested(transport)
            for scope, requirements in scopes.values.items():
                yield f"{scopes.path}.{scope or '(all)'}", requirements


def _verify(target: Target[ImageSource], requirements: SignatureRequirements) -> None:
    verify_signatures(target.source, target.image.digest, target.name, requirements, first=True)


def _requirements(value: object, path: str) -> list[Fields]:
    """Return the requirements of a scope, at least one."""
    parent, _, name = path.rpartition(".")
    items = Fields({name: value}, parent).items(name, limit=_MAX_REQUIREMENTS)
    requirements = [Fields.from_value(item, item_path) for item_path, item in items]
    if not requirements:
        raise InvalidPolicy(f"{path}: expected at least one requirement", hint=_SUPPORTED)
    return requirements


def _check_requirement(requirement: Fields) -> None:
    """Raise InvalidPolicy for a requirement that is not supported, since ignoring it would accept too much."""
    kind = requirement.string("type")
    if kind not in ("insecureAcceptAnything", "reject", "sigstoreSigned"):
        raise InvalidPolicy(f"{requirement.path}.type: unsupported type {kind!r}", hint=_SUPPORTED)
    if unsupported := [name for name in _UNSUPPORTED_FIELDS if requirement.get(name) is not None]:
        raise InvalidPolicy(f"{requirement.path}.{unsupported[0]}: unsupported", hint=_SUPPORTED)
    if kind == "sigstoreSigned":
        if sum(requirement.get(name) is not None for name in _KEY_FIELDS) != 1:
            raise InvalidPolicy(f"{requirement.path}: expected one of {', '.join(_KEY_FIELDS)}", hint=_SUPPORTED)
        list(_keys(requirement))
        identity_matcher(requirement.nested("signedIdentity"), Reference("example.com", "example", "1"))


def _keys(requirement: Fields) -> Iterator[PublicKey]:
    if requirement.get("keyPath") is not None:
        yield load_public_key(requirement.string("keyPath"))
    for path in requirement.strings("keyPaths"):
        yield load_public_key(path)
    data = [requirement.string("keyData")] if requirement.get("keyData") is not None else []
    for position, text in enumerate([*data, *requirement.strings("keyDatas")]):
        name = f"{requirement.path} (key {position + 1})"
        try:
            yield PublicKey.parse(base64.b64decode(text, validate=True), name)
        except ValueError as error:
            raise InvalidPolicy(f"{name}: invalid base64", hint="encode the public key in base64") from error


def _transport(reference: ImageReference) -> str:
    match reference:
        case LayoutReference():
            return "oci"
        case OciArchiveReference():
            return "oci-archive"
        case _:
            return "docker"


def _scopes(reference: ImageReference) -> Iterator[str]:
    """Yield the scopes that may contain an image, the most specific first."""
    if isinstance(reference, LayoutReference | OciArchiveReference):
        path = Path(reference.path).absolute()
        yield from (str(parent) for parent in (path, *path.parents))
    elif isinstance(reference, Reference):
        yield str(reference.with_default_tag())
        parts = reference.name.split("/")
        yield from ("/".join(parts[:count]) for count in range(len(parts), 0, -1))
        labels = reference.registry.split(".")
        yield from (f"*.{'.'.join(labels[start:])}" for start in range(1, len(labels)))
    yield ""
