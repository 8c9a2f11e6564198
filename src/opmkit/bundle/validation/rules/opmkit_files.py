"""Our own rules for the files of a bundle: what in them is passed over without a word."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle import go_yaml
from opmkit.bundle.errors import InvalidDocument
from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.validation.compat import OPMKIT_ONLY
from opmkit.bundle.validation.per_file import each_file
from opmkit.bundle.validation.rule import rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opmkit.bundle.validation.bundle_view import BundleView, Manifest

VALIDATOR = "opmkit"
METADATA_KEYS = ("annotations", "dependencies", "properties")
_SUFFIXES = (".yaml", ".yml", ".json")
_MARKS = {
    b"\xef\xbb\xbf": "UTF-8 with a byte order mark",
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}


def _documents(bundle: BundleView) -> Iterator[Manifest]:
    """The manifests and the files of the metadata."""
    yield from bundle.manifests
    yield from _metadata(bundle)


def _metadata(bundle: BundleView) -> Iterable[Manifest]:
    return () if bundle.bare or bundle.manifests_directory == "metadata" else bundle.below("metadata")


@rule(
    "YAML-DUPLICATE-KEY",
    VALIDATOR,
    Severity.WARNING,
    "a mapping has the same key twice",
    hint="Keep one of the two, or put their content together.",
    bad="spec:\n  replaces: demo.v1.2.1\n  version: 1.2.3\n  replaces: demo.v1.2.2",
    good="spec:\n  replaces: demo.v1.2.2\n  version: 1.2.3",
    compat=OPMKIT_ONLY,
)
@each_file(_documents)
def duplicate_key(file: Manifest) -> Iterator[Finding]:
    """The last one counts, without a word: what stands below the first is lost. Other tools refuse the file."""
    duplicates = list(file.content.duplicates)
    if file.content.is_json:
        try:
            go_yaml.load(file.content.raw, duplicates)
        except InvalidDocument:
            return  # JSON that is no YAML has its faults told elsewhere
    for key, line, column in duplicates:
        yield Finding(f"the key {key!r} is in its mapping before already", subject=key, line=line, column=column)


@rule(
    "YAML-MORE-DOCUMENTS",
    VALIDATOR,
    Severity.WARNING,
    "a file has several documents",
    hint="Put each document into a file of its own.",
    bad="kind: Service\n---\nkind: ConfigMap",
    good="kind: Service",
    compat=OPMKIT_ONLY,
)
@each_file(_documents)
def more_documents(file: Manifest) -> Iterator[Finding]:
    """Only the first document of a file counts; what follows is not installed, and nobody says so."""
    if file.content.more:
        yield Finding("only the first document counts, but others follow it", line=_second_document(file.content.raw))


def _second_document(raw: bytes) -> int:
    """The line of the separator before the second document, 1 if that is not to be told."""
    seen = False
    for number, line in enumerate(raw.split(b"\n"), 1):
        if line.startswith(b"---") and seen:
            return number
        seen = seen or not line.startswith((b"#", b"---"))
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
def encoding(file: Manifest) -> Iterator[Finding]:
    """YAML allows UTF-16 and byte order marks, but a catalog keeps manifests as JSON, which allows neither."""
    mark = next((told for mark, told in _MARKS.items() if file.content.raw.startswith(mark)), "")
    if mark:
        yield Finding(f"the file is {mark}", line=1, subject=mark)


@rule(
    "META-IGNORED",
    VALIDATOR,
    Severity.WARNING,
    "a file in metadata/ is passed over",
    hint="Keep annotations.yaml, dependencies.yaml and properties.yaml, each with a list or mapping of that name.",
    bad="dependancies: [{type: olm.package, value: {packageName: db, version: '>1.0.0'}}]",
    good="dependencies: [{type: olm.package, value: {packageName: db, version: '>1.0.0'}}]",
    compat=OPMKIT_ONLY,
)
def metadata_ignored(bundle: BundleView) -> Iterator[Finding]:
    """Annotations, dependencies and properties are each taken from one file, the first by name. All else is lost."""
    taken: dict[str, str] = {}
    for file in _metadata(bundle):
        if not file.name.lower().endswith(_SUFFIXES):
            continue
        keys = [key for key in METADATA_KEYS if key in file.object]
        if file.content.error is not None:
            error = file.content.error
            yield Finding(f"the file can't be read: {error.problem}", file.path, line=error.line, column=error.column)
        elif not keys:
            yield Finding(f"the file has none of {', '.join(METADATA_KEYS)}", file.path)
        for key in filter(file.object.get, keys):
            if taken.setdefault(key, file.path) != file.path:
                yield Finding(f"{key} are taken from {taken[key]}, not from here", file.path, (key,), subject=key)
