"""Rules of the validator ``opmkit``: annotations, and content of files that other tools silently ignore."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from opmkit.bundle import labels
from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.validation.cache import each_file
from opmkit.bundle.validation.compat import OPMKIT_ONLY
from opmkit.bundle.validation.rule import rule
from opmkit.documents import yaml_decoder
from opmkit.documents.errors import InvalidDocument

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opmkit.bundle.validation.bundle_view import BundleView, ManifestView


VALIDATOR = "opmkit"
_SHOWN = 1000
"""Maximum characters of the list of channels in a message, as there can be a finding for each channel."""


@rule(
    "ANN-PACKAGE-EMPTY",
    VALIDATOR,
    Severity.ERROR,
    "empty package name",
    hint="Set the annotation to the name of the package.",
    bad=f"annotations: {{{labels.PACKAGE}: ''}}",
    good=f"annotations: {{{labels.PACKAGE}: demo-operator}}",
    compat=OPMKIT_ONLY,
)
def package_empty(bundle: BundleView) -> Iterator[Finding]:
    """Catalogs reject bundles without a package."""
    if bundle.annotations_file and not bundle.annotations.get(labels.PACKAGE, "missing").strip():
        yield _annotation_finding(bundle, labels.PACKAGE, "is empty")


@rule(
    "ANN-DEFAULT-CHANNEL-UNKNOWN",
    VALIDATOR,
    Severity.WARNING,
    "the default channel is not one of the bundle's channels",
    hint="Add the default channel to the channels, or set it to one of them.",
    bad=f"annotations: {{{labels.CHANNELS}: 'alpha,beta', {labels.DEFAULT_CHANNEL}: stable}}",
    good=f"annotations: {{{labels.CHANNELS}: 'alpha,stable', {labels.DEFAULT_CHANNEL}: stable}}",
    compat=OPMKIT_ONLY,
)
def default_channel_unknown(bundle: BundleView) -> Iterator[Finding]:
    """A package whose default channel has no bundle cannot be installed without naming a channel.

    Ignore this warning if another bundle of the package is in the default channel.
    """
    default = bundle.annotations.get(labels.DEFAULT_CHANNEL, "").strip()
    listed = bundle.annotations.get(labels.CHANNELS, "")
    channels = {channel.strip() for channel in listed.split(",")}
    if default and listed and default not in channels:
        yield _annotation_finding(bundle, labels.DEFAULT_CHANNEL, f"is {default!r}, not one of {listed!r}")


@rule(
    "ANN-CHANNELS-ODD",
    VALIDATOR,
    Severity.WARNING,
    "blank or duplicate channel, or a channel with surrounding spaces",
    hint="Separate the channels by commas without spaces: alpha,stable.",
    bad=f"annotations: {{{labels.CHANNELS}: 'alpha, stable,,alpha'}}",
    good=f"annotations: {{{labels.CHANNELS}: 'alpha,stable'}}",
    compat=OPMKIT_ONLY,
)
def channels_odd(bundle: BundleView) -> Iterator[Finding]:
    """Catalogs split the list at commas and keep spaces as part of the channel name."""
    listed = bundle.annotations.get(labels.CHANNELS, "")
    channels = listed.split(",") if listed else []
    shown = listed if len(listed) <= _SHOWN else f"{listed[:_SHOWN]}..."
    counts = Counter(channels)
    odd = {channel for channel, count in counts.items() if channel.strip() != channel or not channel or count > 1}
    for channel in sorted(odd):
        problem = "is listed twice" if counts[channel] > 1 else "is blank or has surrounding spaces"
        yield _annotation_finding(bundle, labels.CHANNELS, f"is {shown!r}: channel {channel!r} {problem}")


@rule(
    "ANN-DIRECTORY-UNKNOWN",
    VALIDATOR,
    Severity.ERROR,
    "a directory of the annotations does not exist",
    hint="Write the directory as it is in the image: manifests/ and metadata/.",
    bad=f"annotations: {{{labels.MANIFESTS}: deploy/}}  # and the files are in manifests/",
    good=f"annotations: {{{labels.MANIFESTS}: manifests/}}",
    compat=OPMKIT_ONLY,
)
def directory_unknown(bundle: BundleView) -> Iterator[Finding]:
    """Clusters unpack an image by its labels; if the manifests are in another directory, none are installed."""
    for key in (labels.MANIFESTS, labels.METADATA):
        value = bundle.annotations.get(key)
        directory = (value or "").strip("/").removeprefix("./")
        if value is not None and directory not in ("", ".") and directory not in bundle.directories:
            yield _annotation_finding(bundle, key, f"is {value!r}, which does not exist in the bundle")


def _annotation_finding(bundle: BundleView, key: str, problem: str) -> Finding:
    file = bundle.annotations_file.path if bundle.annotations_file else ""
    return Finding(f"annotation {key} {problem}", file, ("annotations", key), subject=key)


METADATA_KEYS = ("annotations", "dependencies", "properties")
_SUFFIXES = (".yaml", ".yml", ".json")
_MARKS = {
    b"\xef\xbb\xbf": "UTF-8 with a byte order mark",
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}


def _documents(bundle: BundleView) -> Iterator[ManifestView]:
    """Return the manifests and the metadata files."""
    yield from bundle.manifests
    yield from _metadata(bundle)


def _metadata(bundle: BundleView) -> Iterable[ManifestView]:
    return () if bundle.bare or bundle.manifests_directory == "metadata" else bundle.files_in("metadata")


@rule(
    "YAML-DUPLICATE-KEY",
    VALIDATOR,
    Severity.WARNING,
    "duplicate key in a mapping",
    hint="Keep one of the keys, or merge their content.",
    bad="spec:\n  replaces: demo.v1.2.1\n  version: 1.2.3\n  replaces: demo.v1.2.2",
    good="spec:\n  replaces: demo.v1.2.2\n  version: 1.2.3",
    compat=OPMKIT_ONLY,
)
@each_file(_documents)
def duplicate_key(file: ManifestView) -> Iterator[Finding]:
    """Only the last value is used and the first is silently lost. Other tools reject the file."""
    duplicates = list(file.content.duplicates)
    if file.content.is_json:
        try:
            yaml_decoder.load(file.content.raw, duplicates)
        except InvalidDocument:
            return  # another rule reports JSON that is not valid YAML
    for key, line, column in duplicates:
        yield Finding(f"duplicate key {key!r}", subject=key, line=line, column=column)


@rule(
    "YAML-MORE-DOCUMENTS",
    VALIDATOR,
    Severity.WARNING,
    "several documents in a file",
    hint="Put each document into a separate file.",
    bad="kind: Service\n---\nkind: ConfigMap",
    good="kind: Service",
    compat=OPMKIT_ONLY,
)
@each_file(_documents)
def more_documents(file: ManifestView) -> Iterator[Finding]:
    """Only the first document of a file is read; the others are silently not installed."""
    if file.content.has_more:
        yield Finding("only the first document is read, but the file has more", line=_second_document(file.content.raw))


def _second_document(raw: bytes) -> int:
    """Return the line of the separator before the second document, 1 if it is not found."""
    has_content = False
    for number, line in enumerate(raw.split(b"\n"), 1):
        if line.startswith(b"---") and has_content:
            return number
        has_content = has_content or not line.startswith((b"#", b"---"))
    return 1


@rule(
    "FILE-ENCODING",
    VALIDATOR,
    Severity.WARNING,
    "a file is not plain UTF-8",
    hint="Save it as UTF-8 without a byte order mark.",
    bad="EF BB BF 6B 69 6E 64 3A ... (the mark, then 'kind:')",
    good="6B 69 6E 64 3A ... ('kind:')",
    compat=OPMKIT_ONLY,
)
@each_file(_documents)
def encoding(file: ManifestView) -> Iterator[Finding]:
    """YAML allows UTF-16 and byte order marks, but catalogs store manifests as JSON, which allows neither."""
    encoding = next((name for mark, name in _MARKS.items() if file.content.raw.startswith(mark)), "")
    if encoding:
        yield Finding(f"the file is {encoding}", line=1, subject=encoding)


@rule(
    "META-IGNORED",
    VALIDATOR,
    Severity.WARNING,
    "ignored file in metadata/",
    hint="Use only annotations.yaml, dependencies.yaml and properties.yaml, each with a list or mapping of that name.",
    bad="dependancies: [{type: olm.package, value: {packageName: db, version: '>1.0.0'}}]",
    good="dependencies: [{type: olm.package, value: {packageName: db, version: '>1.0.0'}}]",
    compat=OPMKIT_ONLY,
)
def metadata_ignored(bundle: BundleView) -> Iterator[Finding]:
    """Annotations, dependencies and properties are each read from one file, the first by name. Others are ignored."""
    sources: dict[str, str] = {}
    for file in _metadata(bundle):
        if not file.name.lower().endswith(_SUFFIXES):
            continue
        keys = [key for key in METADATA_KEYS if key in file.object]
        if file.content.error is not None:
            error = file.content.error
            yield Finding(f"cannot read the file: {error.problem}", file.path, line=error.line, column=error.column)
        elif not keys:
            yield Finding(f"the file has none of the keys {', '.join(METADATA_KEYS)}", file.path)
        for key in filter(file.object.get, keys):
            if sources.setdefault(key, file.path) != file.path:
                yield Finding(f"{key} are read from {sources[key]}, not from this file", file.path, (key,), subject=key)
