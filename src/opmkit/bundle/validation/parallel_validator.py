"""Judging bundles, in this process and in others beside it.

As a program, this module is such another process: it is told how to judge, and some bundles, and answers with verdicts.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from opmkit.bundle.content import ContentCache
from opmkit.bundle.labels import PACKAGE
from opmkit.bundle.validation.bundle_view import BundleView
from opmkit.bundle.validation.result import Verdict
from opmkit.bundle.worker_process import Process, serve, spare_processors
from opmkit.imagetools.workers import WorkerPool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from opmkit.bundle.finding import Finding
    from opmkit.bundle.validation.bundle_view import Options
    from opmkit.bundle.validation.compat import Compat
    from opmkit.bundle.validation.platforms import Inspect
    from opmkit.bundle.validation.sources import BundleFiles

WORTHWHILE = 8
"""Bundles that are judged in less time than a process takes to start."""
_TOGETHER = 8
_MOST = 8


@dataclass(frozen=True, slots=True)
class Case:
    """A bundle to judge, under the name that it was given."""

    target: str
    bundle: BundleFiles


@dataclass(frozen=True, slots=True)
class Judging:
    """How bundles are judged: by ``judge``, in ``compat``, with ``options``.

    ``inspect`` asks for the platforms of images; other processes can't.
    """

    judge: Callable[[BundleView], Iterable[Finding]]
    compat: Compat
    options: Options
    inspect: Inspect | None = None

    def verdict(self, case: Case, contents: ContentCache) -> Verdict:
        """Judge a bundle."""
        bundle = case.bundle
        view = BundleView(
            case.target,
            bundle.files,
            bundle.directories,
            bundle.labels,
            bundle.bare,
            self.compat,
            self.options,
            contents,
            self.inspect,
        )
        findings = tuple(self.judge(view))
        name = view.csv.object_name if view.csv else ""
        return Verdict(case.target, findings, name, view.annotations.get(PACKAGE, ""))


@dataclass(frozen=True, slots=True, eq=False)
class Pending:
    """A case that waits for its verdict."""

    case: Case
    verdict: Future[Verdict] = field(default_factory=Future)


class JudgeAhead:
    """Judges what is going to be asked for, on the processors that are idle else.

    As a context manager; at its end it drops what it has not begun. Safe for several threads.
    """

    def __init__(self, judging: Judging, contents: ContentCache, processes: int | None = None) -> None:
        """Set up for so many processes, by default one for each processor but the one that this process has."""
        count = spare_processors(_MOST) if processes is None else processes
        self._judging = judging
        self._contents = contents
        self._lock = threading.Lock()
        self._waiting: deque[Pending] = deque()
        self._seen = 0
        self._idle = [Process(__name__) for _ in range(count)]
        self._threads = WorkerPool(count, "judge") if count > 0 else None

    def submit(self, case: Case) -> Pending:
        """Judge this when there is time."""
        pending = Pending(case)
        with self._lock:
            self._waiting.append(pending)
            self._seen += 1
        if self._threads is not None and self._seen > WORTHWHILE:
            with contextlib.suppress(RuntimeError):  # it is over
                self._threads.submit(self._judge_elsewhere)
        return pending

    def verdict(self, pending: Pending) -> Verdict:
        """The verdict: judged here and now, unless another process has begun with it."""
        with self._lock:
            mine = pending in self._waiting
            if mine:
                self._waiting.remove(pending)
        return self._judging.verdict(pending.case, self._contents) if mine else pending.verdict.result()

    def _judge_elsewhere(self) -> None:
        process = self._idle.pop()
        taken = self._take()
        try:
            cases = [pending.case for pending in taken]
            verdicts = (cases and process.ask((self._judging, cases))) or map(self._judge_here, cases)
            for pending, verdict in zip(taken, verdicts, strict=True):
                pending.verdict.set_result(verdict)
        except BaseException as error:
            for pending in taken:
                if not pending.verdict.done():
                    pending.verdict.set_exception(error)
            raise
        finally:
            self._idle.append(process)

    def _take(self) -> list[Pending]:
        """Take some that were submitted last: those before them are going to be asked for sooner."""
        with self._lock:
            count = min(_TOGETHER, (len(self._waiting) + 1) // 2)
            return [self._waiting.pop() for _ in range(count)][::-1]

    def _judge_here(self, case: Case) -> Verdict:
        return self._judging.verdict(case, self._contents)

    def __enter__(self) -> Self:
        """The same."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the processes."""
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
        for process in self._idle:
            process.stop()


def _answer(contents: ContentCache) -> Callable[[tuple[Judging, list[Case]]], list[Verdict]]:
    def answer(question: tuple[Judging, list[Case]]) -> list[Verdict]:
        judging, cases = question
        return [judging.verdict(case, contents) for case in cases]

    return answer


if __name__ == "__main__":
    serve(_answer(ContentCache()))
