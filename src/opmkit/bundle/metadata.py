"""Parse the files in ``metadata/``: annotations, dependencies and properties."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.bundle.errors import BundleError, InvalidBundle
from opmkit.bundle.hint_terms import BundleOperation
from opmkit.bundle.labels import CHANNELS, DEFAULT_CHANNEL, PACKAGE
from opmkit.bundle.model import BundleAnnotations, TypedValue
from opmkit.core.hints import Hint
from opmkit.documents import fields
from opmkit.documents.document import read_document
from opmkit.documents.errors import DocumentError, InvalidDocument
from opmkit.documents.json_value import UINT64, encode, float_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opmkit.documents.document import FirstDocument
    from opmkit.documents.json_value import JsonValue


class Metadata(Struct, frozen=True):
    """Content of the metadata files.

    Attributes:
        annotations: Package and channels of the bundle.
        labels: All annotations, which are also the labels of the bundle's image.
        dependencies: Entries of the dependencies file.
        properties: Entries of the properties file.
        warnings: Files that were ignored, and why.
    """

    annotations: BundleAnnotations
    labels: Mapping[str, str]
    dependencies: tuple[TypedValue, ...]
    properties: tuple[TypedValue, ...]
    warnings: tuple[str, ...]


def read_metadata(files: Mapping[str, bytes]) -> Metadata:
    """Parse the files of a metadata directory, given by their paths.

    Annotations, dependencies and properties are each taken from the first file that has them; file names do not matter.

    Raises:
        InvalidBundle: No file has annotations for the package and channels.
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
            warnings.append(f"ignored {error.located(path)}")
        except (BundleError, DocumentError) as error:
            warnings.append(f"ignored {path}: {error.message}")
    if not labels:
        raise _no_annotations(warnings)
    channels = tuple(labels[CHANNELS].split(",")) if CHANNELS in labels else ()
    annotations = BundleAnnotations(labels.get(PACKAGE, ""), channels, labels.get(DEFAULT_CHANNEL, ""))
    return Metadata(annotations, labels, dependencies, properties, tuple(warnings))


def _no_annotations(warnings: list[str]) -> InvalidBundle:
    ignored = f" ({'; '.join(warnings)})" if warnings else ""
    return InvalidBundle(
        f"no annotations for the package and channels found in metadata/{ignored}",
        hint=Hint("write metadata/annotations.yaml, for example with {}", BundleOperation.GENERATE_BUNDLE),
    )


def read_labels(document: FirstDocument) -> Mapping[str, str]:
    """Return the annotations in a metadata file, empty if it is not an annotations file.

    Raises:
        InvalidBundle: The package, the channels or the default channel is not a string.
    """
    members = fields.mapping(document.value, "the document")
    entries = fields.mapping(fields.member(members, "annotations"), "annotations")
    required = {
        label: _to_text(fields.member(entries, label), label, document)
        for label in (PACKAGE, CHANNELS, DEFAULT_CHANNEL)
    }
    scalars = {key: value for key, value in entries.items() if isinstance(value, str | int | float)}
    labels = {key: _to_text(value, key, document) for key, value in scalars.items() if key not in required}
    required = {label: value for label, value in required.items() if value}
    return labels | required if required else {}


def _typed_values(document: FirstDocument, section: str, *, missing: str) -> tuple[TypedValue, ...]:
    """Return the entries of a list of ``{type, value}``, with ``missing`` for absent values."""
    members = fields.mapping(document.value, "the document")
    entries = []
    for entry in fields.items(fields.member(members, section), section):
        parts = fields.mapping(entry, f"an entry of {section}")
        kind = _to_text(fields.member(parts, "type"), f"a type in {section}", document)
        has_value = any(key.lower() == "value" for key in parts)
        value = encode(fields.member(parts, "value"), UINT64).decode() if has_value else missing
        entries.append(TypedValue(kind, value))
    return tuple(entries)


def _to_text(value: JsonValue, where: str, document: FirstDocument) -> str:
    """Return a string; in YAML, convert numbers and booleans as Kubernetes tools do."""
    if document.is_json:
        return fields.text(value, where)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return float_text(value)
    return str(value) if isinstance(value, int) else fields.text(value, where)
