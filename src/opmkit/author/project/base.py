"""Bases of ClusterServiceVersions: the manually written part, from which the one of each bundle is generated."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opmkit.author.project.edit import replace_owned_crds
from opmkit.author.project.located import LocatedValue
from opmkit.author.project.names import display_name
from opmkit.bundle.api_types.encode import encode_struct
from opmkit.bundle.api_types.tables import CSV
from opmkit.bundle.errors import InvalidProject
from opmkit.bundle.kinds import CSV_KIND
from opmkit.core.files import disk_errors
from opmkit.documents.document import MAX_BYTES
from opmkit.documents.document_stream import read_documents
from opmkit.documents.errors import InvalidDocument
from opmkit.documents.yaml_writer import dump_yaml

if TYPE_CHECKING:
    from opmkit.documents.json_value import JsonValue

_NOT_A_NEWLINE = re.compile(rb"[^\n]")
_START = re.compile(rb"\s*---[^\n]*")
_INSTALL_MODES = {"OwnNamespace": False, "SingleNamespace": False, "MultiNamespace": False, "AllNamespaces": True}


@dataclass(frozen=True, slots=True)
class Maintainer:
    """A maintainer of an operator."""

    name: str
    email: str


@dataclass(frozen=True, slots=True)
class UserInterfaceMetadata:
    """Fields for user interfaces, which cannot be inferred from a project."""

    display_name: str
    description: str
    provider_name: str
    provider_url: str
    keywords: tuple[str, ...]
    maintainers: tuple[Maintainer, ...]


def new_base(name: str) -> dict[str, Any]:
    """Return the base of a new operator, with placeholders for the fields to fill in."""
    title = display_name(name)
    return {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": CSV_KIND,
        "metadata": {
            "annotations": {"alm-examples": "[]", "capabilities": "Basic Install"},
            "name": f"{name}.v0.0.0",
            "namespace": "placeholder",
        },
        "spec": {
            "description": f"{title} description. TODO.",  # the placeholder of operator-sdk, for authors to replace
            "displayName": title,
            "icon": [{"base64data": "", "mediatype": ""}],
            "installModes": [{"supported": supported, "type": mode} for mode, supported in _INSTALL_MODES.items()],
            "keywords": [name],
            "links": [{"name": title, "url": f"https://{name}.domain"}],
            "maintainers": [{"email": "your@email.com", "name": "Maintainer Name"}],
            "maturity": "alpha",
            "provider": {"name": "Provider Name", "url": "https://your.domain"},
        },
    }


def read_base(file: Path) -> dict[str, Any]:
    """Return the ClusterServiceVersion in a file, as `parse_base` does. Raises DiskError if it cannot be read."""
    return parse_base(file, read_file(file))


def read_file(file: Path) -> bytes:
    """Return the content of a file.

    Raises:
        InvalidProject: if it is too large.
        DiskError: if it cannot be read.
    """
    with disk_errors(file), file.open("rb") as stream:
        raw = stream.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise InvalidProject(f"{file}: exceeds the limit of {MAX_BYTES} bytes per file")
    return raw


def parse_base(file: Path, raw: bytes) -> dict[str, Any]:
    """Return the ClusterServiceVersion in the bytes of a file; required fields that it lacks are added.

    Raises:
        InvalidProject: if there is none, or one with fields of the wrong type; the message contains the line.
    """
    root = _find_csv(file, raw)
    encoded = encode_struct(root.value, CSV)
    for field in encoded.mismatches:
        location = LocatedValue(file, root.content, None, field.path)
        raise location.error(field.problem, hint=field.hint or "correct the value")
    return encoded.value


def replace_placeholder(csv: dict[str, Any], operator: str) -> None:
    """Replace the name ``OPERATOR.vX.Y.Z`` of old bases, which is not valid, by one with the version."""
    if csv["metadata"].get("name") == f"{operator}.vX.Y.Z":
        csv["metadata"]["name"] = f"{operator}.v{csv['spec'].get('version') or '0.0.0'}"


def apply_metadata(csv: dict[str, Any], metadata: UserInterfaceMetadata) -> None:
    """Replace the fields for user interfaces."""
    provider = {"name": metadata.provider_name, "url": metadata.provider_url}
    csv["spec"] |= {
        "displayName": metadata.display_name,
        "description": metadata.description,
        "provider": {name: value for name, value in provider.items() if value},
        "keywords": list(metadata.keywords),
        "maintainers": [{"email": person.email, "name": person.name} for person in metadata.maintainers],
    }


def owned_crds(csv: dict[str, Any]) -> list[JsonValue]:
    """Return the owned CRDs of a ClusterServiceVersion."""
    definitions = csv["spec"].get("customresourcedefinitions") or {}
    return list(definitions.get("owned") or ())


def set_owned_crds(csv: dict[str, Any], owned: list[JsonValue]) -> None:
    """Replace the owned CRDs."""
    csv["spec"]["customresourcedefinitions"] = {**(csv["spec"].get("customresourcedefinitions") or {}), "owned": owned}


def encode_base(csv: dict[str, Any]) -> bytes:
    """Return the ClusterServiceVersion as operator-sdk writes it: without status, with all required fields."""
    value = encode_struct(csv, CSV).value
    value.pop("status", None)
    value["metadata"].pop("creationTimestamp", None)
    if value["spec"].get("cleanup") == {"enabled": False}:
        del value["spec"]["cleanup"]
    return dump_yaml(value)


def update_base(raw: bytes, csv: dict[str, Any]) -> bytes:
    """Return a file with the ClusterServiceVersion in place of its previous one.

    If at most the owned CRDs differ, comments and formatting are retained, unless those are operator-sdk's.
    """
    encoded = encode_base(csv)
    if _encode(raw) == raw:
        return encoded
    edited = replace_owned_crds(raw, owned_crds(csv))
    return next((text for text in (raw, edited) if text and _encode(text) == encoded), encoded)


def _encode(raw: bytes) -> bytes:
    """Return the encoded ClusterServiceVersion in a file, b"" if there is none."""
    try:
        return encode_base(parse_base(Path(), raw))
    except InvalidProject:
        return b""


def _find_csv(file: Path, raw: bytes) -> LocatedValue:
    """Return the first ClusterServiceVersion in a file."""
    for document in read_documents(raw):
        if isinstance(document, InvalidDocument):
            raise InvalidProject(document.located(str(file)), hint="correct the YAML")
        if isinstance(document.value, dict) and document.value.get("kind") == CSV_KIND:
            start = document.start
            if match := _START.match(raw, start):
                start = match.end()
            before = _NOT_A_NEWLINE.sub(b"", raw[:start])  # retains the line numbers
            return LocatedValue.parse(file, before + raw[start : document.end])
    raise InvalidProject(f"{file}: no {CSV_KIND} found", hint="correct the file, or remove it to generate a new one")
