"""Results of onboarding operators: templates, files, differences and problems, for programs and people."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from opmkit.core.escape import code, table
from opmkit.core.json_types import JsonResult
from opmkit.index.diff.report import diff_as_markdown, diff_as_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from opmkit.index.templates.onboarding.derive import CatalogComparison

COLUMNS = ("Operator", "Status", "Template", "Files", "Versions", "Needs a person")
"""Columns of a table of operators."""


class OnboardingStatus(StrEnum):
    """The status of an operator; the values are for reports."""

    WRITTEN = "written"
    PLANNED = "planned"
    ONBOARDED = "onboarded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class OnboardedTemplate(JsonResult):
    """A template of an operator.

    Attributes:
        name: The name of the file in ``catalog-templates``.
        type: The type: ``basic``, ``semver`` or ``substitutes``.
        catalogs: The catalogs that are rendered from it, such as ``v4.17``.
    """

    name: str
    type: str
    catalogs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OnboardedFile(JsonResult):
    """A file of an operator that is written: its path, whether it is changed, and a unified diff."""

    path: Path
    changed: bool
    diff: str


@dataclass(frozen=True, slots=True)
class CatalogDifference(JsonResult):
    """A catalog whose rendering differs from what is published for its OpenShift version."""

    catalog: str
    comparison: CatalogComparison

    def to_text(self) -> str:
        """Return the difference as lines, in which control characters are escaped."""
        return diff_as_text(self.comparison.diff)


@dataclass(frozen=True, slots=True)
class OnboardedOperator(JsonResult):
    """An operator that was onboarded, or would be.

    Attributes:
        directory: The operator directory.
        package: The package of its bundles.
        status: ``written``, ``planned`` if nothing was to be written, ``onboarded`` if it already had templates, or
            ``failed``.
        templates: The templates.
        versions: The OpenShift versions for which it is published, as ranges of those of the catalogs.
        files: The files that are written; none for operators that are already onboarded.
        differences: The catalogs whose rendering differs from what is published.
        problems: Reasons why a person has to look at the operator.
    """

    directory: Path
    package: str
    status: OnboardingStatus
    templates: tuple[OnboardedTemplate, ...] = ()
    versions: str = ""
    files: tuple[OnboardedFile, ...] = ()
    differences: tuple[CatalogDifference, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def row(self) -> tuple[str, ...]:
        """Return the cells of the operator in a table with the columns `COLUMNS`."""
        types = ", ".join(sorted({template.type for template in self.templates}))
        first, *others = self.problems or ("",)
        problem = f"{first} (and {len(others)} more)" if others else first
        count = str(len(self.templates) or "")
        return self.directory.name, self.status.value, types, count, self.versions, problem


@dataclass(frozen=True, slots=True)
class Onboarding(JsonResult):
    """The result of onboarding: the catalogs by OpenShift version, and the operators."""

    catalogs: tuple[tuple[str, str], ...]
    operators: tuple[OnboardedOperator, ...]

    @property
    def needs_person(self) -> bool:
        """Return whether an operator has problems."""
        return any(operator.problems for operator in self.operators)

    def to_markdown(self) -> str:
        """Return a table of the operators, and sections with the differences of rendered catalogs."""
        return "\n\n".join(self._sections())

    def _sections(self) -> Iterator[str]:
        yield table(COLUMNS, (tuple(map(code, operator.row)) for operator in self.operators))
        for operator in self.operators:
            for difference in operator.differences:
                yield f"## {code(operator.directory.name)} in {code(difference.catalog)}"
                yield diff_as_markdown(difference.comparison.diff)
