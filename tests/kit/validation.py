"""Bundles as validation looks at them, out of directories, and what the references found in those of the corpora."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from opmkit.bundle.content import ContentCache
from opmkit.bundle.validation.bundle_view import BundleView, Options
from opmkit.bundle.validation.compat import Compat
from opmkit.bundle.validation.rule_registry import validators
from opmkit.bundle.validation.run import run_rules
from tests.kit.shared import SHARED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from opmkit.bundle.finding import Finding

CONTENTS = ContentCache()
"""The contents of all views of this module, so that a test run reads and judges each once."""

RECORDS = {Compat.OPM_1_26: "v1.26.5", Compat.NEWEST: "newest"}
"""The names of the records by the dialect that they are in."""

DOCKERFILES = SHARED / "corpus" / "invalid-api" / "dockerfiles"


def view_of(
    directory: Path,
    layout: str = "bundle",
    compat: Compat = Compat.OPMKIT,
    options: Options = Options(),  # noqa: B008 (it is frozen)
) -> BundleView:
    """A directory of the corpora as a bundle; in any layout but ``bundle`` the directory itself holds the manifests."""
    files, directories = _content_of(directory)
    bare = layout != "bundle"
    return BundleView(directory.name, files, directories, None, bare, compat, options, CONTENTS)


@cache
def _content_of(directory: Path) -> tuple[Mapping[str, bytes], frozenset[str]]:
    """The files and the directories in a directory, by their path in it."""
    paths = {path.relative_to(directory).as_posix(): path for path in sorted(directory.rglob("*"))}
    files = {name: path.read_bytes() for name, path in paths.items() if path.is_file()}
    return files, frozenset(name for name, path in paths.items() if path.is_dir())


def view(files: Mapping[str, str | bytes], compat: Compat = Compat.OPMKIT, **more: Any) -> BundleView:
    """A bundle of the given files; more arguments are fields of `BundleView`."""
    raw = {path: text.encode() if isinstance(text, str) else text for path, text in files.items()}
    parents = {path.rsplit("/", depth)[0] for path in raw for depth in range(1, path.count("/") + 1)}
    return BundleView("demo", raw, frozenset(parents), compat=compat, **more)


def findings(bundle: BundleView, validator: str) -> list[Finding]:
    """What a validator finds."""
    return list(run_rules(bundle, validators().get(validator, ())))


def found(bundle: BundleView, validator: str) -> Counter[tuple[str, str, str]]:
    """What a validator finds, as the records tell it: rule, level and subject."""
    return Counter((one.rule, one.severity.value, one.subject) for one in findings(bundle, validator))


@dataclass(frozen=True)
class Judged:
    """A bundle of the corpora and what a reference found in it."""

    path: str
    directory: Path
    layout: str
    compat: Compat
    findings: tuple[Mapping[str, str], ...]

    def view(self, options: Options = Options()) -> BundleView:  # noqa: B008 (it is frozen)
        """The bundle under the rules of that reference."""
        return view_of(self.directory, self.layout, self.compat, options)

    def expected(self, validator: str, subject: str = "value field") -> Counter[tuple[str, str, str]]:
        """Rule, level and subject of the findings of a validator; the subject is the first there is of those members.

        Crashes of the reference are left out, for the rules name what they should have been.
        """
        return Counter(
            (one["rule"], one["level"], next((one[key] for key in subject.split() if one.get(key)), ""))
            for one in self.findings
            if one["validator"] == validator and one["level"] != "panic"
        )


def deviations(
    bundles: Iterable[Judged], validator: str, subject: str = "value field"
) -> dict[str, dict[tuple[str, str, str], int]]:
    """Where the findings of a validator are not the recorded ones: how many more (or fewer, negative) of each."""
    told = {}
    for one in bundles:
        difference = found(one.view(), validator)
        difference.subtract(one.expected(validator, subject))
        told[one.path] = {finding: number for finding, number in difference.items() if number}
    return {path: difference for path, difference in told.items() if difference}


@cache
def golden_lines(name: str) -> tuple[dict[str, Any], ...]:
    """The lines of a record, such as ``invalid-api.newest``."""
    with gzip.open(SHARED / "golden" / "validate-rules" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return tuple(json.loads(line) for line in lines)


@cache
def judged(compat: Compat, *corpora: str) -> tuple[Judged, ...]:
    """All bundles of the corpora (``bundles`` and ``invalid-api``, unless named) that a reference judged."""
    layouts = {case["name"]: case["layout"] for case in _cases()}
    return tuple(
        Judged(
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
