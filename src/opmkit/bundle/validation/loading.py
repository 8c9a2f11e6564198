"""Loading of a bundle's manifests into the types of their API.

The Go tools load the directory of each ClusterServiceVersion that they find, and stop at the first error that they
cannot skip. Outside compatibility modes, all errors are reported.
"""

from __future__ import annotations

import math
import posixpath
import re
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from msgspec import Struct, structs

from opmkit.bundle.api_types.decode import CRDS, CSV, OBJECT, Decoded, DecodeMode, Tables, decode_cached
from opmkit.bundle.finding import Finding
from opmkit.bundle.kinds import CRD_KIND, CSV_KIND
from opmkit.bundle.validation.compat import Compat
from opmkit.bundle.validation.object_metadata import Gvk
from opmkit.documents import yaml_decoder
from opmkit.documents.content import Content
from opmkit.documents.errors import InvalidDocument
from opmkit.documents.fields import describe, format_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opmkit.bundle.api_types.decode import TypeMismatch
    from opmkit.bundle.validation.bundle_view import BundleView, ManifestView
    from opmkit.documents.json_value import JsonValue


NO_FILES = "FMT-EMPTY-MANIFESTS"
NO_CSV = "LOAD-NO-CSV"
NO_BUNDLE = "LOAD-NO-BUNDLE"
NO_BUNDLE_CSV = "LOAD-NO-BUNDLE-CSV"
SEVERAL_CSVS = "LOAD-MULTIPLE-CSV"
SUBDIRECTORY = "LOAD-SUBDIR"
HIDDEN = "LOAD-HIDDEN-FILE"
UNDECODABLE = "LOAD-DECODE"
CSV_TYPE = "LOAD-CSV-TYPE"
CRD_TYPE = "LOAD-CRD-TYPE"
CRD_VERSION = "LOAD-CRD-APIVERSION"
ANNOTATIONS = "LOAD-ANNOTATIONS"

_LOOKS_LIKE_CSV = re.compile(rb"""^\s*["']?kind["']?\s*:\s*["']?ClusterServiceVersion\b""", re.MULTILINE)


def load_findings(bundle: BundleView, rule_id: str) -> Iterator[Finding]:
    """Yield the findings of one rule; the bundle is loaded once for all of them."""
    return (finding for finding in _load(bundle) if finding.rule == rule_id)


def is_loaded(bundle: BundleView) -> bool:
    """Return whether the bundle loads without findings."""
    return not _load(bundle)


def _load(bundle: BundleView) -> tuple[Finding, ...]:
    if _load not in bundle.memo:
        load = _load_all if bundle.compat is Compat.OPMKIT else _load_as_go
        bundle.memo[_load] = tuple(load(bundle))
    return cast("tuple[Finding, ...]", bundle.memo[_load])


def type_findings(file: ManifestView, decoded: Decoded) -> Iterator[Finding]:
    """Yield a finding for each value of the wrong type."""
    return (type_finding(file, mismatch) for mismatch in decoded.mismatches)


def type_finding(file: ManifestView, mismatch: TypeMismatch) -> Finding:
    """Return the finding for a value of the wrong type."""
    message = f"{format_path(mismatch.path)} {mismatch.problem}"
    return Finding(message, file.path, mismatch.path, hint=mismatch.hint)


def subdirectories(bundle: BundleView, directory: str) -> Iterator[Finding]:
    """Yield a finding for each directory in a directory of manifests."""
    for path in sorted(bundle.directories):
        if path and posixpath.dirname(path) == directory:
            yield Finding(f"{path} is a directory; manifests in it are ignored", path, rule=SUBDIRECTORY)


def no_csv(directory: str, files: Sequence[ManifestView]) -> Iterator[Finding]:
    """Yield a finding if no file is a ClusterServiceVersion, or looks like one that cannot be decoded."""
    undecodable = [file for file in files if decode_finding(file)]
    has_csv = any(file.kind == CSV_KIND for file in files if file not in undecodable)
    if not has_csv and not any(_LOOKS_LIKE_CSV.search(file.content.raw) for file in undecodable):
        yield _no_csv(directory)


def version_finding(file: ManifestView) -> Finding | None:
    """Return a finding if a CustomResourceDefinition has an unknown version."""
    if file.api_version in CRDS:
        return None
    message = f"unsupported apiVersion {file.api_version!r}, not one of {', '.join(CRDS)}"
    return Finding(message, file.path, ("apiVersion",), rule=CRD_VERSION)


