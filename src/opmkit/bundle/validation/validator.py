"""Validating many bundles: what waits for the network waits side by side, and nothing is judged twice."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.bundle.cache import digest_of_files
from opmkit.bundle.content import ContentCache
from opmkit.bundle.validation.cross_bundle import run_cross_bundle_rules
from opmkit.bundle.validation.parallel_validator import Case, JudgeAhead, Judging, Pending
from opmkit.bundle.validation.result import Verdict
from opmkit.bundle.validation.sources import BundleFiles, read_files
from opmkit.imagetools.errors import OpmkitError
from opmkit.imagetools.progress import NO_PROGRESS, Progress
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.workers import WorkerPool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Future

    from opmkit.bundle.finding import Finding
    from opmkit.bundle.validation.cache import VerdictCache
    from opmkit.bundle.validation.rule import Rule
    from opmkit.bundle.validation.sources import Source, Tool

WORKERS = 8
_AHEAD = 4 * WORKERS  # bounds the memory: what was pulled waits here until it is judged


@dataclass(frozen=True)
class Validation:
    """How bundles are validated: as ``judging`` says; ``read`` gives what is looked at.

    ``tool`` gives the tool for images, and is not asked where there are none. ``processes`` is how many others help, by
    default so many as keep all processors busy.
    """

    tool: Tool
    judging: Judging
    read: Callable[[Tool, Source], BundleFiles] = read_files
    cache: VerdictCache | None = None
    processes: int | None = None

    def run(self, sources: Iterable[Source], *, progress: Progress = NO_PROGRESS) -> Iterator[Verdict]:
        """A verdict a source, in their order; one that can't be read is told as such, and the others go on."""
        waiting: deque[tuple[Source, Future[_Pulled]]] = deque()
        pool = WorkerPool(WORKERS, "pull")
        progress.begin("Validating", None, unit="bundles")
        with JudgeAhead(self.judging, ContentCache(), 0 if self.judging.inspect else self.processes) as judges:
            try:
                for source in sources:
                    waiting.append((source, pool.submit(self._pull, source, judges)))
                    if len(waiting) > _AHEAD:
                        yield self._next(waiting, judges, progress)
                while waiting:
                    yield self._next(waiting, judges, progress)
            finally:
                pool.shutdown(wait=True, cancel_futures=True)
                progress.end()

    def _pull(self, source: Source, judges: JudgeAhead) -> _Pulled:
        """What was found out about it before, or its files on their way to a verdict."""
        if isinstance(source.place, Path):
            bundle = self.read(self.tool, source)
            digest = digest_of_files(bundle.files) if self.cache else ""
            return _Pulled(digest, self._known(digest, source) or judges.submit(Case(source.target, bundle)))
        digest = self.tool().digest(source.place) if self.cache else ""
        known = self._known(digest, source)
        if known is not None:
            return _Pulled(digest, known)
        if digest and isinstance(source.place, Reference):  # the tag may be moved in the meantime
            source = replace(source, place=source.place.with_digest(digest))
        return _Pulled(digest, judges.submit(Case(source.target, self.read(self.tool, source))))

    def _known(self, digest: str, source: Source) -> Verdict | None:
        return self.cache.get(digest, source.target) if self.cache and digest else None

    def _next(self, waiting: deque[tuple[Source, Future[_Pulled]]], judges: JudgeAhead, progress: Progress) -> Verdict:
        source, future = waiting.popleft()
        try:
            pulled = future.result()
        except OpmkitError as error:
            verdict = Verdict(source.target, error=error.message, hint=error.hint)
        else:
            verdict = self._verdict(pulled, judges)
        progress.advance(1)
        return verdict

    def _verdict(self, pulled: _Pulled, judges: JudgeAhead) -> Verdict:
        if isinstance(pulled.found, Verdict):
            return pulled.found
        verdict = judges.verdict(pulled.found)
        if self.cache and pulled.digest:
            self.cache.put(pulled.digest, verdict)
        return verdict


def beside_each_other(verdicts: Sequence[Verdict], rules: Iterable[Rule]) -> list[Verdict]:
    """The verdicts, each with what the rules over many bundles find of it."""
    found: dict[str, list[Finding]] = {}
    for summary, finding in run_cross_bundle_rules((one.summary for one in verdicts if one.summary), rules):
        found.setdefault(summary.target, []).append(finding)
    return [replace(one, findings=(*one.findings, *found.get(one.target, ()))) for one in verdicts]


@dataclass(frozen=True, slots=True)
class _Pulled:
    digest: str
    found: Verdict | Pending
