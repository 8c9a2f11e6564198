"""Policies that require signatures: a public key for all images, or a policy.json with requirements by name."""

from __future__ import annotations

import base64
import json
import logging
import os
from dataclasses import replace
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from msgspec import Struct, field

from opmkit.core.errors import LimitExceeded
from opmkit.imagetools.errors import AuthenticationFailed, InvalidImage, InvalidReference, NotFound, RegistryUnavailable
from opmkit.imagetools.reference import (
    DaemonReference,
    DockerArchiveReference,
    LayoutReference,
    OciArchiveReference,
    Reference,
    StorageReference,
    StoreReference,
    is_registry_host,
)
from opmkit.imagetools.spec.fields import Fields
from opmkit.supply.sign.attachments import open_for_verification
from opmkit.supply.sign.errors import InvalidKey, InvalidSignaturePolicy, VerificationFailed
from opmkit.supply.sign.identity import IdentityRule, SignedIdentity, canonical_host, canonical_name
from opmkit.supply.sign.keys import PublicKey, load_public_key, read_key_file
from opmkit.supply.sign.verify import SignatureRequirements, verify_signatures

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from opmkit.imagetools.reference import ImageReference
    from opmkit.imagetools.registry import RegistryClient
    from opmkit.imagetools.repository import ImageSource
    from opmkit.supply.sign.attachments import SignatureTarget

_MAX_REQUIREMENTS = 100
_HINT = "see containers-policy.json(5)"
_KEY_FIELDS = ("keyPath", "keyPaths", "keyData", "keyDatas")
_UNSUPPORTED_FIELDS = (
    "fulcio",
    "pki",
    "rekorPublicKeyPath",
    "rekorPublicKeyPaths",
    "rekorPublicKeyData",
    "rekorPublicKeyDatas",
)
_SUPPORTED = "use sigstoreSigned with keyPath, insecureAcceptAnything or reject"
_REGISTRY, _LAYOUT, _ARCHIVE, _DOCKER_ARCHIVE = "docker", "oci", "oci-archive", "docker-archive"
_PATH_TRANSPORTS = (_LAYOUT, _ARCHIVE, "dir")
_TRANSPORTS = (
    "atomic",
    "containers-storage",
    _REGISTRY,
    _DOCKER_ARCHIVE,
    "docker-daemon",
    *_PATH_TRANSPORTS,
    "ostree",
    "sif",
    "tarball",
)
"""The transports of containers-transports(5)."""
_log = logging.getLogger(__name__)


class RequirementKind(StrEnum):
    """The type of a requirement on images."""

    ACCEPT = "insecureAcceptAnything"
    REJECT = "reject"
    SIGNED = "sigstoreSigned"


