"""Requirements on indexes that are published: validity, and comparison with a published index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.permissions.kinds import DangerKind, find_unknown_kind
from opmkit.bundle.policy import CATALOG_PROFILES
from opmkit.bundle.validation.openshift import OpenShiftVersion
from opmkit.core.hints import Hint
from opmkit.index.change import Change, ChangeResult, EditResult
from opmkit.index.errors import CatalogError, InvalidCatalog
from opmkit.index.fbc.check.policy import CatalogPolicy
from opmkit.index.fbc.check.published import summarize_published
from opmkit.index.fbc.check.result import ProfiledCatalog, validate
from opmkit.index.fbc.compat import CatalogCompat
from opmkit.index.fbc.csv_metadata import MigrationLevel, migrate
from opmkit.index.fbc.load import LoadResult
from opmkit.index.hint_terms import IndexOperation
from opmkit.index.image.source import IndexSource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from opmkit.bundle.policy import CatalogSettings
    from opmkit.index.fbc.blobs import Blobs
    from opmkit.index.image.source import GetRegistryTool
    from opmkit.index.sqlite import IndexDatabase


@dataclass(frozen=True, slots=True)
class IndexRequirements:
    """Requirements on an index in addition to its validity.

    Attributes:
        openshift_version: OpenShift version that serves the catalog, such as ``4.17``; "" for any.
        require_digests: Whether bundle images must have a digest.
        allowed_registries: Allowed registries, or prefixes, of bundle images; empty for any.
        related_images: Whether to apply both to related images as well.
        against: Published index, whose packages, channels, heads, bundles and upgrade paths must remain; "" for none.
        fragment: Whether the catalog is a part of the published index, so that packages may be missing.
        pull_bundles: Whether CustomResourceDefinitions of new bundles that the catalog does not contain are read from
            the bundle images, and compared with those of the bundles that they replace.
        require_signature: Public key that must have signed the bundle images, or a policy.json; None for none.
        allowed_permissions: Dangerous permissions that new bundles may gain, as ``KIND`` or ``PACKAGE/KIND``, such as
            ``secrets``; None for any. The images of new bundles are read.
        profile: Pipeline whose checks apply in addition: ``konflux`` for its task validate-fbc; "" for none.
    """

    openshift_version: str = ""
    require_digests: bool = False
    allowed_registries: tuple[str, ...] = ()
    related_images: bool = False
    against: str = ""
    fragment: bool = False
    require_signature: Path | str | None = None
    pull_bundles: bool = False
    allowed_permissions: tuple[str, ...] | None = None
    profile: str = ""

    def with_defaults(self, settings: CatalogSettings) -> IndexRequirements:
        """Return the requirements, with the settings of a policy file for those that are not set."""
        against = self.against or settings.against or ""
        allowed = self.allowed_permissions
        return IndexRequirements(
            self.openshift_version or settings.openshift_version or "",
            self.require_digests or bool(settings.require_digests),
            tuple(self.allowed_registries or settings.allowed_registries or ()),
            self.related_images or bool(settings.related_images),
            against,
            self.fragment or bool(against and settings.fragment),
            settings.require_signature if self.require_signature is None else self.require_signature,
            self.pull_bundles,
            settings.allowed_permissions if allowed is None else allowed,
            self.profile or settings.profile or "",
        )

    def policy(self) -> CatalogPolicy:
        """Return the requirements, without the published index and signatures.

        Raises:
            CatalogError: The OpenShift version, a kind of permission or the profile is invalid.
        """
        if self.profile and self.profile not in CATALOG_PROFILES:
            raise CatalogError(f'unknown profile "{self.profile}"', hint=f"use {', '.join(CATALOG_PROFILES)}")
        if not all(self.allowed_registries):
            raise CatalogError("allowed registries: empty name", hint="write the name of a registry, or remove it")
        version = None
        if self.openshift_version:
            try:
                version = OpenShiftVersion.parse(self.openshift_version)
            except ValueError as error:
                raise CatalogError(f"invalid OpenShift version: {error}", hint="pass a version such as 4.17") from error
        unknown = find_unknown_kind(self.allowed_permissions or ())
        if unknown is not None:
            raise CatalogError(
                f'unknown kind of permission "{unknown}"', hint=f"use {', '.join(DangerKind)}, or PACKAGE/KIND"
            )
        return CatalogPolicy(
            version,
            self.require_digests,
            self.allowed_registries,
            self.related_images,
            allowed_permissions=self.allowed_permissions,
        )


def with_published(
    policy: CatalogPolicy, index: str, tool: GetRegistryTool, *, fragment: bool
) -> tuple[CatalogPolicy, tuple[str, ...]]:
    """Return the requirements with a published index, or "" if there is none, and notices about it."""
    if not index:
        return policy, ()
    published = summarize_published(IndexSource.resolve(tool, index).stream_blobs())
    notices = () if published else (f"{index}: the published index has no packages",)
    return replace(policy, published=published, fragment=fragment), notices


def load_with_profile(source: IndexSource, tool: GetRegistryTool, profile: str) -> ProfiledCatalog:
    """Load an index, with the findings of a profile, or "" if there is none.

    Raises:
        CatalogError: The source is not an index, or not one that the profile supports.
        ImageToolsError: The image cannot be read.
    """
    if not profile:
        return ProfiledCatalog(source.load())
    from opmkit.index.image.konflux import load_for_konflux

    return load_for_konflux(source, tool)


class ContentReport(Struct, frozen=True):
    """Numbers of packages, channels and bundles of an index."""

    source: str
    packages: int
    channels: int
    bundles: int

    def lines(self) -> Iterator[str]:
        """Yield the numbers in one line."""
        yield f"{self.source}: packages: {self.packages}, channels: {self.channels}, bundles: {self.bundles}"

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers in JSON types."""
        numbers = {"packages": self.packages, "channels": self.channels, "bundles": self.bundles}
        return {"source": self.source, "content": numbers}


