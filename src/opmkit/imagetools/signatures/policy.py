"""Policies that require signatures: a public key for all images, or a policy.json with requirements by name."""

from __future__ import annotations

import json
import logging
import os
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from msgspec import Struct

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
from opmkit.imagetools.signatures.errors import InvalidSignaturePolicy, VerificationFailed
from opmkit.imagetools.signatures.identity import canonical_host, canonical_name, scopes_of
from opmkit.imagetools.signatures.requirement import (
    CheckedImage,
    PolicyKey,
    PolicyRequirement,
    RequirementKind,
    Requirements,
)
from opmkit.imagetools.spec.fields import Fields

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opmkit.imagetools.reference import ImageReference
    from opmkit.imagetools.registry import RegistryClient
    from opmkit.imagetools.repository import ImageSource
    from opmkit.imagetools.signatures.attachments import SignatureTarget

_MAX_REQUIREMENTS = 100
_HINT = "see containers-policy.json(5)"
_SUPPORTED = "list requirements, such as insecureAcceptAnything or reject"
_REGISTRY, _LAYOUT, _ARCHIVE, _DOCKER_ARCHIVE = "docker", "oci", "oci-archive", "docker-archive"
_PATH_TRANSPORTS = (_LAYOUT, _ARCHIVE, "dir", "sif")
_SCOPELESS_TRANSPORTS = (_DOCKER_ARCHIVE, "tarball")
_TRANSPORTS = (
    "atomic",
    "containers-storage",
    _REGISTRY,
    "docker-daemon",
    *_SCOPELESS_TRANSPORTS,
    *_PATH_TRANSPORTS,
    "ostree",
)
"""The transports of containers-transports(5)."""
_log = logging.getLogger(__name__)


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
        """Load a public key in PEM format, or a policy.json all of which is supported.

        Raises:
            InvalidKey: A file cannot be read, or is not a public key.
            InvalidSignaturePolicy: The file is not a valid policy, or a scope can contain no image.
        """
        from opmkit.imagetools.signatures.keys import read_key_file  # slow to import: cryptographic libraries

        if not source:  # perhaps of an unset variable, which must not turn the requirement off
            raise InvalidSignaturePolicy("required signature: empty path", hint="pass a public key or a policy.json")
        content = read_key_file(source)
        if content.lstrip().startswith(b"{"):
            policy = cls.parse(content, source, is_strict=True)
        else:
            requirement = PolicyRequirement(source, RequirementKind.SIGSTORE, (PolicyKey(source, content),))
            policy = cls((requirement,), is_key=True)
        for requirement in chain(policy.default, *(chain(*scopes.values()) for scopes in policy.scopes.values())):
            requirement.require_usable()
        return policy

    @classmethod
    def parse(cls, content: bytes, source: str, *, is_strict: bool = False) -> SignaturePolicy:
        """Parse a policy.json, ``source``.

        As in containers/image, transports can be unknown, and requirements unsupported, which then no image satisfies.
        With ``is_strict`` neither is valid, nor is a scope that can contain no image.

        Raises:
            InvalidSignaturePolicy: The policy is invalid.
        """
        try:
            root = _decode_strictly(content, source)
            root.require_only("default", "transports")
            default = _requirements(root.get("default"), f"{root.path}.default")
            transports = root.nested("transports")
            if is_strict:
                transports.require_only(*_TRANSPORTS)
            scopes = {
                name: _scopes_of_transport(transports.nested(name), name, is_strict=is_strict)
                for name in transports.values
            }
        except (InvalidImage, LimitExceeded) as error:
            raise InvalidSignaturePolicy(error.message, hint=_HINT) from error
        return cls(default, scopes)

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
        from opmkit.imagetools.signatures.attachments import open_for_verification

        target = open_for_verification(reference, client)
        names: list[tuple[str, ImageReference]] = [(target.name, reference)]
        targets = [target]
        if recorded is not None and recorded != reference:
            names.append((f"{recorded.name}@{target.image.digest}", recorded))
            targets += _open_published(recorded, target, client)
        for subject, image in names:
            name = image if isinstance(image, Reference) else recorded
            checked = CheckedImage(subject, name and canonical_reference(name), targets, client.lookaside)
            for requirement in self.requirements_on(image):
                requirement.check(checked)
        return target.image.digest

    def accepts_unsigned(self, reference: ImageReference, client: RegistryClient) -> bool:
        """Return whether an image is accepted as it is, wherever it is stored."""
        if isinstance(reference, Reference):
            reference = client.resolve_short_name(reference)
        return all(requirement.accepts_all for requirement in self.requirements_on(reference))

    def requirements_on(self, reference: ImageReference) -> Requirements:
        """Return the requirements of the most specific scope for an image, whose name is not a short one.

        An image in the embedded store has the name that it was saved with.
        """
        if isinstance(reference, StoreReference):
            reference = reference.reference
        transport = _transport(reference)
        scopes = self.scopes.get(transport, {})
        if transport not in (_REGISTRY, _LAYOUT, _ARCHIVE):  # to be safe, since these scopes are not matched
            return (*chain.from_iterable(scopes.values()), *(() if "" in scopes else self.default))
        return next((scopes[scope] for scope in _scopes(reference) if scope in scopes), self.default)


def _open_published(
    recorded: Reference, target: SignatureTarget[ImageSource], client: RegistryClient
) -> tuple[SignatureTarget[ImageSource], ...]:
    """Return the image that a recorded name currently refers to, () if that is unknown; raise VerificationFailed."""
    from opmkit.imagetools.signatures.attachments import open_for_verification

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


def _scopes_of_transport(fields: Fields, transport: str, *, is_strict: bool) -> dict[str, Requirements]:
    scopes: dict[str, Requirements] = {}
    for text, value in fields.values.items():
        path = f"{fields.path}.{text or '(all)'}"
        try:
            scope = _parse_scope(text, transport, path)
        except InvalidSignaturePolicy:
            if is_strict or transport != _REGISTRY:
                raise
            scope = text  # which contains no image
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


def _parse_scope(text: str, transport: str, path: str) -> str:
    """Return the canonical form of a scope; raise InvalidPolicy for one that can contain no image."""
    if not text:
        return text
    if transport in _SCOPELESS_TRANSPORTS:
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
        case _:
            return _REGISTRY


def canonical_reference(reference: Reference) -> Reference:
    """Return the name of an image for scopes and signatures, with either a tag or a digest."""
    return canonical_name(reference.with_digest(reference.digest) if reference.digest else reference.with_default_tag())


def _scopes(reference: ImageReference) -> Iterator[str]:
    """Yield the scopes that may contain an image, the most specific first."""
    if isinstance(reference, LayoutReference | OciArchiveReference):
        path = Path(reference.path).resolve()
        yield from (str(parent) for parent in (path, *path.parents))
        yield ""
    elif isinstance(reference, Reference):
        yield from scopes_of(canonical_reference(reference))
