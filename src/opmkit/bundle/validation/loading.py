"""The loading of a bundle: what keeps its files from being read into objects of their types.

The references load the directory of each ClusterServiceVersion that they come upon, and give up at the first fault that
they can't pass over. Our own dialect tells all that is wrong there at once.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, cast

from opmkit.bundle.api_types.decode import format_path
from opmkit.bundle.api_types.scalars import DecodeMode
from opmkit.bundle.api_types.tables import CRDS
from opmkit.bundle.validation.bundle_view import CRD_KIND, CSV_KIND
from opmkit.bundle.validation.decode import as_loaded, decode_fault
from opmkit.bundle.validation.rule import Dialect, Fault
from opmkit.bundle.validation.typed_manifests import decode_crd, decode_csv

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opmkit.bundle.api_types.decode import Decoded, TypeMismatch
    from opmkit.bundle.validation.bundle_view import BundleView, Manifest

    Told: TypeAlias = tuple[str, Fault]
    """The id of a rule, and a fault that it is to tell."""

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


def load_faults(bundle: BundleView, rule_id: str) -> Iterator[Fault]:
    """What a rule is to tell of the loading of a bundle; it is loaded once for all of them."""
    return (fault for told, fault in _load(bundle) if told == rule_id)


def is_loaded(bundle: BundleView) -> bool:
    """Whether a bundle can be loaded."""
    return not _load(bundle)


def _load(bundle: BundleView) -> tuple[Told, ...]:
    if _load not in bundle.memo:
        ours = bundle.dialect is Dialect.OPMKIT
        bundle.memo[_load] = tuple(_all_at_once(bundle) if ours else _one_by_one(bundle))
    return cast("tuple[Told, ...]", bundle.memo[_load])


def type_faults(file: Manifest, decoded: Decoded) -> Iterator[Fault]:
    """The fields of wrong types."""
    return (type_fault(file, fault) for fault in decoded.mismatches)


def type_fault(file: Manifest, fault: TypeMismatch) -> Fault:
    """Tell of a field with a wrong type."""
    return Fault(f"{format_path(fault.path)} {fault.problem}", file.path, fault.path, remedy=fault.hint)


def subdirectories(bundle: BundleView, directory: str) -> Iterator[Fault]:
    """The directories in a directory of manifests."""
    for path in sorted(bundle.directories):
        if path and posixpath.dirname(path) == directory:
            yield Fault(f"{path} is a directory, but manifests are not looked for there", path)


def no_csv(directory: str, files: Sequence[Manifest]) -> Iterator[Fault]:
    """Tell that no file is a ClusterServiceVersion, unless one looks like it that can't be read, which is told too."""
    unreadable = [file for file in files if decode_fault(file)]
    has_csv = any(file.kind == CSV_KIND for file in files if file not in unreadable)
    if not has_csv and not any(_LOOKS_LIKE_CSV.search(file.content.raw) for file in unreadable):
        yield _no_csv(directory)


def version_fault(file: Manifest) -> Fault | None:
    """What is wrong with the version of a CustomResourceDefinition."""
    if file.api_version in CRDS:
        return None
    told = f"the apiVersion is {file.api_version!r}, neither of {' and '.join(CRDS)}"
    return Fault(told, file.path, ("apiVersion",))


@dataclass(frozen=True)
class _Directory:
    """A directory with manifests."""

    bundle: BundleView
    path: str

    @property
    def files(self) -> list[Manifest]:
        """The files that are not hidden, as they are loaded."""
        below = self.bundle.below(self.path)
        return [as_loaded(file, self.bundle.dialect) for file in below if not file.name.startswith(".")]

    def entries(self) -> Iterator[Told]:
        """What is wrong with the entries by themselves: in order, the faults that loading can pass over."""
        for fault in subdirectories(self.bundle, self.path):
            yield SUBDIRECTORY, fault
        for file in self.bundle.below(self.path):
            if file.name.startswith("."):
                yield HIDDEN, Fault(f"{file.name} is a hidden file, which is no manifest", file.path)
        for file in self.files:
            if undecodable := decode_fault(file):
                yield UNDECODABLE, undecodable