class _Directory(Struct, frozen=True):
    """A directory with manifests."""

    bundle: BundleView
    path: str

    @property
    def files(self) -> list[ManifestView]:
        """The files that are not hidden, as the loader decodes them."""
        below = self.bundle.files_in(self.path)
        return [decode_as_go(file, self.bundle.compat) for file in below if not file.name.startswith(".")]

    def entry_findings(self) -> Iterator[Finding]:
        """Yield the findings that loading can skip: subdirectories, hidden files, undecodable files."""
        yield from subdirectories(self.bundle, self.path)
        for file in self.bundle.files_in(self.path):
            if file.name.startswith("."):
                yield Finding(f"{file.name} is a hidden file, not a manifest", file.path, rule=HIDDEN)
        for file in self.files:
            if finding := decode_finding(file):
                yield replace(finding, rule=UNDECODABLE)


def _load_all(bundle: BundleView) -> Iterator[Finding]:
    """Yield all findings of the manifests directory and of the directories with a ClusterServiceVersion."""
    top = _Directory(bundle, bundle.manifests_directory)
    if not any(bundle.files_in(top.path)):
        yield _no_files(top.path)
        return
    csvs = list(_csvs(bundle))
    paths = sorted({posixpath.dirname(csv.path) for csv in csvs} | {top.path})
    for directory in (_Directory(bundle, path) for path in paths):
        yield from directory.entry_findings()
        for file in directory.files:
            yield from _type_findings(file, bundle.compat)
    yield from _annotations(bundle)
    for csv in csvs[1:]:
        yield _second_csv(csv, csvs[0])
    if not csvs:
        yield from no_csv(top.path, top.files)


def _type_findings(file: ManifestView, compat: Compat) -> Iterator[Finding]:
    if decode_finding(file):
        return
    if file.kind == CSV_KIND:
        for finding in type_findings(file, decode_csv(file.content, compat)):
            yield replace(finding, rule=CSV_TYPE)
    elif file.kind == CRD_KIND:
        if version := version_finding(file):
            yield version
        for finding in type_findings(file, decode_crd(file, compat, DecodeMode.YAML)):
            yield replace(finding, rule=CRD_TYPE)


def _load_as_go(bundle: BundleView) -> Iterator[Finding]:
    """Yield the findings that the Go tools report, with those that follow from them."""
    top = bundle.manifests_directory
    if not any(bundle.files_in(top)):
        yield _no_files(top)
        return
    yield from _annotations(bundle)
    csvs, loaded = list(_csvs(bundle)), False
    for csv in csvs:
        directory = _Directory(bundle, posixpath.dirname(csv.path))
        fatal = _fatal(directory)
        if fatal is not None:
            yield fatal
            message = "the bundle of this ClusterServiceVersion was not loaded because of another error"
            yield Finding(message, csv.path, rule=NO_BUNDLE_CSV)
            continue
        loaded = True
        # the Go tools join the errors of a directory into one, which the first determines
        first = {finding.rule: finding for finding in reversed(list(directory.entry_findings()))}
        yield from [first[rule_id] for rule_id in (SUBDIRECTORY, HIDDEN, UNDECODABLE) if rule_id in first][:1]
    if not csvs:
        yield _no_csv(top)
    elif not loaded:
        yield Finding(f"no bundle could be loaded from {top or 'the directory'}", csvs[0].path, rule=NO_BUNDLE)


def _fatal(directory: _Directory) -> Finding | None:
    """Return the finding that ends the loading of a directory."""
    first = None
    compat = directory.bundle.compat
    for file in directory.files:
        if decode_finding(file):
            continue
        if file.kind == CSV_KIND and first is not None:
            return _second_csv(file, first)
        if file.kind == CSV_KIND:
            first = file
        for finding in _type_findings(file, compat):
            return finding
    return None


def _csvs(bundle: BundleView) -> Iterator[ManifestView]:
    """Yield the ClusterServiceVersions at any depth, except in hidden directories."""
    top = bundle.manifests_directory
    for file in bundle.files_in(top, recursive=True):
        parts = file.path.removeprefix(f"{top}/" if top else "").split("/")
        if not any(part.startswith(".") for part in parts) and file.kind == CSV_KIND and decode_finding(file) is None:
            yield file


def _annotations(bundle: BundleView) -> Iterator[Finding]:
    for file in bundle.files_in(bundle.manifests_directory, recursive=True):
        error = file.content.error
        if file.name.startswith("annotations") and error is not None:
            message = f"invalid annotations file: {error.problem}"
            yield Finding(message, file.path, line=error.line, column=error.column, rule=ANNOTATIONS)


