"""Content digests, descriptors and platforms of OCI image-spec 1.1."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.imagetools.architecture import host_architecture
from opmkit.imagetools.errors import InvalidImage, InvalidReference
from opmkit.imagetools.spec.fields import Fields, invalid_field

if TYPE_CHECKING:
    from collections.abc import Mapping
    from hashlib import _Hash


_DEFAULT_VARIANTS = {("arm64", "v8"), ("amd64", "v1")}


@dataclass(frozen=True, slots=True)
class Platform:
    """An operating system and CPU architecture with Go's names, such as ``linux/amd64`` or ``linux/arm/v7``."""

    os: str
    architecture: str
    variant: str = ""
    os_version: str = ""
    os_features: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Platform:
        """Parse OS/ARCHITECTURE[/VARIANT].

        Raises:
            InvalidReference: The text has another form.
        """
        os, _, rest = text.partition("/")
        architecture, slash, variant = rest.partition("/")
        if not os or not architecture or bool(slash) != bool(variant) or "/" in variant:
            raise InvalidReference(
                f"invalid platform {text!r}", hint="write OS/ARCHITECTURE[/VARIANT], such as linux/arm64"
            )
        return cls(os, architecture, variant)

    @classmethod
    def from_host(cls) -> Platform:
        """Return Linux on this machine's architecture."""
        return cls("linux", host_architecture())

    @classmethod
    def from_fields(cls, fields: Fields) -> Platform:
        """Parse the ``platform`` object of a descriptor; raises InvalidImage."""
        return cls(
            os=fields.string("os", ""),
            architecture=fields.string("architecture", ""),
            variant=fields.string("variant", ""),
            os_version=fields.string("os.version", ""),
            os_features=fields.strings("os.features"),
        )

    def to_json(self) -> dict[str, object]:
        """Return the ``platform`` object of a descriptor."""
        value: dict[str, object] = {"architecture": self.architecture, "os": self.os}
        optional = {"variant": self.variant, "os.version": self.os_version, "os.features": list(self.os_features)}
        return value | {key: item for key, item in optional.items() if item}

    def satisfies(self, wanted: Platform) -> bool:
        """Return whether an image for this platform is one for ``wanted``. A missing variant there matches any."""
        if (self.os, self.architecture) != (wanted.os, wanted.architecture):
            return False
        return not wanted.variant or self._normalized_variant() == wanted._normalized_variant()

    def _normalized_variant(self) -> str:
        return "" if (self.architecture, self.variant) in _DEFAULT_VARIANTS else self.variant

    def __str__(self) -> str:
        """Return OS/ARCHITECTURE[/VARIANT]."""
        return "/".join(part for part in (self.os, self.architecture, self.variant) if part)


class Descriptor(Struct, frozen=True):
    """Media type, digest and size in bytes of a blob or manifest, with the optional descriptor fields."""

    media_type: str
    digest: str
    size: int
    platform: Platform | None = None
    annotations: Mapping[str, str] = {}
    urls: tuple[str, ...] = ()
    artifact_type: str = ""
    data: str = ""

    def __hash__(self) -> int:
        """Return the hash of the digest."""
        return hash(self.digest)

    @property
    def is_for_unknown_platform(self) -> bool:
        """Whether the platform is ``unknown/unknown``, by which build tools mark what is not an image."""
        return self.platform is not None and self.platform.os == self.platform.architecture == "unknown"

    @classmethod
    def from_json(cls, value: object, path: str = "descriptor") -> Descriptor:
        """Parse a decoded JSON object; ``path`` is its position in the document, for errors.

        Raises:
            InvalidImage: A field is missing or invalid.
        """
        fields = Fields.from_value(value, path)
        digest = fields.string("digest")
        if not is_digest(digest):
            raise invalid_field(f"{path}.digest", "a sha256, sha384 or sha512 digest", digest)
        return cls(
            media_type=fields.string("mediaType"),
            digest=digest,
            size=fields.integer("size"),
            platform=None if fields.get("platform") is None else Platform.from_fields(fields.nested("platform")),
            annotations=fields.string_map("annotations"),
            urls=fields.strings("urls"),
            artifact_type=fields.string("artifactType", ""),
            data=fields.string("data", ""),
        )

    def to_json(self) -> dict[str, object]:
        """Return the JSON object, without the fields that are empty."""
        value: dict[str, object] = {"mediaType": self.media_type, "digest": self.digest, "size": self.size}
        optional: dict[str, object] = {
            "platform": None if self.platform is None else self.platform.to_json(),
            "annotations": dict(self.annotations),
            "urls": list(self.urls),
            "artifactType": self.artifact_type,
            "data": self.data,
        }
        return value | {key: item for key, item in optional.items() if item}


_DIGEST = re.compile(r"sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128}")


def is_digest(text: str) -> bool:
    """Return whether the text is a sha256, sha384 or sha512 digest."""
    return _DIGEST.fullmatch(text) is not None


def check_digest(text: str) -> str:
    """Return the text unchanged.

    Raises:
        InvalidImage: The text is not a valid digest.
    """
    if not is_digest(text):
        raise InvalidImage(
            f"invalid digest {text[:200]!r}", hint="a digest is 'sha256:' and 64 lower-case hexadecimal digits"
        )
    return text


def sha256_digest(data: bytes) -> str:
    """Return the digest of ``data`` as ``sha256:<hex>``."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def new_hash(digest: str) -> _Hash:
    """Return a new hash object for the algorithm of ``digest``."""
    return hashlib.new(check_digest(digest).partition(":")[0])
