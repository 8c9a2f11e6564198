"""Image configurations: platform, runtime settings, labels and the history of the layers."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.imagetools.spec import media_types
from opmkit.imagetools.spec.descriptor import Descriptor, Platform, check_digest, sha256_digest
from opmkit.imagetools.spec.fields import Fields, dump_json

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

MAX_CONFIG_SIZE = 8 << 20
"""Bytes of a configuration."""
EPOCH = "1970-01-01T00:00:00Z"
_MAX_HISTORY = 10_000


class ConfigChanges(Struct, frozen=True):
    """Changes to the runtime settings of a configuration; None and empty values change nothing.

    ``labels``, ``env`` and ``exposed_ports`` (such as ``50051/tcp``) are merged into the existing ones.
    """

    labels: Mapping[str, str] = {}
    removed_labels: frozenset[str] = frozenset()
    env: Mapping[str, str] = {}
    exposed_ports: Collection[str] = ()
    entrypoint: Sequence[str] | None = None
    cmd: Sequence[str] | None = None
    user: str | None = None
    working_dir: str | None = None

    def apply(self, settings: Mapping[str, object], base: ImageConfig) -> dict[str, object]:
        """Return ``settings``, the ``config`` object of ``base``, with these changes."""
        changed: dict[str, object] = {
            "Entrypoint": None if self.entrypoint is None else list(self.entrypoint),
            "Cmd": None if self.cmd is None else list(self.cmd),
            "User": self.user,
            "WorkingDir": self.working_dir,
            "Labels": self._labels(base.labels),
            "Env": _merge_env(base.env, self.env) if self.env else None,
            "ExposedPorts": {port: {} for port in (*base.exposed_ports, *self.exposed_ports)} or None,
        }
        return {**settings, **{key: value for key, value in changed.items() if value is not None}}

    def _labels(self, base: Mapping[str, str]) -> Mapping[str, str] | None:
        if not self.labels and self.removed_labels.isdisjoint(base):
            return None
        return {key: value for key, value in {**base, **self.labels}.items() if key not in self.removed_labels}


class HistoryEntry(Struct, frozen=True):
    """A build step; ``empty_layer`` is set for a step that added no layer."""

    created: str = ""
    created_by: str = ""
    comment: str = ""
    empty_layer: bool = False


class ImageConfig(Struct, frozen=True):
    """An OCI or Docker image configuration, with the bytes it was parsed from."""

    raw: bytes
    os: str
    architecture: str
    variant: str
    os_version: str
    created: str
    labels: Mapping[str, str]
    env: tuple[str, ...]
    entrypoint: tuple[str, ...]
    cmd: tuple[str, ...]
    exposed_ports: tuple[str, ...]

    user: str
    working_dir: str
    diff_ids: tuple[str, ...]
    history: tuple[HistoryEntry, ...]

    def __hash__(self) -> int:
        """Return the hash of the content."""
        return hash(self.raw)

    @classmethod
    def parse(cls, raw: bytes) -> ImageConfig:
        """Parse a configuration.

        Raises:
            InvalidImage: The document is malformed.
            LimitExceeded: It exceeds MAX_CONFIG_SIZE or another limit.
        """
        fields = Fields.from_image_json(raw, "config", limit=MAX_CONFIG_SIZE)
        settings = fields.nested("config")
        history = (Fields.from_value(item, path) for path, item in fields.items("history", limit=_MAX_HISTORY))
        return cls(
            raw=raw,
            os=fields.string("os", ""),
            architecture=fields.string("architecture", ""),
            variant=fields.string("variant", ""),
            os_version=fields.string("os.version", ""),
            created=fields.string("created", ""),
            labels=settings.string_map("Labels"),
            env=settings.strings("Env"),
            entrypoint=settings.strings("Entrypoint"),
            cmd=settings.strings("Cmd"),
            exposed_ports=tuple(sorted(settings.nested("ExposedPorts").values)),
            user=settings.string("User", ""),
            working_dir=settings.string("WorkingDir", ""),
            diff_ids=tuple(check_digest(diff_id) for diff_id in fields.nested("rootfs").strings("diff_ids")),
            history=tuple(
                HistoryEntry(
                    created=entry.string("created", ""),
                    created_by=entry.string("created_by", ""),
                    comment=entry.string("comment", ""),
                    empty_layer=entry.boolean("empty_layer"),
                )
                for entry in history
            ),
        )

    @classmethod
    def scratch(cls, platform: Platform) -> ImageConfig:
        """Build the configuration of an image without layers."""
        value: dict[str, object] = {
            "architecture": platform.architecture,
            "os": platform.os,
            "variant": platform.variant,
            "created": EPOCH,
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": []},
            "history": [],
        }
        return cls.parse(dump_json({key: item for key, item in value.items() if item != ""}))

    @property
    def platform(self) -> Platform:
        """The platform that the image runs on."""
        return Platform(self.os, self.architecture, self.variant, self.os_version)

    @property
    def digest(self) -> str:
        """The digest as ``sha256:<hex>``."""
        return sha256_digest(self.raw)

    def descriptor(self, manifest_type: str) -> Descriptor:
        """Return the descriptor of this configuration for a manifest of type ``manifest_type``."""
        media_type = media_types.convert_for(manifest_type, media_types.OCI_CONFIG)
        return Descriptor(media_type, self.digest, len(self.raw))

    def with_changes(
        self, changes: ConfigChanges, diff_ids: Sequence[str] = (), *, created: str = EPOCH, created_by: str = "opmkit"
    ) -> ImageConfig:
        """Return a copy with changed settings and with layers added on top.

        A history that does not match the layers is dropped, since it is optional.

        Args:
            changes: Changes to the settings.
            diff_ids: Digests of the uncompressed layers; without any, the history gets an entry with an empty layer.
            created: RFC 3339 time.
            created_by: Name of the build step in the history.
        """
        value = self._json()
        entry: dict[str, object] = {"created": created, "created_by": created_by}
        entries = [entry for _ in diff_ids] or [entry | {"empty_layer": True}]
        value["created"] = created
        value["config"] = changes.apply(Fields(value, "config").nested("config").values, self)
        value["rootfs"] = {"type": "layers", "diff_ids": [*self.diff_ids, *diff_ids]}
        value["history"] = [*self._raw_history(), *entries] if self._history_matches_layers() else []
        return ImageConfig.parse(dump_json(value))

    def without_layers(self, positions: Collection[int]) -> ImageConfig:
        """Return a copy without the layers at these positions (0 is the bottom layer) and their history."""
        value = self._json()
        diff_ids = [diff_id for position, diff_id in enumerate(self.diff_ids) if position not in positions]
        layer = count()
        entries = [
            raw
            for raw, entry in zip(self._raw_history(), self.history, strict=True)
            if entry.empty_layer or next(layer) not in positions
        ]
        value["rootfs"] = {"type": "layers", "diff_ids": diff_ids}
        value["history"] = entries if self._history_matches_layers() else []
        return ImageConfig.parse(dump_json(value))

    def _json(self) -> dict[str, object]:
        return dict(Fields.from_json(self.raw, "config", limit=MAX_CONFIG_SIZE).values)

    def _raw_history(self) -> list[object]:
        return [item for _, item in Fields(self._json(), "config").items("history", limit=_MAX_HISTORY)]

    def _history_matches_layers(self) -> bool:
        return sum(not entry.empty_layer for entry in self.history) == len(self.diff_ids)


def _merge_env(base: Sequence[str], changes: Mapping[str, str]) -> list[str]:
    """Replace changed variables in place and append new ones sorted by name."""
    names = [variable.partition("=")[0] for variable in base]
    merged = [
        f"{name}={changes[name]}" if name in changes else variable for name, variable in zip(names, base, strict=True)
    ]
    return merged + [f"{name}={value}" for name, value in sorted(changes.items()) if name not in names]
