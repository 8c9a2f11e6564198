"""What a catalog answers, as values.

The fields have the meaning that the service's protocol file gives them; texts that a catalog does not send are empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Api:
    """A kind of Kubernetes objects; ``plural`` is the name of its resources, where the catalog knows it."""

    group: str
    version: str
    kind: str
    plural: str = ""

    def __str__(self) -> str:
        """``GROUP/VERSION/KIND``."""
        return f"{self.group}/{self.version}/{self.kind}"


@dataclass(frozen=True, slots=True)
class Dependency:
    """What a bundle needs to be there; ``value`` is JSON text."""

    type: str
    value: str


@dataclass(frozen=True, slots=True)
class Property:
    """A fact about a bundle; ``value`` is JSON text."""

    type: str
    value: str


@dataclass(frozen=True, slots=True)
class Deprecation:
    """Why something is not to be used any more. Servers of sqlite indexes never send it."""

    message: str


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel of a package with the name of the bundle at its head."""

    name: str
    head: str
    deprecation: Deprecation | None = None


@dataclass(frozen=True, slots=True)
class Package:
    """A package with its channels, in the order of the answer."""

    name: str
    default_channel: str
    channels: tuple[Channel, ...]
    deprecation: Deprecation | None = None


@dataclass(frozen=True, slots=True)
class ChannelEntry:
    """A bundle in a channel, with a bundle that it replaces or skips there."""

    package: str
    channel: str
    bundle: str
    replaces: str


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle as an entry of a channel.

    ``csv`` and each of ``objects`` are manifests as JSON text. Only ``list_bundles`` tells what it replaces and skips,
    and it leaves out the manifests of bundles that have an image.
    """

    package: str
    channel: str
    name: str
    version: str
    image: str
    replaces: str
    skips: tuple[str, ...]
    skip_range: str
    provided_apis: tuple[Api, ...]
    required_apis: tuple[Api, ...]
    dependencies: tuple[Dependency, ...]
    properties: tuple[Property, ...]
    csv: str
    objects: tuple[str, ...]
    deprecation: Deprecation | None = None


def package_of(message: Any) -> Package:
    """The value of a message ``Package``."""
    channels = tuple(Channel(one.name, one.csvName, _deprecation(one)) for one in message.channels)
    return Package(message.name, message.defaultChannelName, channels, _deprecation(message))


def entry_of(message: Any) -> ChannelEntry:
    """The value of a message ``ChannelEntry``."""
    return ChannelEntry(message.packageName, message.channelName, message.bundleName, message.replaces)


def bundle_of(message: Any) -> Bundle:
    """The value of a message ``Bundle``."""
    return Bundle(
        package=message.packageName,
        channel=message.channelName,
        name=message.csvName,
        version=message.version,
        image=message.bundlePath,
        replaces=message.replaces,
        skips=tuple(message.skips),
        skip_range=message.skipRange,
        provided_apis=_apis(message.providedApis),
        required_apis=_apis(message.requiredApis),
        dependencies=tuple(Dependency(one.type, one.value) for one in message.dependencies),
        properties=tuple(Property(one.type, one.value) for one in message.properties),
        csv=message.csvJson,
        objects=tuple(message.object),
        deprecation=_deprecation(message),
    )


def _apis(messages: Iterable[Any]) -> tuple[Api, ...]:
    return tuple(Api(one.group, one.version, one.kind, one.plural) for one in messages)


def _deprecation(message: Any) -> Deprecation | None:
    return Deprecation(message.deprecation.message) if message.HasField("deprecation") else None