@dataclass(frozen=True, slots=True)
class RequireValid(Change):
    """Validate an index by the rules of the newest release of operator-registry, and leave it as it is.

    Attributes:
        source: Name of the index for messages.
        level: Level that the bundles of a file-based catalog are migrated to.
    """

    source: str
    level: MigrationLevel = MigrationLevel.NONE

    def apply_to_database(self, database: IndexDatabase) -> ChangeResult:
        """Validate the file-based catalog that the database converts to."""
        from opmkit.index.convert.database_blobs import database_to_blobs

        result = self.apply_to_catalog(database_to_blobs(database))
        return ChangeResult(warnings=result.warnings, report=result.report)

    def apply_to_catalog(self, blobs: Blobs) -> EditResult:
        """Validate a file-based catalog."""
        return self.apply_to_loaded(LoadResult(blobs))

    def apply_to_loaded(self, loaded: LoadResult) -> EditResult:
        """Validate a file-based catalog, including the syntax of its documents.

        Raises:
            InvalidCatalog: The catalog is invalid or empty; the error lists all findings with their files and lines.
        """
        result = validate(loaded, CatalogCompat.NEWEST)
        errors = [each for each in result.findings if each.severity is Severity.ERROR or each.rule == "FBC-EMPTY"]
        if errors:
            first, *others = map(_describe, errors)
            hint = next((finding.hint for finding in errors if finding.hint), "")
            default = Hint("list all findings with {}", IndexOperation.VALIDATE_CATALOG)
            raise InvalidCatalog(
                f"{self.source}: invalid catalog: {first}",
                details=[f"  {line}" for line in others],
                hint=hint or default,
            )
        blobs = loaded.blobs
        report = ContentReport(self.source, len(blobs.packages), len(blobs.channels), len(blobs.bundles))
        warnings = [f"{self.source}: {_describe(finding)}" for finding in result.findings]
        return EditResult(migrate(blobs, self.level), warnings=tuple(warnings), report=report)


def _describe(finding: Finding) -> str:
    return f"{finding} [{finding.rule}]"
