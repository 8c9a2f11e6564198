"""Descriptors (what a blob is, how long, and its digest) and platforms, as in OCI image-spec 1.1."""

from __future__ import annotations

import platform as host
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opmkit.imagetools.errors import InvalidReference
from opmkit.imagetools.spec.digests import is_digest
from opmkit.imagetools.spec.fields import Fields, invalid

if TYPE_CHECKING:
    from collections.abc import Mapping

_MACHINES = {
    "x86_64": "amd64",
    "aarch64": "arm64",
    "armv6l": "arm",
    "armv7l": "arm",
    "i386": "386",
    "i686": "386",
    "loongarch64": "loong64",
}
_DEFAULT_VARIANTS = {("arm64", "v8"), ("amd64", "v1")}


@dataclass(frozen=True, slots=True)
class Platform:
    """What an image satisfies on, in Go's names: ``linux/amd64``, ``linux/arm/v7``."""

    os: str
    architecture: str
    variant: str = ""
    os_version: str = ""
    os_features: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Platform:
        """Read OS/ARCHITECTURE[/VARIANT]; raises InvalidReference."""
        os, _, rest = text.partition("/")
        architecture, slash, variant = rest.partition("/")
        if not os or not architecture or bool(slash) != bool(variant) or "/" in variant:
            raise InvalidReference(
                f"{text!r} is no platform", advice="write OS/ARCHITECTURE[/VARIANT], such as linux/arm64"
            )
        return cls(os, architecture, variant)

    @classmethod
    def from_host(cls) -> Platform:
        """Linux on this machine's architecture."""
        machine = host.machine().lower()
        return cls("linux", _MACHINES.get(machine, machine))

    @classmethod
    def from_fields(cls, fields: Fields) -> Platform:
        """Read the ``platform`` object of a descriptor; raises InvalidImage."""
        return cls(
            os=fields.text("os", ""),
            architecture=fields.text("architecture", ""),
            variant=fields.text("variant", ""),
            os_version=fields.text("os.version", ""),
            os_features=fields.texts("os.features"),
        )

    def to_json(self) -> dict[str, object]:
        """The ``platform`` object of a descriptor."""
        value: dict[str, object] = {"architecture": self.architecture, "os": self.os}
        optional = {"variant": self.variant, "os.version": self.os_version, "os.features": list(self.os_features)}
        return value | {key: item for key, item in optional.items() if item}

    def satisfies(self, wanted: Platform) -> bool:
        """Whether an image for this platform is one for ``wanted``, whose variant counts only where it is set."""
        if (self.os, self.architecture) != (wanted.os, wanted.architecture):
            return False
        return not wanted.variant or self._variant() == wanted._variant()

    def _variant(self) -> str:
        return "" if (self.architecture, self.variant) in _DEFAULT_VARIANTS else self.variant

    def __str__(self) -> str:
        """OS/ARCHITECTURE[/VARIANT]."""
        return "/".join(part for part in (self.os, self.architecture, self.variant) if part)


@dataclass(frozen=True, slots=True)
class Descriptor:
    """What a blob is: media type, digest, size in bytes, and what an index or manifest says of it beside."""

    media_type: str
    digest: str
    size: int
    platform: Platform | None = None
    annotations: Mapping[str, str] = field(default_factory=dict, hash=False)
    urls: tuple[str, ...] = ()
    artifact_type: str = ""
    data: str = ""

    @classmethod
    def from_json(cls, value: object, where: str = "descriptor") -> Descriptor:
        """Read a JSON object; ``where`` names it in the InvalidImage that a bad one raises."""
        fields = Fields.of(value, where)
        digest = fields.text("digest")
        if not is_digest(digest):
            raise invalid(f"{where}.digest", "a sha256, sha384 or sha512 digest", digest)
        return cls(
            media_type=fields.text("mediaType"),
            digest=digest,
            size=fields.integer("size"),
            platform=None if fields.get("platform") is None else Platform.from_fields(fields.nested("platform")),
            annotations=fields.text_map("annotations"),
            urls=fields.texts("urls"),
            artifact_type=fields.text("artifactType", ""),
            data=fields.text("data", ""),
        )

    def to_json(self) -> dict[str, object]:
        """The JSON object; absent parts are left out."""
        value: dict[str, object] = {"mediaType": self.media_type, "digest": self.digest, "size": self.size}
        optional: dict[str, object] = {
            "platform": None if self.platform is None else self.platform.to_json(),
            "annotations": dict(self.annotations),
            "urls": list(self.urls),
            "artifactType": self.artifact_type,
            "data": self.data,
        }
        return value | {key: item for key, item in optional.items() if item}
