"""Options of rendering templates, as values of the public API."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.bundle.validation.openshift import OpenShiftVersion
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.compat import CatalogCompat
from opmkit.index.templates.repository.images import ImageOptions, LockMode
from opmkit.index.templates.repository.plan import DEFAULT_PATH, CatalogPath, FileFormat, PlanOptions
from opmkit.index.templates.repository.run import RunOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from opmkit.core.cache import ResultCache
    from opmkit.imagetools.registry.trust_policy import TrustPolicy
    from opmkit.index.fbc.csv_metadata import MigrationLevel


@dataclass(frozen=True, slots=True)
class TemplateOptions:
    """Options of rendering templates.

    Attributes:
        openshift_versions: OpenShift versions of the catalogs to render, such as ``4.17``; none for all.
        file_format: ``yaml`` or ``json``.
        path: Path of each catalog below the output directory, such as ``{{.Catalog}}/catalog.yaml``; "" for that of the
            command.
        lock: Lock file with the digests of image tags; None for none, so that all tags are resolved.
        lock_mode: ``use`` to resolve the tags that the lock file lacks, ``update`` to resolve all tags again, or
            ``frozen`` to fail for tags that it lacks.
        update_images: Images to resolve again, even if they are locked.
        offline: Whether registries must not be accessed: tags must be locked, and bundles cached.
        pin: Whether catalogs refer to bundle images by digest.
        validate: Whether to raise an error for invalid catalogs.
        level: Level to which the bundles of all catalogs are migrated; None for that of their OpenShift version.
        compat: Release of Go opm whose format is used.
        warn: Called with each warning about a bundle.
    """

    openshift_versions: tuple[str, ...] = ()
    file_format: str = "yaml"
    path: str = ""
    lock: Path | None = Path("catalog.lock")
    lock_mode: str = "use"
    update_images: frozenset[str] = frozenset()
    offline: bool = False
    pin: bool = False
    validate: bool = True
    level: MigrationLevel | None = None
    compat: CatalogCompat = CatalogCompat.NEWEST
    warn: Callable[[str], None] = lambda _: None

    def run_options(
        self, output: Path, cache: ResultCache | None, policy: TrustPolicy | None = None, *, check: bool
    ) -> RunOptions:
        """Return the options of a run.

        Raises:
            CatalogError: A version or the path is invalid.
            ValueError: The format or mode is unknown, or options exclude each other.
        """
        mode = LockMode(self.lock_mode)
        if self.lock is None and (self.update_images or mode is not LockMode.USE):
            raise ValueError("the mode of the lock file and images to update require a lock file")
        if (self.update_images or mode is LockMode.UPDATE) and (self.offline or mode is LockMode.FROZEN):
            raise ValueError("images cannot be updated offline, or with a frozen lock file")
        plan = PlanOptions(
            output,
            tuple(map(_parse_version, self.openshift_versions)),
            self.level,
            FileFormat(self.file_format),
            CatalogPath.parse(self.path) if self.path else DEFAULT_PATH,
            self.compat,
        )
        images = ImageOptions(
            mode, frozenset(self.update_images), self.offline, self.pin, cache, self.warn, self.compat, policy
        )
        return RunOptions(plan, images, self.lock, self.validate, check)


def _parse_version(text: str) -> OpenShiftVersion:
    try:
        return OpenShiftVersion.parse(text)
    except ValueError as error:
        raise CatalogError(f"invalid OpenShift version: {error}", hint="pass a version such as 4.17") from error
