"""Values that the client returns.

The fields have the meaning that ``registry.proto`` of operator-registry gives them; strings that a server does not send
are empty.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from opmkit.core.json_types import JsonResult

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Api(JsonResult):
    """A kind of Kubernetes resource; ``plural`` is the name in its URLs, if the catalog contains it."""

    group: str
    version: str
    kind: str
    plural: str = ""

    def __str__(self) -> str:
        """``GROUP/VERSION/KIND``."""
        return f"{self.group}/{self.version}/{self.kind}"


@dataclass(frozen=True, slots=True)
class Dependency(JsonResult):
    """A requirement of a bundle; ``value`` is JSON text."""

    type: str
    value: str

    def to_dict(self) -> dict[str, Any]:
        """Return the type and the parsed value."""
        return {"type": self.type, "value": _parse_json(self.value)}


@dataclass(frozen=True, slots=True)
class Property(JsonResult):
    """A property of a bundle; ``value`` is JSON text."""

    type: str
    value: str

    def to_dict(self) -> dict[str, Any]:
        """Return the type and the parsed value."""
        return {"type": self.type, "value": _parse_json(self.value)}


@dataclass(frozen=True, slots=True)
class RemoteDeprecation(JsonResult):
    """The reason why a package, channel or bundle is deprecated. Servers of databases never send it."""

    message: str

    @classmethod
    def from_message(cls, message: Any) -> Self | None:
        """Return the deprecation in a message ``RemotePackage``, ``RemoteChannel`` or ``RemoteBundle``, or None."""
        return cls(message.deprecation.message) if message.HasField("deprecation") else None


@dataclass(frozen=True, slots=True)
class RemoteChannel(JsonResult):
    """A channel of a package with the name of the bundle at its head."""

    name: str
    head: str
    deprecation: RemoteDeprecation | None = None

    @classmethod
    def from_message(cls, message: Any) -> Self:
        """Convert a message ``RemoteChannel``."""
        return cls(message.name, message.csvName, RemoteDeprecation.from_message(message))


@dataclass(frozen=True, slots=True)
class RemotePackage(JsonResult):
    """A package with its channels, in the order of the response."""

    name: str
    default_channel: str
    channels: tuple[RemoteChannel, ...]
    deprecation: RemoteDeprecation | None = None

    @classmethod
    def from_message(cls, message: Any) -> Self:
        """Convert a message ``RemotePackage``."""
        channels = tuple(map(RemoteChannel.from_message, message.channels))
        return cls(message.name, message.defaultChannelName, channels, RemoteDeprecation.from_message(message))


@dataclass(frozen=True, slots=True)
class RemoteEntry(JsonResult):
    """A bundle in a channel, with one bundle that it replaces or skips there."""

    package: str
    channel: str
    bundle: str
    replaces: str

    @classmethod
    def from_message(cls, message: Any) -> Self:
        """Convert a message ``RemoteEntry``."""
        return cls(message.packageName, message.channelName, message.bundleName, message.replaces)


@dataclass(frozen=True, slots=True)
class RemoteBundle(JsonResult):
    """A bundle in a channel.

    ``csv`` and each of ``objects`` are manifests as JSON text. Only ``list_bundles`` sets ``replaces`` and ``skips``,
    and it omits the manifests of bundles that have an image.
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
    deprecation: RemoteDeprecation | None = None

    @classmethod
    def from_message(cls, message: Any) -> Self:
        """Convert a message ``RemoteBundle``."""
        return cls(
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
            dependencies=tuple(Dependency(each.type, each.value) for each in message.dependencies),
            properties=tuple(Property(each.type, each.value) for each in message.properties),
            csv=message.csvJson,
            objects=tuple(message.object),
            deprecation=RemoteDeprecation.from_message(message),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields in JSON types; manifests and the values of properties and dependencies are parsed.

        Text that is not valid JSON is returned unchanged.
        """
        return {
            **JsonResult.to_dict(self),
            "csv": _parse_json(self.csv),
            "objects": [_parse_json(text) for text in self.objects],
        }


@dataclass(frozen=True, slots=True)
class BundleUpdates(JsonResult):
    """A bundle in a channel with the names of all bundles that it replaces or skips there."""

    package: str
    channel: str
    bundle: str
    replaces: tuple[str, ...]

    @classmethod
    def group(cls, entries: Iterable[RemoteEntry]) -> list[Self]:
        """Group entries, which are one for each update edge, by package, channel and bundle."""
        replaced: defaultdict[tuple[str, str, str], set[str]] = defaultdict(set)
        for entry in entries:
            replaced[entry.package, entry.channel, entry.bundle].add(entry.replaces)
        return [cls(*key, tuple(sorted(names - {""}))) for key, names in sorted(replaced.items())]


@dataclass(frozen=True, slots=True)
class ProvidedApi(JsonResult):
    """An API, a package that provides it, and the channels of the package with bundles that do."""

    api: str
    package: str
    channels: tuple[str, ...]

    @classmethod
    def collect(cls, bundles: Iterable[RemoteBundle]) -> list[Self]:
        """Return the APIs that bundles provide, one for each package, sorted by API and package."""
        channels: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        for bundle in bundles:
            for api in bundle.provided_apis:
                channels[str(api), bundle.package].add(bundle.channel)
        return [cls(*key, tuple(sorted(names))) for key, names in sorted(channels.items())]


def _apis(messages: Iterable[Any]) -> tuple[Api, ...]:
    return tuple(Api(each.group, each.version, each.kind, each.plural) for each in messages)


def _parse_json(text: str) -> Any:
    """Parse JSON; a text that is invalid, or nested too deeply to be encoded again, is returned unchanged."""
    import orjson

    try:
        value = orjson.loads(text) if text else None
        orjson.dumps([[[[[value]]]]])
    except (ValueError, TypeError):
        return text
    return value
