"""Validation of a batch of bundles by a worker."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from opmkit.bundle.validation.cache import ValidationCache
from opmkit.bundle.validation.platforms import find_platforms
from opmkit.bundle.validation.sources import read_files, read_labels
from opmkit.bundle.validation.validator import BundleValidator
from opmkit.imagetools.store.directory import cache_directory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.bundle.validation.parallel_validator import ValidatorConfig
    from opmkit.bundle.validation.result import ValidationResult
    from opmkit.bundle.validation.sources import Source
    from opmkit.imagetools.worker_options import WorkerOptions

CACHE = "verdicts"
"""Name of the cache of results in the embedded image store."""


@dataclass(frozen=True, slots=True)
class ValidationTask:
    """Validates bundles with the tool and the cache of the process that it runs in.

    Attributes:
        worker: How workers access registries.
        config: How to validate a bundle.
        labels_only: Whether only the labels of images are read.
        cache_key: Settings that the results depend on, None to use no cache.
        needs_registries: Whether rules look up platforms in registries.
    """

    worker: WorkerOptions
    config: ValidatorConfig
    labels_only: bool = False
    cache_key: tuple[str, ...] | None = None
    needs_registries: bool = False

    def __call__(self, sources: Sequence[Source]) -> list[ValidationResult]:
        """Return one result per source, in their order."""
        tool = self.worker.tool()
        config = replace(self.config, inspect=partial(find_platforms, tool)) if self.needs_registries else self.config
        cache = None if self.cache_key is None else ValidationCache.open(cache_directory(CACHE), self.cache_key)
        read = read_labels if self.labels_only else read_files
        return list(BundleValidator(lambda: tool, config, read, cache, processes=0).run(sources))