class PolicyRequirement(Struct, frozen=True):
    """A requirement on the images of a scope.

    Attributes:
        path: The place of the requirement in the policy, for messages.
        kind: The type.
        keys: The keys of which one must have signed.
        identity: The name that the signature must contain.
    """

    path: str
    kind: RequirementKind
    keys: tuple[PublicKey, ...] = ()
    identity: SignedIdentity = field(default_factory=SignedIdentity)

    @classmethod
    def parse(cls, fields: Fields) -> PolicyRequirement:
        """Parse a requirement.

        Raises:
            InvalidPolicy: The requirement is malformed or not supported; to ignore a part would accept too much.
            InvalidKey: A key cannot be read.
            InvalidImage: A field is unknown or has the wrong type.
        """
        kind = fields.string("type")
        if kind not in list(RequirementKind):
            raise InvalidSignaturePolicy(f"{fields.path}.type: unsupported type {kind!r}", hint=_SUPPORTED)
        if kind != RequirementKind.SIGNED:
            fields.require_only("type")
            return cls(fields.path, RequirementKind(kind))
        if unsupported := [name for name in _UNSUPPORTED_FIELDS if name in fields.values]:
            raise InvalidSignaturePolicy(f"{fields.path}.{unsupported[0]}: unsupported", hint=_SUPPORTED)
        fields.require_only("type", *_KEY_FIELDS, "signedIdentity")
        keys = tuple(_keys(fields)) if sum(name in fields.values for name in _KEY_FIELDS) == 1 else ()
        if not keys:
            raise InvalidSignaturePolicy(f"{fields.path}: expected one of {', '.join(_KEY_FIELDS)}", hint=_SUPPORTED)
        identity = SignedIdentity(IdentityRule.MATCH_REPO_DIGEST_OR_EXACT)
        if "signedIdentity" in fields.values:
            identity = SignedIdentity.parse(fields.nested("signedIdentity"))
        return cls(fields.path, RequirementKind.SIGNED, keys, identity)

    def check(self, subject: str, name: Reference | None, targets: Sequence[SignatureTarget[ImageSource]]) -> None:
        """Raise VerificationFailed unless an image satisfies the requirement.

        Args:
            subject: The image, for messages.
            name: The canonical name of the image, None if it has none.
            targets: The image in the places where its signatures may be.
        """
        if self.kind is RequirementKind.REJECT:
            raise VerificationFailed(
                f"{subject}: rejected by {self.path}", hint="use another image, or change the policy"
            )
        if self.kind is RequirementKind.ACCEPT:
            return
        if self.identity.depends_on_image and name is None:
            raise VerificationFailed(
                f"{subject}: {self.path} requires the name of the image in the signature, but a file has no such name",
                hint="pass the image to record as SOURCE=IMAGE",
            )
        requirements = SignatureRequirements(self.keys, identity=self.identity.matcher(name))
        *others, last = targets
        for target in others:
            try:
                verify_signatures(target.source, target.image.digest, subject, requirements, first=True)
            except VerificationFailed:
                continue
            return
        verify_signatures(last.source, last.image.digest, subject, requirements, first=True)


Requirements = tuple[PolicyRequirement, ...]


class SignaturePolicy(Struct, frozen=True):
    """Requirements on images, by their names.

    Names are matched as containers-policy.json(5) defines it, except that hosts are compared regardless of case and
    with or without the default port. A name is the one that is read for a reference after short names are resolved;
    mirrors are not part of it.

    Attributes:
        default: The requirements on all images in no other scope.
        scopes: The requirements by transport and scope.
        is_key: Whether the policy is a single key, which applies to bundle images only.
    """

    default: Requirements
    scopes: Mapping[str, Mapping[str, Requirements]] = {}
    is_key: bool = False

    @classmethod
    def load(cls, source: str) -> SignaturePolicy:
        """Load a public key in PEM format, or a policy.json.

        Raises:
            InvalidKey: A file cannot be read, or is not a public key.
            InvalidPolicy: The file is not a valid policy.
        """
        content = read_key_file(source)
        if not content.lstrip().startswith(b"{"):
            key = PublicKey.parse(content, source)
            return cls((PolicyRequirement(source, RequirementKind.SIGNED, (key,)),), is_key=True)
        try:
            return cls._parse(_decode_strictly(content, source))
        except (InvalidImage, LimitExceeded) as error:
            raise InvalidSignaturePolicy(error.message, hint=_HINT) from error

    @classmethod
    def _parse(cls, root: Fields) -> SignaturePolicy:
        root.require_only("default", "transports")
        default = _requirements(root.get("default"), f"{root.path}.default")
        transports = root.nested("transports")
        transports.require_only(*_TRANSPORTS)
        return cls(default, {name: _scopes_of_transport(transports.nested(name), name) for name in transports.values})

    def verify(self, reference: ImageReference, client: RegistryClient, recorded: Reference | None = None) -> str:
        """Verify the image that a reference currently names, and return its digest.

        Args:
            reference: The image to read.
            client: Reads the image and its signatures.
            recorded: The name that is recorded for the image, which must satisfy the policy as well. It is the name of
                an image in a layout or archive. If its registry can be reached, it must have the same digest there, and
                signatures next to either are accepted.

        Raises:
            VerificationFailed: The image does not satisfy the policy.
            ImageToolsError: The image or its signatures cannot be read.
        """
        if isinstance(reference, Reference):
            reference = client.resolve_short_name(reference)
        recorded = recorded and client.resolve_short_name(recorded)
        target = open_for_verification(reference, client)
        names: list[tuple[str, ImageReference]] = [(target.name, reference)]
        targets = [target]
        if recorded is not None and recorded != reference:
            names.append((f"{recorded.name}@{target.image.digest}", recorded))
            targets += _open_published(recorded, target, client)
        for subject, image in names:
            name = image if isinstance(image, Reference) else recorded
            for requirement in self._requirements_on(image):
                requirement.check(subject, name and _canonical(name), targets)
        return target.image.digest

    def accepts_unsigned(self, reference: ImageReference, client: RegistryClient) -> bool:
        """Return whether an image is accepted as it is, wherever it is stored."""
        if isinstance(reference, Reference):
            reference = client.resolve_short_name(reference)
        return all(requirement.kind is RequirementKind.ACCEPT for requirement in self._requirements_on(reference))

    def _requirements_on(self, reference: ImageReference) -> Requirements:
        """Return the requirements of the most specific scope for an image, whose name is not a short one."""
        transport = _transport(reference)
        scopes = self.scopes.get(transport, {})
        if transport not in (_REGISTRY, _LAYOUT, _ARCHIVE):  # to be safe, since these scopes are not matched
            return (*chain.from_iterable(scopes.values()), *(() if "" in scopes else self.default))
        return next((scopes[scope] for scope in _scopes(reference) if scope in scopes), self.default)


