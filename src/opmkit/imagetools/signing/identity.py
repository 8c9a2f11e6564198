"""Matching of the image name in a signature, as containers-policy.json(5) defines it for ``signedIdentity``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from opmkit.imagetools.errors import InvalidReference
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.signing.errors import InvalidPolicy

if TYPE_CHECKING:
    from opmkit.imagetools.spec.fields import Fields

IdentityMatcher = Callable[[str], bool]
"""A function that returns whether a signature with this name is accepted."""


def any_identity(identity: str) -> bool:
    """Accept every signature."""
    return True


def parse_identity(text: str) -> Reference | None:
    """Return the name in a signature, None if it is not a valid one."""
    try:
        return Reference.parse(text.replace("index.docker.io/", "docker.io/", 1))
    except InvalidReference:
        return None


def repository_matcher(*repositories: str) -> IdentityMatcher:
    """Return a matcher for signatures that name one of the repositories, with any tag or digest."""
    names = {parsed.name for repository in repositories if (parsed := parse_identity(repository))}

    def matches(identity: str) -> bool:
        parsed = parse_identity(identity)
        return parsed is not None and parsed.name in names

    return matches


def identity_matcher(rule: Fields, image: Reference) -> IdentityMatcher:
    """Return the matcher of a ``signedIdentity`` object for an image; raise InvalidPolicy."""
    match rule.string("type", "matchRepoDigestOrExact"):
        case "matchRepository":
            return repository_matcher(image.name)
        case "matchExact":
            return _exact(image)
        case "matchRepoDigestOrExact":
            return repository_matcher(image.name) if image.digest else _exact(image)
        case "exactReference":
            expected = parse_identity(rule.string("dockerReference"))
            return lambda identity: expected is not None and parse_identity(identity) == expected
        case "exactRepository":
            return repository_matcher(rule.string("dockerRepository"))
        case "remapIdentity":
            remapped = _remap(image, rule.string("prefix"), rule.string("signedPrefix"))
            return repository_matcher(remapped.name) if remapped.digest else _exact(remapped)
        case other:
            raise InvalidPolicy(f"{rule.path}.type: unsupported type {other!r}", hint="use matchRepository")


def _exact(image: Reference) -> IdentityMatcher:
    """Return a matcher for the same repository and tag; an image without a tag matches nothing."""
    return lambda identity: (
        image.tag is not None
        and (parsed := parse_identity(identity)) is not None
        and (parsed.name, parsed.tag) == (image.name, image.tag)
    )


def _remap(image: Reference, prefix: str, signed_prefix: str) -> Reference:
    if image.name != prefix and not image.name.startswith(f"{prefix}/"):
        return image
    remapped = parse_identity(signed_prefix + image.name.removeprefix(prefix))
    if remapped is None:
        raise InvalidPolicy(f"signedPrefix {signed_prefix!r}: not a valid prefix", hint="write REGISTRY/NAMESPACE")
    return Reference(remapped.registry, remapped.repository, image.tag, image.digest)
