"""Validate bundles in this process and in worker processes.

As a program, this module is a worker process: it receives a configuration with bundles, and responds with the results.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from concurrent.futures import Future
from functools import cached_property
from typing import TYPE_CHECKING, Self

from msgspec import Struct

from opmkit.bundle.labels import PACKAGE
from opmkit.bundle.validation.result import ValidationResult
from opmkit.core.workers import WorkerPool, WorkerProcess, serve_requests, spare_cpu_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from opmkit.bundle.finding import Finding
    from opmkit.bundle.validation.bundle_view import BundleView
    from opmkit.bundle.validation.compat import Compat, Options
    from opmkit.bundle.validation.platforms import Inspect
    from opmkit.bundle.validation.sources import BundleFiles
    from opmkit.documents.content import ContentCache

MIN_BUNDLES = 8
"""Number of bundles that are validated in less time than a process takes to start."""
_BATCH_SIZE = 8
_MAX_PROCESSES = 8


class NamedBundle(Struct, frozen=True):
    """The files of a bundle to validate, and its name on the command line."""

    target: str
    files: BundleFiles


class ValidatorConfig(Struct, frozen=True):
    """The configuration of a validator.

    Attributes:
        run: Returns the findings for a bundle.
        compat: Program whose results are wanted.
        options: Values for optional validators.
        inspect: Returns the platforms of images; not available in worker processes.
    """

    run: Callable[[BundleView], Iterable[Finding]]
    compat: Compat
    options: Options
    inspect: Inspect | None = None

    def validate(self, bundle: NamedBundle, contents: ContentCache) -> ValidationResult:
        """Validate a bundle."""
        from opmkit.bundle.validation.bundle_view import BundleView  # slow to import: not needed for cached results
        from opmkit.bundle.validation.cross_bundle import ComparedBundle

        files = bundle.files
        view = BundleView(
            bundle.target,
            files.files,
            files.directories,
            files.labels,
            files.bare,
            self.compat,
            self.options,
            contents,
            self.inspect,
            operator=files.operator,
            operator_config=files.operator_config,
        )
        findings = tuple(self.run(view))
        name = view.csv.object_name if view.csv else ""
        package = view.annotations.get(PACKAGE, "")
        summary = ComparedBundle.from_bundle(view)
        view.memo.clear()  # it refers to the view: free the files now, not at the next garbage collection
        return ValidationResult(bundle.target, findings, name, package=package, summary=summary)


class PendingResult:
    """A submitted bundle and its future result."""

    def __init__(self, bundle: NamedBundle) -> None:
        """Create a result that no worker has started with."""
        self.bundle = bundle
        self.future: Future[ValidationResult] = Future()


class ParallelValidator:
    """Validates bundles ahead of the consumer, using the idle CPUs.

    A context manager; leaving it drops pending work. Safe for concurrent use.
    """

    def __init__(self, config: ValidatorConfig, processes: int | None = None) -> None:
        """Prepare a number of worker processes, by default one per spare CPU."""
        count = spare_cpu_count(_MAX_PROCESSES) if processes is None else processes
        self._config = config
        self._lock = threading.Lock()
        self._pending: deque[PendingResult] = deque()
        self._submitted = 0
        self._imports: threading.Thread | None = None
        self._idle = [WorkerProcess(__name__) for _ in range(count)]
        self._threads = WorkerPool(count, "validate") if count > 0 else None

    def prepare(self) -> None:
        """Import the rules in another thread, which takes as long as the requests for an image."""
        with self._lock:
            if self._imports is None:
                self._imports = threading.Thread(target=_import_rules, args=(self._config,), name="import")
                self._imports.start()

    @cached_property
    def _contents(self) -> ContentCache:
        return _new_cache()

    def submit(self, bundle: NamedBundle) -> PendingResult:
        """Validate a bundle when a worker is idle."""
        pending = PendingResult(bundle)
        with self._lock:
            self._pending.append(pending)
            self._submitted += 1
        if self._threads is not None and self._submitted > MIN_BUNDLES:
            with contextlib.suppress(RuntimeError):  # after shutdown
                self._threads.submit(self._validate_batch)
        return pending

    def result(self, pending: PendingResult) -> ValidationResult:
        """Return the result; validate the bundle in this thread unless a worker has started with it."""
        with self._lock:
            mine = pending in self._pending
            if mine:
                self._pending.remove(pending)
        return self._validate(pending.bundle) if mine else pending.future.result()

    def _validate_batch(self) -> None:
        process = self._idle.pop()
        batch = self._take_batch()
        try:
            bundles = [pending.bundle for pending in batch]
            results = (bundles and process.request((self._config, bundles))) or map(self._validate, bundles)
            for pending, result in zip(batch, results, strict=True):
                pending.future.set_result(result)
        except BaseException as error:
            for pending in batch:
                if not pending.future.done():
                    pending.future.set_exception(error)
            raise
        finally:
            self._idle.append(process)

    def _take_batch(self) -> list[PendingResult]:
        """Take the bundles that were submitted last: the consumer is about to validate the earlier ones."""
        with self._lock:
            count = min(_BATCH_SIZE, (len(self._pending) + 1) // 2)
            return [self._pending.pop() for _ in range(count)][::-1]

    def _validate(self, bundle: NamedBundle) -> ValidationResult:
        return self._config.validate(bundle, self._contents)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the worker processes."""
        if self._imports is not None:
            self._imports.join()
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
        for process in self._idle:
            process.stop()


def _import_rules(config: ValidatorConfig) -> None:
    with contextlib.suppress(Exception):  # it is raised again where the rules run
        from opmkit.bundle.validation.bundle_view import BundleView  # noqa: F401
        from opmkit.bundle.validation.run import ProfileValidator

        if isinstance(config.run, ProfileValidator):
            config.run.import_rules(config.compat)


def _new_cache() -> ContentCache:
    from opmkit.documents.content import ContentCache  # slow to import: not needed for cached results

    return ContentCache()


def _request_handler(contents: ContentCache) -> Callable[[tuple[ValidatorConfig, list[NamedBundle]]], object]:
    def handle(request: tuple[ValidatorConfig, list[NamedBundle]]) -> list[ValidationResult]:
        config, bundles = request
        return [config.validate(bundle, contents) for bundle in bundles]

    return handle


if __name__ == "__main__":
    serve_requests(_request_handler(_new_cache()))