def _open_published(
    recorded: Reference, target: SignatureTarget[ImageSource], client: RegistryClient
) -> tuple[SignatureTarget[ImageSource], ...]:
    """Return the image that a recorded name currently refers to, () if that is unknown; raise VerificationFailed."""
    digest = recorded.digest
    published = None
    if digest in (None, target.image.digest):
        try:
            published = open_for_verification(recorded, client)
            digest = published.image.digest
        except (NotFound, RegistryUnavailable, AuthenticationFailed) as error:
            _log.info("%s: not compared with %s: %s", recorded, target.name, error.message)
    if digest not in (None, target.image.digest):
        raise VerificationFailed(
            f"{recorded}: names another image than {target.name}: {digest}",
            hint="record the image that is read, or read the image that is recorded",
        )
    return (published,) if published else ()


def _decode_strictly(content: bytes, source: str) -> Fields:
    """Decode a JSON object without ambiguities: duplicate keys, null and values that are not part of JSON."""

    def to_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
        decoded: dict[str, object] = {}
        for key, value in pairs:
            if key in decoded:
                raise InvalidSignaturePolicy(f"{source}: duplicate key {key!r}", hint="remove one of them")
            if value is None:
                raise InvalidSignaturePolicy(f"{source}: {key}: expected a value, got null", hint=_HINT)
            decoded[key] = value
        return decoded

    def reject(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is not part of JSON")

    try:
        value = json.loads(content.decode(), object_pairs_hook=to_object, parse_constant=reject)
    except (ValueError, RecursionError) as error:
        raise InvalidSignaturePolicy(f"{source}: invalid JSON: {error}", hint=_HINT) from error
    return Fields.from_value(value, source)


def _scopes_of_transport(fields: Fields, transport: str) -> dict[str, Requirements]:
    scopes: dict[str, Requirements] = {}
    for text, value in fields.values.items():
        path = f"{fields.path}.{text or '(all)'}"
        scope = _parse_scope(text, transport, path)
        if scope in scopes:
            raise InvalidSignaturePolicy(f"{path}: duplicate scope: {scope}", hint="remove one of them")
        scopes[scope] = _requirements(value, path)
    return scopes


def _requirements(value: object, path: str) -> Requirements:
    """Return the requirements of a scope, at least one."""
    parent, _, name = path.rpartition(".")
    items = Fields({name: value}, parent).items(name, limit=_MAX_REQUIREMENTS)
    requirements = tuple(PolicyRequirement.parse(Fields.from_value(item, item_path)) for item_path, item in items)
    if not requirements:
        raise InvalidSignaturePolicy(f"{path}: expected at least one requirement", hint=_SUPPORTED)
    return requirements


def _keys(requirement: Fields) -> Iterator[PublicKey]:
    paths = [requirement.string("keyPath")] if "keyPath" in requirement.values else []
    for path in (*paths, *requirement.strings("keyPaths")):
        if "://" in path:
            raise InvalidSignaturePolicy(
                f"{requirement.path}: invalid path {path!r} of a key", hint="write the path of a file"
            )
        yield _load_key(path, requirement.path)
    data = [requirement.string("keyData")] if "keyData" in requirement.values else []
    for position, text in enumerate([*data, *requirement.strings("keyDatas")]):
        name = f"{requirement.path} (key {position + 1})"
        try:
            yield PublicKey.parse(base64.b64decode(text, validate=True), name)
        except ValueError as error:
            raise InvalidSignaturePolicy(f"{name}: invalid base64", hint="encode the public key in base64") from error


def _load_key(file: str, path: str) -> PublicKey:
    """Return the key in a file that the requirement at ``path`` names."""
    try:
        return load_public_key(file)
    except InvalidKey as error:
        raise InvalidKey(f"{path}: {error.message}", hint=error.hint) from error


def _parse_scope(text: str, transport: str, path: str) -> str:
    """Return the canonical form of a scope; raise InvalidPolicy for one that can contain no image."""
    if not text:
        return text
    if transport == _DOCKER_ARCHIVE:
        raise InvalidSignaturePolicy(f"{path}: unsupported scope", hint='use the scope ""')
    is_path = text.startswith("/") and not text.startswith("//") and text != "/" and os.path.normpath(text) == text
    if transport in _PATH_TRANSPORTS and not is_path:
        raise InvalidSignaturePolicy(
            f"{path}: invalid scope: expected a path", hint='write an absolute path without "..", or ""'
        )
    return _parse_registry_scope(text, path) if transport == _REGISTRY else text


def _parse_registry_scope(text: str, path: str) -> str:
    wildcard = "*." if text.startswith("*.") else ""
    host, slash, name = text.removeprefix(wildcard).partition("/")
    name, at, digest = name.partition("@")
    repository, colon, tag = name.partition(":")
    try:
        if (wildcard and (slash or ":" in host)) or not (wildcard or is_registry_host(host)):
            raise InvalidReference("it contains no image")
        parsed = Reference(host, repository if slash else "any", tag if colon else None, digest if at else None)
    except InvalidReference as error:
        raise InvalidSignaturePolicy(
            f"{path}: invalid scope: {error.message}", hint="write HOST[:PORT][/PATH[:TAG or @DIGEST]], or *.DOMAIN"
        ) from error
    registry = canonical_host(host) if not wildcard else host.lower()
    return str(replace(parsed, registry=registry)) if slash else f"{wildcard}{registry}"


def _transport(reference: ImageReference) -> str:
    match reference:
        case LayoutReference():
            return _LAYOUT
        case OciArchiveReference():
            return _ARCHIVE
        case DockerArchiveReference():
            return _DOCKER_ARCHIVE
        case DaemonReference():
            return "docker-daemon"
        case StorageReference():
            return "containers-storage"
        case StoreReference():
            return "store"  # which no policy names
        case Reference():
            return _REGISTRY


def _canonical(reference: Reference) -> Reference:
    """Return the name of an image for scopes and signatures, with either a tag or a digest."""
    return canonical_name(reference.with_digest(reference.digest) if reference.digest else reference.with_default_tag())


def _scopes(reference: ImageReference) -> Iterator[str]:
    """Yield the scopes that may contain an image, the most specific first."""
    if isinstance(reference, LayoutReference | OciArchiveReference):
        path = Path(reference.path).resolve()
        yield from (str(parent) for parent in (path, *path.parents))
    elif isinstance(reference, Reference):
        name = _canonical(reference)
        yield str(name)
        parts = name.name.split("/")
        yield from ("/".join(parts[:count]) for count in range(len(parts), 0, -1))
        labels = name.registry.partition(":")[0].split(".")
        yield from (f"*.{'.'.join(labels[start:])}" for start in range(1, len(labels)))
    yield ""