def _all_at_once(bundle: BundleView) -> Iterator[Told]:
    """All faults, of the directories with a ClusterServiceVersion, or of that of the manifests if there is none."""
    top = _Directory(bundle, bundle.manifests_directory)
    if not any(bundle.below(top.path)):
        yield NO_FILES, _no_files(top.path)
        return
    csvs = list(_csvs(bundle))
    paths = sorted({posixpath.dirname(csv.path) for csv in csvs} | {top.path})
    for directory in (_Directory(bundle, path) for path in paths):
        yield from directory.entries()
        for file in directory.files:
            yield from _typed(file, bundle.dialect)
    yield from _annotations(bundle)
    for csv in csvs[1:]:
        told = f"{csv.path} is a ClusterServiceVersion, as {csvs[0].path} is, but a bundle has one alone"
        yield SEVERAL_CSVS, Fault(told, csv.path, ("kind",))
    if not csvs:
        yield from ((NO_CSV, fault) for fault in no_csv(top.path, top.files))


def _typed(file: Manifest, dialect: Dialect) -> Iterator[Told]:
    if decode_fault(file):
        return
    if file.kind == CSV_KIND:
        yield from ((CSV_TYPE, fault) for fault in type_faults(file, decode_csv(file.content, dialect)))
    elif file.kind == CRD_KIND:
        if fault := version_fault(file):
            yield CRD_VERSION, fault
        yield from ((CRD_TYPE, fault) for fault in type_faults(file, decode_crd(file, dialect, DecodeMode.YAML)))


def _one_by_one(bundle: BundleView) -> Iterator[Told]:
    """The faults as the references come upon them, with those that follow from them."""
    top = bundle.manifests_directory
    if not any(bundle.below(top)):
        yield NO_FILES, _no_files(top)
        return
    yield from _annotations(bundle)
    csvs, loaded = list(_csvs(bundle)), False
    for csv in csvs:
        directory = _Directory(bundle, posixpath.dirname(csv.path))
        fatal = _fatal(directory)
        if fatal is not None:
            yield fatal
            told = "nothing could be loaded beside it, for a fault that is told elsewhere"
            yield NO_BUNDLE_CSV, Fault(told, csv.path)
            continue
        loaded = True
        # the references tell the faults of a directory in one error
        told_first = {rule_id: (rule_id, fault) for rule_id, fault in reversed(list(directory.entries()))}
        yield from [told_first[key] for key in (SUBDIRECTORY, HIDDEN, UNDECODABLE) if key in told_first][:1]
    if not csvs:
        yield NO_CSV, _no_csv(top)
    elif not loaded:
        yield NO_BUNDLE, Fault(f"no bundle could be loaded from {top or 'the directory'}", csvs[0].path)


def _fatal(directory: _Directory) -> Told | None:
    """The fault that ends the loading of a directory."""
    first = None
    dialect = directory.bundle.dialect
    for file in directory.files:
        if decode_fault(file):
            continue
        if file.kind == CSV_KIND and first is not None:
            told = f"{file.path} is a ClusterServiceVersion, as {first.path} is, but a bundle has one alone"
            return SEVERAL_CSVS, Fault(told, file.path, ("kind",))
        if file.kind == CSV_KIND:
            first = file
        for told_fault in _typed(file, dialect):
            return told_fault
    return None


def _csvs(bundle: BundleView) -> Iterator[Manifest]:
    """The ClusterServiceVersions at any depth, but not in hidden directories."""
    top = bundle.manifests_directory
    for file in bundle.below(top, deep=True):
        parts = file.path.removeprefix(f"{top}/" if top else "").split("/")
        if not any(part.startswith(".") for part in parts) and file.kind == CSV_KIND and decode_fault(file) is None:
            yield file


def _annotations(bundle: BundleView) -> Iterator[Told]:
    for file in bundle.below(bundle.manifests_directory, deep=True):
        error = file.content.error
        if file.name.startswith("annotations") and error is not None:
            told = f"the annotations can't be read: {error.problem}"
            yield ANNOTATIONS, Fault(told, file.path, line=error.line, column=error.column)


def _no_files(path: str) -> Fault:
    return Fault(f"the directory {path or 'of the manifests'} has no files")


def _no_csv(path: str) -> Fault:
    return Fault(f"no file in {path or 'the directory'} is a ClusterServiceVersion")
