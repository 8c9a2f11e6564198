"""Types of predicates, and predicates from files."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from opmkit.core.errors import LimitExceeded
from opmkit.core.files import disk_errors
from opmkit.imagetools.errors import ImageToolsError, InvalidImage
from opmkit.imagetools.spec.fields import Fields
from opmkit.supply.sign.documents import MAX_ATTESTATION_SIZE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PREDICATE_TYPES: Mapping[str, str] = MappingProxyType(
    {
        "cyclonedx": "https://cyclonedx.org/bom",
        "link": "https://in-toto.io/Link/v1",
        "openvex": "https://openvex.dev/ns",
        "slsaprovenance": "https://slsa.dev/provenance/v0.2",
        "slsaprovenance02": "https://slsa.dev/provenance/v0.2",
        "slsaprovenance1": "https://slsa.dev/provenance/v1",
        "spdxjson": "https://spdx.dev/Document",
        "vuln": "https://cosign.sigstore.dev/attestation/vuln/v1",
    }
)
"""The types that cosign has names for."""


def predicate_type(name: str) -> str:
    """Return the URI of a type of predicate, given its URI or cosign's name for it.

    Raises:
        ImageToolsError: The name is unknown.
    """
    if name in PREDICATE_TYPES:
        return PREDICATE_TYPES[name]
    if ":" in name:
        return name
    raise ImageToolsError(
        f"unknown type of predicate {name!r}", hint=f"use a URI, or one of: {', '.join(PREDICATE_TYPES)}"
    )


def read_predicate(path: Path) -> Mapping[str, object]:
    """Read a predicate from a file with a JSON object.

    Raises:
        DiskError: The file cannot be read.
        ImageToolsError: It does not contain a JSON object.
    """
    with disk_errors(path), path.open("rb") as file:
        content = file.read(MAX_ATTESTATION_SIZE + 1)
    try:
        return Fields.from_json(content, str(path), limit=MAX_ATTESTATION_SIZE).values
    except (InvalidImage, LimitExceeded) as error:
        raise ImageToolsError(error.message, hint="pass a file with a JSON object") from error
