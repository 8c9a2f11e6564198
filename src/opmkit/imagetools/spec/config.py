"""The configuration of an image: what it satisfies, its labels and the history of its layers."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from opmkit.imagetools.spec import mediatypes
from opmkit.imagetools.spec.descriptor import Descriptor, Platform
from opmkit.imagetools.spec.digests import check_digest, sha256_digest
from opmkit.imagetools.spec.fields import Fields, dump_json

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

MAX_CONFIG_SIZE = 8 << 20
"""The longest configuration read, in bytes."""
EPOCH = "1970-01-01T00:00:00Z"
_STEPS = 10_000


@dataclass(frozen=True, slots=True)
class ConfigChanges:
    """What to change of a configuration; None and empty leave it as it is.

    ``labels`` and ``env`` are merged over those there are, ``removed_labels`` taken away from them, ``exposed_ports``
    (``50051/tcp``) added to them.
    """

    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    removed_labels: frozenset[str] = frozenset()
    env: Mapping[str, str] = field(default_factory=dict, hash=False)
    exposed_ports: Collection[str] = ()
    entrypoint: Sequence[str] | None = None
    cmd: Sequence[str] | None = None
    user: str | None = None
    working_dir: str | None = None

    def apply(self, settings: Mapping[str, object], base: ImageConfig) -> dict[str, object]:
        """The ``config`` object of a configuration with these changes made."""
        changed: dict[str, object] = {
            "Entrypoint": None if self.entrypoint is None else list(self.entrypoint),
            "Cmd": None if self.cmd is None else list(self.cmd),
            "User": self.user,
            "WorkingDir": self.working_dir,
            "Labels": self._labels(base.labels),
            "Env": _merged_env(base.env, self.env) if self.env else None,
            "ExposedPorts": {port: {} for port in (*base.exposed_ports, *self.exposed_ports)} or None,
        }
        return {**settings, **{key: value for key, value in changed.items() if value is not None}}

    def _labels(self, before: Mapping[str, str]) -> Mapping[str, str] | None:
        if not self.labels and self.removed_labels.isdisjoint(before):
            return None
        return {key: value for key, value in {**before, **self.labels}.items() if key not in self.removed_labels}


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """A step of an image's making; ``empty_layer`` where it made no layer."""

    created: str = ""
    created_by: str = ""
    comment: str = ""
    empty_layer: bool = False


@dataclass(frozen=True, slots=True)
class ImageConfig:
    """A configuration as OCI image-spec 1.1 and Docker have it. ``raw`` is what was read."""

    raw: bytes = field(repr=False)
    os: str
    architecture: str
    variant: str
    os_version: str
    created: str
    labels: Mapping[str, str] = field(hash=False)
    env: tuple[str, ...]
    entrypoint: tuple[str, ...]
    cmd: tuple[str, ...]
    exposed_ports: tuple[str, ...]
    user: str
    working_dir: str
    diff_ids: tuple[str, ...]
    history: tuple[HistoryEntry, ...]

    @classmethod
    def parse(cls, raw: bytes) -> ImageConfig:
        """Read a configuration; raises InvalidImage and LimitExceeded."""
        fields = Fields.decode(raw, "config", limit=MAX_CONFIG_SIZE)
        settings = fields.nested("config")
        steps = (Fields.of(item, where) for where, item in fields.items("history", limit=_STEPS))
        return cls(
            raw=raw,
            os=fields.text("os", ""),
            architecture=fields.text("architecture", ""),
            variant=fields.text("variant", ""),
            os_version=fields.text("os.version", ""),
            created=fields.text("created", ""),
            labels=settings.text_map("Labels"),
            env=settings.texts("Env"),
            entrypoint=settings.texts("Entrypoint"),
            cmd=settings.texts("Cmd"),
            exposed_ports=tuple(sorted(settings.nested("ExposedPorts").values)),
            user=settings.text("User", ""),
            working_dir=settings.text("WorkingDir", ""),
            diff_ids=tuple(check_digest(diff_id) for diff_id in fields.nested("rootfs").texts("diff_ids")),
            history=tuple(
                HistoryEntry(
                    created=step.text("created", ""),
                    created_by=step.text("created_by", ""),
                    comment=step.text("comment", ""),
                    empty_layer=step.flag("empty_layer"),
                )
                for step in steps
            ),
        )

    @classmethod
    def scratch(cls, platform: Platform) -> ImageConfig:
        """The configuration of an image without layers."""
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
        """What the image satisfies on."""
        return Platform(self.os, self.architecture, self.variant, self.os_version)

    @property
    def digest(self) -> str:
        """The sha256 digest of the bytes."""
        return sha256_digest(self.raw)

    def descriptor(self, manifest_type: str) -> Descriptor:
        """What a manifest of that type says of this configuration."""
        media_type = mediatypes.convert_for(manifest_type, mediatypes.OCI_CONFIG)
        return Descriptor(media_type, self.digest, len(self.raw))

    def changed(
        self, changes: ConfigChanges, diff_ids: Sequence[str] = (), *, created: str = EPOCH, created_by: str = "opmkit"
    ) -> ImageConfig:
        """A new configuration with the changes made and layers on top; a change without layers is an empty step.

        ``created`` is an RFC 3339 time. A history that doesn't match the layers is dropped, as it is optional.
        """
        value = self._json()
        step: dict[str, object] = {"created": created, "created_by": created_by}
        steps = [step for _ in diff_ids] or [step | {"empty_layer": True}]
        value["created"] = created
        value["config"] = changes.apply(Fields(value, "config").nested("config").values, self)
        value["rootfs"] = {"type": "layers", "diff_ids": [*self.diff_ids, *diff_ids]}
        value["history"] = [*self._steps(), *steps] if self._history_fits() else []
        return ImageConfig.parse(dump_json(value))

    def without_layers(self, positions: Collection[int]) -> ImageConfig:
        """The configuration without the layers at these positions, counted from the bottom, and their history."""
        value = self._json()
        kept = [diff_id for position, diff_id in enumerate(self.diff_ids) if position not in positions]
        layer = count()
        steps = [
            raw
            for raw, step in zip(self._steps(), self.history, strict=True)
            if step.empty_layer or next(layer) not in positions
        ]
        value["rootfs"] = {"type": "layers", "diff_ids": kept}
        value["history"] = steps if self._history_fits() else []
        return ImageConfig.parse(dump_json(value))

    def _json(self) -> dict[str, object]:
        return dict(Fields.decode(self.raw, "config", limit=MAX_CONFIG_SIZE).values)

    def _steps(self) -> list[object]:
        return [item for _, item in Fields(self._json(), "config").items("history", limit=_STEPS)]

    def _history_fits(self) -> bool:
        return sum(not step.empty_layer for step in self.history) == len(self.diff_ids)


def _merged_env(base: Sequence[str], changes: Mapping[str, str]) -> list[str]:
    """The base's variables in their order, with those changed replaced in place and new ones after them, by name."""
    names = [variable.partition("=")[0] for variable in base]
    kept = [
        f"{name}={changes[name]}" if name in changes else variable for name, variable in zip(names, base, strict=True)
    ]
    return kept + [f"{name}={value}" for name, value in sorted(changes.items()) if name not in names]
