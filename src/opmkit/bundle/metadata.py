"""The files below ``metadata/``: annotations, dependencies and properties."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.bundle import fields
from opmkit.bundle.document import read_document
from opmkit.bundle.errors import BundleError, InvalidBundle, InvalidDocument
from opmkit.bundle.json_value import UINT64, encode, float_text
from opmkit.bundle.labels import CHANNELS, DEFAULT_CHANNEL, PACKAGE
from opmkit.bundle.model import BundleAnnotations, TypedValue
from opmkit.imagetools.hints import Hint, Operation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opmkit.bundle.document import Document
    from opmkit.bundle.json_value import JsonValue


@dataclass(frozen=True, slots=True)
class Metadata:
    """What the metadata files say, and which of them can't be used and why.

    ``labels`` is all that the annotations file says, and so the labels of the bundle's image.
    """

    annotations: BundleAnnotations
    labels: Mapping[str, str]
    dependencies: tuple[TypedValue, ...]
    properties: tuple[TypedValue, ...]
    warnings: tuple[str, ...]


def read_metadata(files: Mapping[str, bytes]) -> Metadata:
    """Read the files of a metadata directory by their paths; whatever its name, the first that has a part counts.

    Raises:
        InvalidBundle: if none has annotations that say where the bundle belongs.
    """
    labels: Mapping[str, str] = {}
    dependencies: tuple[TypedValue, ...] = ()
    properties: tuple[TypedValue, ...] = ()
    warnings: list[str] = []
    for path in sorted(files):
        try:
            document = read_document(files[path])
            labels = labels or read_labels(document)
            dependencies = dependencies or _typed_values(document, "dependencies", missing="")
            properties = properties or _typed_values(document, "properties", missing="null")
        except InvalidDocument as error:
            warnings.append(f"left out: {error.located(path)}")
        except BundleError as error:
            warnings.append(f"left out: {path}: {error.message}")
    if not labels:
        raise _no_annotations(warnings)
    channels = tuple(labels[CHANNELS].split(",")) if CHANNELS in labels else ()
    annotations = BundleAnnotations(labels.get(PACKAGE, ""), channels, labels.get(DEFAULT_CHANNEL, ""))
    return Metadata(annotations, labels, dependencies, properties, tuple(warnings))


def _no_annotations(warnings: list[str]) -> InvalidBundle:
    found = f" ({'; '.join(warnings)})" if warnings else ""
    return InvalidBundle(
        f"no annotations below metadata/ that name the bundle's package and channels{found}",
        hint=Hint("write metadata/annotations.yaml, for example with {}", Operation.GENERATE_BUNDLE),
    )


def read_labels(document: Document) -> Mapping[str, str]:
    """Give the annotations that an annotations file holds, none if it is another file.

    Raises:
        InvalidBundle: if one that places the bundle is no text.
    """
    members = fields.mapping(document.value, "the document")
    entries = fields.mapping(fields.member(members, "annotations"), "annotations")
    placing = {
        label: _loose_text(fields.member(entries, label), label, document)
        for label in (PACKAGE, CHANNELS, DEFAULT_CHANNEL)
    }
    scalars = {key: value for key, value in entries.items() if isinstance(value, str | int | float)}
    labels = {key: _loose_text(value, key, document) for key, value in scalars.items() if key not in placing}
    placing = {label: value for label, value in placing.items() if value}
    return labels | placing if placing else {}


def _typed_values(document: Document, section: str, *, missing: str) -> tuple[TypedValue, ...]:
    """Give the entries of a list of ``{type, value}``; ``missing`` stands for a value that is not there."""
    members = fields.mapping(document.value, "the document")
    found = []
    for entry in fields.items(fields.member(members, section), section):
        parts = fields.mapping(entry, f"an entry of {section}")
        kind = _loose_text(fields.member(parts, "type"), f"a type in {section}", document)
        has_value = any(key.lower() == "value" for key in parts)
        value = encode(fields.member(parts, "value"), UINT64).decode() if has_value else missing
        found.append(TypedValue(kind, value))
    return tuple(found)


def _loose_text(value: JsonValue, where: str, document: Document) -> str:
    """Give a text; in YAML also a number or boolean where a text belongs, as Kubernetes tools take them."""
    if document.is_json:
        return fields.text(value, where)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return float_text(value)
    return str(value) if isinstance(value, int) else fields.text(value, where)
