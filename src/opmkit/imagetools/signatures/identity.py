"""Names of images in signatures, compared as containers-policy.json(5) defines it for ``signedIdentity``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.imagetools.errors import InvalidReference
from opmkit.imagetools.reference import DEFAULT_REGISTRY, Reference
from opmkit.imagetools.signatures.errors import InvalidSignaturePolicy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.imagetools.spec.fields import Fields

IdentityMatcher = Callable[[str], bool]
"""A function that returns whether a signature with this name is accepted."""
_HTTPS_PORT = 443


class IdentityRule(StrEnum):
    """The type of a ``signedIdentity``."""

    ANY = ""
    MATCH_EXACT = "matchExact"
    MATCH_REPO_DIGEST_OR_EXACT = "matchRepoDigestOrExact"
    MATCH_REPOSITORY = "matchRepository"
    EXACT_REFERENCE = "exactReference"
    EXACT_REPOSITORY = "exactRepository"
    REMAP_IDENTITY = "remapIdentity"


_RULE_FIELDS = {
    IdentityRule.MATCH_EXACT: (),
    IdentityRule.MATCH_REPO_DIGEST_OR_EXACT: (),
    IdentityRule.MATCH_REPOSITORY: (),
    IdentityRule.EXACT_REFERENCE: ("dockerReference",),
    IdentityRule.EXACT_REPOSITORY: ("dockerRepository",),
    IdentityRule.REMAP_IDENTITY: ("prefix", "signedPrefix"),
}


class SignedIdentity(Struct, frozen=True):
    """A rule for the name that a signature must contain.

    Attributes:
        rule: The type of the rule.
        expected: The name that signatures must contain, for the rules that begin with ``exact``.
        prefix: The start of names that REMAP_IDENTITY replaces.
        signed_prefix: The start that replaces it.
    """

    rule: IdentityRule = IdentityRule.ANY
    expected: Reference | None = None
    prefix: str = ""
    signed_prefix: str = ""

    @classmethod
    def parse(cls, fields: Fields) -> SignedIdentity:
        """Parse the ``signedIdentity`` of a policy.

        Raises:
            InvalidPolicy: The rule is unknown, or has an invalid name, or unknown or missing fields.
            InvalidImage: A field has the wrong type.
        """
        kind = fields.string("type")
        if kind not in list(_RULE_FIELDS):
            raise InvalidSignaturePolicy(f"{fields.path}.type: unsupported type {kind!r}", hint="use matchRepository")
        rule = IdentityRule(kind)
        keys = _RULE_FIELDS[rule]
        fields.require_only("type", *keys)
        if rule is IdentityRule.REMAP_IDENTITY:
            prefix, signed_prefix = (_parse_prefix(fields.string(key), f"{fields.path}.{key}") for key in keys)
            return cls(rule, None, prefix, signed_prefix)
        return cls(rule, _parse_expected(fields, keys[0], rule) if keys else None)

    @property
    def depends_on_image(self) -> bool:
        """Whether the rule compares the name in the signature with the name of the image."""
        return self.rule is not IdentityRule.ANY and self.expected is None

    def matcher(self, image: Reference | None) -> IdentityMatcher:
        """Return the matcher for an image, by its canonical name; without one, no rule that depends on it matches."""
        match self.rule, self.expected, image:
            case IdentityRule.ANY, _, _:
                return any_identity
            case IdentityRule.EXACT_REPOSITORY, Reference(), _:
                return repository_matcher(self.expected.name)
            case _, Reference() as expected, _:
                return _exact(expected)
            case _, _, None:
                return lambda identity: False
            case IdentityRule.MATCH_REPOSITORY, _, name:
                return repository_matcher(name.name)
            case IdentityRule.MATCH_EXACT, _, name:
                return _exact(name)
            case IdentityRule.REMAP_IDENTITY, _, name:
                return _digest_or_exact(self._remap(name))
            case _, _, name:
                return _digest_or_exact(name)

    def _remap(self, image: Reference) -> Reference | None:
        if image.name != self.prefix and not image.name.startswith(f"{self.prefix}/"):
            return image
        remapped = parse_identity(self.signed_prefix + image.name.removeprefix(self.prefix))
        return remapped and Reference(remapped.registry, remapped.repository, image.tag, image.digest)


def any_identity(identity: str) -> bool:
    """Accept every signature."""
    return True


def parse_identity(text: str) -> Reference | None:
    """Return the name in a signature in its canonical form, None if it is not a valid one."""
    if "://" in text:  # Reference.parse ignores docker://, which is not part of a name
        return None
    try:
        return canonical_name(Reference.parse(text))
    except InvalidReference:
        return None


def canonical_name(image: Reference) -> Reference:
    """Return the name of an image with the canonical host of its registry."""
    registry, repository = canonical_host(image.registry), image.repository
    if registry == DEFAULT_REGISTRY and "/" not in repository:
        repository = f"library/{repository}"
    return Reference(registry, repository, image.tag, image.digest)


def canonical_host(registry: str) -> str:
    """Return the host of a registry in lower case, without the default port of HTTPS."""
    host, colon, port = registry.lower().rpartition(":")
    if colon and port.isdigit():
        host = host if int(port) == _HTTPS_PORT else f"{host}:{int(port)}"
    else:
        host = registry.lower()
    return DEFAULT_REGISTRY if host == f"index.{DEFAULT_REGISTRY}" else host


def scopes_of(image: Reference) -> Iterator[str]:
    """Yield the scopes that contain an image, the most specific first, given its canonical name; "" is the last."""
    yield str(image)
    parts = image.name.split("/")
    yield from ("/".join(parts[:count]) for count in range(len(parts), 0, -1))
    labels = image.registry.partition(":")[0].split(".")
    yield from (f"*.{'.'.join(labels[start:])}" for start in range(1, len(labels)))
    yield ""


def repository_matcher(*repositories: str) -> IdentityMatcher:
    """Return a matcher for signatures that name one of the repositories, with any tag or digest."""
    names = {parsed.name for repository in repositories if (parsed := parse_identity(repository))}

    def matches(identity: str) -> bool:
        parsed = parse_identity(identity)
        return parsed is not None and parsed.name in names

    return matches


def _exact(image: Reference) -> IdentityMatcher:
    """Return a matcher for the same repository and the same tag or digest, of which there must be one."""
    has_identifier = bool(image.tag or image.digest)
    return lambda identity: has_identifier and parse_identity(identity) == image


def _digest_or_exact(image: Reference | None) -> IdentityMatcher:
    """Return a matcher for the same tag, or if the image is named by digest, for any tag or digest."""
    if image is None:
        return lambda identity: False
    if not image.digest:
        return _exact(image)

    def matches(identity: str) -> bool:
        parsed = parse_identity(identity)
        return parsed is not None and parsed.name == image.name and bool(parsed.tag or parsed.digest)

    return matches


def _parse_expected(fields: Fields, key: str, rule: IdentityRule) -> Reference:
    """Return the name that signatures must contain."""
    text, path = fields.string(key), f"{fields.path}.{key}"
    expected = parse_identity(text)
    if expected is None:
        raise InvalidSignaturePolicy(f"{path}: invalid name {text!r}", hint="write REGISTRY/REPOSITORY")
    if rule is IdentityRule.EXACT_REFERENCE and not expected.tag and not expected.digest:
        raise InvalidSignaturePolicy(
            f"{path}: {text} has neither a tag nor a digest", hint="add one, or use exactRepository"
        )
    return expected


def _parse_prefix(text: str, path: str) -> str:
    """Return the canonical form of a registry, or of the start of the names in it."""
    host, slash, repository = text.partition("/")
    try:
        prefix = Reference(host, repository if slash else "repository")
    except InvalidReference as error:
        raise InvalidSignaturePolicy(f"{path}: invalid prefix {text!r}", hint="write REGISTRY[/NAMESPACE]") from error
    return replace(prefix, registry=canonical_host(host)).name.removesuffix("" if slash else "/repository")
