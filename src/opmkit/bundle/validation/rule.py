"""Rules: plain functions that look at a bundle and yield what is wrong, registered by id.

A new rule is one function below :func:`rule` in a module that :mod:`opmkit.bundle.validation.rule_registry` lists, and
one test. Other distributions add rules by an entry point of the group ``opmkit.rules`` that names a module with rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from opmkit.bundle.finding import Severity
    from opmkit.bundle.validation.bundle_view import BundleView

Path: TypeAlias = tuple[str | int, ...]
"""Where a value is in a document: the keys and indexes that lead to it."""


class Dialect(Enum):
    """Whose rules hold: ours, or those of one of the references, with their defects."""

    OPMKIT = "opmkit"
    OPM_1_26 = "opm-1.26"
    NEWEST = "newest"


OURS = frozenset({Dialect.OPMKIT})
RECENT = frozenset({Dialect.OPMKIT, Dialect.NEWEST})
REFERENCES = frozenset({Dialect.OPM_1_26, Dialect.NEWEST})
EVERY = frozenset(Dialect)


@dataclass(frozen=True, slots=True)
class Fault:
    """What a rule found: where, and what is wrong there; all else a rule knows beforehand.

    ``path`` leads from the root of the document in ``file`` to the value at fault, or to what lacks it. ``line`` (from
    1) is for faults that no path leads to. ``severity`` and ``remedy`` stand for the rule's own where they are given.
    """

    message: str
    file: str = ""
    path: Path = ()
    subject: str = ""
    remedy: str = ""
    line: int = 0
    column: int = 0
    severity: Severity | None = None


Check: TypeAlias = "Callable[[BundleView], Iterable[Fault]]"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. ``bad`` is content that breaks it, ``good`` the same content put right; both are for people.

    ``validator`` is the set that it belongs to. It holds in the ``dialects`` alone.
    """

    id: str
    validator: str
    severity: Severity
    summary: str
    remedy: str
    check: Check
    explanation: str = ""
    bad: str = ""
    good: str = ""
    dialects: frozenset[Dialect] = EVERY


def rule(
    rule_id: str,
    validator: str,
    severity: Severity,
    summary: str,
    *,
    remedy: str,
    bad: str = "",
    good: str = "",
    dialects: frozenset[Dialect] = EVERY,
) -> Callable[[Check], Rule]:
    """Make a rule of a function; its docstring explains it at length."""

    def register(check: Check) -> Rule:
        explanation = (check.__doc__ or "").strip()
        return Rule(rule_id, validator, severity, summary, remedy, check, explanation, bad, good, dialects)

    return register
