"""Judging in other processes: the verdicts are those of this one, whatever becomes of the others."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from opmkit.bundle.content import ContentCache
from opmkit.bundle.finding import Finding
from opmkit.bundle.validation import parallel_validator as module
from opmkit.bundle.validation.bundle_view import Options
from opmkit.bundle.validation.compat import Compat
from opmkit.bundle.validation.parallel_validator import Case, JudgeAhead, Judging
from opmkit.bundle.validation.profiles import profile_named
from opmkit.bundle.validation.run import ProfileValidator
from opmkit.bundle.validation.sources import BundleFiles
from tests.kit.broken import BASE
from tests.kit.demo import CSV

if TYPE_CHECKING:
    from opmkit.bundle.validation.bundle_view import BundleView
    from opmkit.bundle.validation.result import Verdict


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WORTHWHILE", 0)


def case(number: int) -> Case:
    """The sound bundle, but for the version that its ClusterServiceVersion tells."""
    raw = BASE[CSV].replace(b"\n  version: ", b"\n  version: %d-" % number)
    assert raw != BASE[CSV]
    directories = frozenset({"manifests", "metadata"})
    return Case(f"bundle {number}", BundleFiles({**BASE, CSV: raw}, directories))


def judged(judging: Judging, cases: list[Case], processes: int) -> list[Verdict]:
    """Their verdicts, asked for when the other processes had the time to begin with the last of them."""
    with JudgeAhead(judging, ContentCache(), processes) as judges:
        waiting = [judges.submit(case) for case in cases]
        if processes:
            assert waiting[-1].verdict.result(60) is not None
        return [judges.verdict(one) for one in waiting]


def where_judged(bundle: BundleView) -> list[Finding]:
    """Find the process that judges; other processes know this by its name."""
    return [Finding(str(os.getpid()), rule="DEMO", validator="demo")]


def test_verdicts_are_the_same_wherever_they_come_from() -> None:
    judging = Judging(ProfileValidator(profile_named("all")), Compat.OPMKIT, Options())
    cases = [case(number) for number in range(20)]
    here = judged(judging, cases, 0)
    assert judged(judging, cases, 2) == here
    assert {finding.rule for verdict in here for finding in verdict.findings} == {"LOAD-CSV-TYPE"}


@pytest.mark.parametrize("program", ["/nonexistent/python", "/bin/false", "/bin/echo", ""])
def test_without_a_usable_process_all_are_judged_here(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", program)
    verdicts = judged(Judging(where_judged, Compat.OPMKIT, Options()), [case(1), case(2)], 1)
    assert {verdict.findings[0].message for verdict in verdicts} == {str(os.getpid())}


def test_what_a_judge_raises_comes_to_who_asks() -> None:
    def broken(bundle: BundleView) -> list[Finding]:
        raise ZeroDivisionError(bundle.name)

    with JudgeAhead(Judging(broken, Compat.OPMKIT, Options()), ContentCache(), 0) as judges:
        pending = judges.submit(case(1))
        with pytest.raises(ZeroDivisionError, match="bundle 1"):
            judges.verdict(pending)


def test_few_bundles_start_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WORTHWHILE", 2)
    monkeypatch.setattr(subprocess, "Popen", None)
    with JudgeAhead(Judging(where_judged, Compat.OPMKIT, Options()), ContentCache(), 1) as judges:
        waiting = [judges.submit(case(number)) for number in range(2)]
        verdicts = [judges.verdict(one) for one in waiting]
    assert [verdict.findings[0].message for verdict in verdicts] == [str(os.getpid())] * 2
