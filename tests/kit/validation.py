"""Bundle views, and the recorded findings of Go opm and operator-sdk."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from opmkit.bundle.validation.bundle_view import BundleView
from opmkit.bundle.validation.compat import Compat, Options
from opmkit.bundle.validation.rule_registry import validators
from opmkit.bundle.validation.run import run_rules
from opmkit.documents.content import ContentCache
from tests.kit.shared import SHARED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from opmkit.bundle.finding import Finding

CONTENTS = ContentCache()
"""Contents of all views of directories, so that a test run decodes and checks each file once."""

RECORDS = {Compat.OPM_1_26: "v1.26.5", Compat.NEWEST: "newest"}
"""The names of the records by compatibility mode."""

DOCKERFILES = SHARED / "corpus" / "invalid-api" / "dockerfiles"


@cache
def view_of_directory(
    directory: Path,
    layout: str = "bundle",
    compat: Compat = Compat.OPMKIT,
    options: Options = Options(),  # noqa: B008 (it is frozen)
) -> BundleView:
    """Return a directory as a bundle; in any layout except ``bundle``, it contains the manifests itself."""
    files, directories = _read_directory(directory)
    bare = layout != "bundle"
    return BundleView(directory.name, files, directories, None, bare, compat, options, CONTENTS)


@cache
def _read_directory(directory: Path) -> tuple[Mapping[str, bytes], frozenset[str]]:
    """Return the files and the directories below a directory, by relative path."""
    paths = {path.relative_to(directory).as_posix(): path for path in sorted(directory.rglob("*"))}
    files = {name: path.read_bytes() for name, path in paths.items() if path.is_file()}
    return files, frozenset(name for name, path in paths.items() if path.is_dir())


def view(files: Mapping[str, str | bytes], compat: Compat = Compat.OPMKIT, **more: Any) -> BundleView:
    """Return files as a bundle; more arguments are fields of `BundleView`."""
    raw = {path: text.encode() if isinstance(text, str) else text for path, text in files.items()}
    parents = {path.rsplit("/", depth)[0] for path in raw for depth in range(1, path.count("/") + 1)}
    return BundleView("demo", raw, frozenset(parents), compat=compat, **more)


def findings(bundle: BundleView, validator: str) -> list[Finding]:
    """Run a validator and return its findings."""
    return list(run_rules(bundle, validators().get(validator, ())))


def count_findings(bundle: BundleView, validator: str) -> Counter[tuple[str, str, str]]:
    """Run a validator and count its findings by rule, severity and subject."""
    return Counter((finding.rule, finding.severity.value, finding.subject) for finding in findings(bundle, validator))


@dataclass(frozen=True)
class RecordedBundle:
    """A bundle of the corpora with the findings of a Go program."""

    path: str
    directory: Path
    layout: str
    compat: Compat
    findings: tuple[Mapping[str, str], ...]

    def view(self, options: Options = Options()) -> BundleView:  # noqa: B008 (it is frozen)
        """Return the view of the bundle in the compatibility mode of the record."""
        return view_of_directory(self.directory, self.layout, self.compat, options)

    def expected(self, validator: str, subject: str = "value field") -> Counter[tuple[str, str, str]]:
        """Count the recorded findings of a validator by rule, level and subject.

        The subject is the first of the named members that is set. Crashes are left out; opmkit reports the cause.
        """
        return Counter(
            (finding["rule"], finding["level"], next((finding[key] for key in subject.split() if finding.get(key)), ""))
            for finding in self.findings
            if finding["validator"] == validator and finding["level"] != "panic"
        )


def deviations(
    bundles: Iterable[RecordedBundle], validator: str, subject: str = "value field"
) -> dict[str, dict[tuple[str, str, str], int]]:
    """Return, by path, how many more (or fewer, if negative) findings a validator has than recorded."""
    differences = {}
    for bundle in bundles:
        difference = count_findings(bundle.view(), validator)
        difference.subtract(bundle.expected(validator, subject))
        differences[bundle.path] = {finding: number for finding, number in difference.items() if number}
    return {path: difference for path, difference in differences.items() if difference}


@cache
def golden_lines(name: str) -> tuple[dict[str, Any], ...]:
    """Return the lines of a record such as ``invalid-api.newest``."""
    with gzip.open(SHARED / "golden" / "validate-rules" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return tuple(json.loads(line) for line in lines)


@cache
def recorded_bundles(compat: Compat, *corpora: str) -> tuple[RecordedBundle, ...]:
    """Return the recorded bundles of the named corpora, by default ``bundles`` and ``invalid-api``."""
    layouts = {case["name"]: case["layout"] for case in _cases()}
    return tuple(
        RecordedBundle(
            line["path"],
            SHARED / "corpus" / corpus / line["path"],
            layouts[line["path"]] if corpus == "invalid-api" else "bundle",
            compat,
            tuple(line["findings"]),
        )
        for corpus in corpora or ("bundles", "invalid-api")
        for line in golden_lines(("invalid-api." if corpus == "invalid-api" else "") + RECORDS[compat])
    )


def _cases() -> list[dict[str, str]]:
    cases: list[dict[str, str]] = json.loads((SHARED / "corpus" / "invalid-api" / "cases.json").read_text())
    return cases