def _second_csv(csv: ManifestView, first: ManifestView) -> Finding:
    message = f"{csv.path} and {first.path} are both ClusterServiceVersions; a bundle has exactly one"
    return Finding(message, csv.path, ("kind",), rule=SEVERAL_CSVS)


def _no_files(path: str) -> Finding:
    return Finding(f"the directory {path or 'of the manifests'} has no files", rule=NO_FILES)


def _no_csv(path: str) -> Finding:
    return Finding(f"no file in {path or 'the directory'} is a ClusterServiceVersion", rule=NO_CSV)


def decode_csv(content: Content, compat: Compat, mode: DecodeMode | None = None) -> Decoded:
    """Decode a ClusterServiceVersion; by default as the loader of the Go release does."""
    if mode is None:
        mode = DecodeMode.JSON if content.is_json and compat is Compat.OPM_1_26 else DecodeMode.YAML
    return decode_cached(content.memo, content.value, CSV, mode, _tables(compat))


def decode_crd(file: ManifestView, compat: Compat, mode: DecodeMode) -> Decoded:
    """Decode a CustomResourceDefinition; one with an unknown apiVersion has no fields and no mismatches."""
    struct = CRDS.get(file.api_version)
    content = file.content
    return decode_cached(content.memo, content.value, struct, mode, _tables(compat)) if struct else Decoded({})


def decode_object(file: ManifestView, mode: DecodeMode) -> Decoded:
    """Decode what all objects have: kind, apiVersion and metadata."""
    return decode_cached(file.content.memo, file.content.value, OBJECT, mode)


def _tables(compat: Compat) -> Tables:
    return Tables.OPM_1_26 if compat is Compat.OPM_1_26 else Tables.NEWEST


_INF_OR_NAN = re.compile(rb"\.(?:[iI][nN][fF]|[nN][aA][nN])")  # five times as fast as with IGNORECASE
_NOT_EMPTY = re.compile(rb"^(?!---\s*$).", re.MULTILINE | re.DOTALL)


def decode_finding(manifest: ManifestView) -> Finding | None:
    """Return a finding if the file does not contain an object.

    A document that is null or has only comments counts as an object without a kind.
    """
    if (finding := read_finding(manifest)) or manifest.content.value is None:
        return finding
    memo = manifest.content.memo
    if _problem not in memo:
        memo[_problem] = _problem(manifest)
    problem = memo[_problem]
    return Finding(f"the file {problem}", manifest.path) if problem else None


def read_finding(manifest: ManifestView) -> Finding | None:
    """Return a finding if the file contains neither a mapping nor null."""
    content = manifest.content
    if content.error is not None:
        error = content.error
        message = f"invalid YAML or JSON: {error.problem}"
        return Finding(message, manifest.path, line=error.line, column=error.column)
    if content.value is None and not _NOT_EMPTY.search(content.raw):
        return Finding("the file is empty", manifest.path)
    if not isinstance(content.value, dict | None):
        return Finding(f"the file is {describe(content.value)}, not an object", manifest.path)
    return None


def _problem(manifest: ManifestView) -> str:
    if not manifest.kind:
        return "has no kind"
    if _INF_OR_NAN.search(manifest.content.raw) and not all(map(math.isfinite, _floats(manifest.content.value))):
        return "has a number that is infinite or NaN"
    if Gvk.parse(manifest.api_version, manifest.kind) is None:
        return f"has the apiVersion {manifest.api_version!r}, which has more than one slash"
    return ""


def _floats(value: JsonValue) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, dict | list):
        for member in value.values() if isinstance(value, dict) else value:
            yield from _floats(member)


def decode_as_go(manifest: ManifestView, compat: Compat) -> ManifestView:
    """Return the file as the Go loader decodes it; that of the newest release decodes JSON as YAML."""
    content = manifest.content
    if compat is not Compat.NEWEST or content.error is None or not content.raw.lstrip().startswith(b"{"):
        return manifest
    if "as_yaml" not in content.memo:
        content.memo["as_yaml"] = _as_yaml(content)
    as_yaml = content.memo["as_yaml"]
    return structs.replace(manifest, content=as_yaml) if isinstance(as_yaml, Content) else manifest


def _as_yaml(content: Content) -> Content:
    try:
        return Content(content.raw, yaml_decoder.load(content.raw))
    except (InvalidDocument, RecursionError):
        return content
