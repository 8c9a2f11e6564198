"""Onboard operator directories: read the published catalogs one after the other, then write the files of operators."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.bundle import labels
from opmkit.bundle.generate import read_annotations
from opmkit.bundle.validation.openshift import OpenShiftVersion
from opmkit.bundle.validation.operator_directory import (
    REPOSITORY_CONFIG,
    bundle_directories,
    operator_directories,
)
from opmkit.core.errors import OpmkitError
from opmkit.core.files import disk_errors
from opmkit.core.hints import Hint
from opmkit.core.locks import locked_directory
from opmkit.core.progress import NO_PROGRESS, Progress
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.packages import select_packages
from opmkit.index.hint_terms import IndexSetting
from opmkit.index.image.source import INDEXES
from opmkit.index.render import RenderOptions, render
from opmkit.index.suggestions import shorten
from opmkit.index.templates.ci_config import TEMPLATES, read_catalog_mapping
from opmkit.index.templates.document import TemplateFile
from opmkit.index.templates.onboarding.derive import (
    check_template,
    derive_template,
    format_versions,
    plan_templates,
)
from opmkit.index.templates.onboarding.files import config_name, plan_files, write_onboarding
from opmkit.index.templates.onboarding.result import (
    CatalogDifference,
    OnboardedFile,
    OnboardedOperator,
    OnboardedTemplate,
    Onboarding,
    OnboardingStatus,
)
from opmkit.index.templates.repository.plan import PlanOptions, version_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.index.fbc.blobs import Blobs
    from opmkit.index.fbc.csv_metadata import MigrationLevel
    from opmkit.index.image.source import GetRegistryTool
    from opmkit.index.templates.ci_config import CatalogMapping
    from opmkit.index.templates.onboarding.derive import CatalogComparison, DerivedTemplate
    from opmkit.index.templates.renderer import BundleRenderer

CATALOGS = "../../catalogs"
"""Directory of a repository with the rendered catalogs by OpenShift version, relative to an operator directory."""


@dataclass(frozen=True, slots=True)
class OnboardingOptions:
    """Options of onboarding operators to file-based catalogs.

    Attributes:
        catalogs: The published catalogs: ``[v4.20=]INDEX``, an index image, catalog directory or database file. The
            version can be omitted if the name contains it. By default, they are the index images in the ``config.yaml``
            of the repository, for the versions in its directory ``catalogs``.
        per_version: Whether to write a template for each OpenShift version, even if they are equal.
        force: Whether to onboard operators again that already have templates, and replace their files.
        check: Whether to render the templates from the bundle images and compare them with the published catalogs.
            Nothing is written.
        dry_run: Whether to write nothing.
    """

    catalogs: tuple[str, ...] = ()
    per_version: bool = False
    force: bool = False
    check: bool = False
    dry_run: bool = False


def onboard(
    tool: GetRegistryTool,
    path: Path,
    options: OnboardingOptions,
    render_bundles: BundleRenderer,
    *,
    progress: Progress = NO_PROGRESS,
) -> Onboarding:
    """Onboard an operator directory, or the operators of a repository; see `OnboardingOptions`.

    Only one catalog is in memory at a time. An error of one operator is one of its problems.

    Raises:
        CatalogError: The path has no operators, or a catalog is invalid or has no OpenShift version.
        ImageToolsError: A catalog cannot be read.
        DiskError: The directory or a catalog cannot be read.
    """
    with disk_errors(path):
        directories = operator_directories(path)
    if not directories:
        kind = "not an operator directory, or a repository with the directory operators"
        reason = kind if path.is_dir() else "not a directory"
        raise CatalogError(f"{path}: {reason}", hint="pass a directory with ci.yaml or bundle directories")
    catalogs = parse_catalogs(options.catalogs) or default_catalogs(directories[0])
    runs = [_OperatorRun(directory, options, tuple(sorted(catalogs)), render_bundles) for directory in directories]
    for run in runs:
        with run.collect_problems():
            run.prepare()
    _report_shared_packages(runs)
    for run in runs:
        run.is_blocked = bool(run.problems)
    packages = {run.package for run in runs}
    for version in sorted(catalogs):
        blobs = render(tool, [catalogs[version]], RenderOptions(kinds=INDEXES), progress=progress)
        published = select_packages(blobs, packages)
        del blobs
        for run in runs:
            if any(published[run.package]):
                with run.collect_problems(f"v{version}: "):
                    run.add(version, published[run.package])
    names = tuple((f"v{version}", catalogs[version]) for version in sorted(catalogs))
    return Onboarding(names, tuple(run.finish() for run in runs))


def parse_catalogs(texts: Sequence[str]) -> dict[OpenShiftVersion, str]:
    """Return the catalogs ``[VERSION=]INDEX`` by OpenShift version.

    Raises:
        CatalogError: A catalog has no version, or two have the same.
    """
    catalogs: dict[OpenShiftVersion, str] = {}
    for text in texts:
        prefix, separator, index = text.partition("=")
        try:
            version: OpenShiftVersion | None = OpenShiftVersion.parse(prefix) if separator else None
        except ValueError:
            version = None
        name = text if version is None else index
        version = version or version_in(Path(text).name) or version_in(text.rpartition(":")[2])
        if version is None or not name:
            raise CatalogError(
                f"{text}: no OpenShift version", hint=f"write it before the name: v4.20={name or 'INDEX'}"
            )
        if version in catalogs:
            raise CatalogError(
                f"{text}: {catalogs[version]} is also the catalog of v{version}", hint="pass one catalog per version"
            )
        catalogs[version] = name
    return catalogs


def default_catalogs(operator: Path) -> dict[OpenShiftVersion, str]:
    """Return the index images in the configuration of the repository, for the versions in its directory of catalogs.

    Raises:
        CatalogError: The repository has no configuration with an index image, or no catalogs.
        InvalidCatalog: The configuration is invalid; the error lists all findings.
        DiskError: A file cannot be read.
    """
    root, config = operator.absolute(), (operator / REPOSITORY_CONFIG).absolute()
    hint = Hint("pass the published catalogs with {}", IndexSetting.FROM)
    if not config.is_file():
        raise CatalogError(f"{operator}: no published catalogs, and no {REPOSITORY_CONFIG}", hint=hint)
    file = TemplateFile.open(config)
    images = file.mapping("Write index_image: {public_repository_mirror: REPOSITORY}.").mapping("index_image")
    file.raise_findings()
    image = (images.string("public_repository_mirror") or images.string("repository")) if images else ""
    file.raise_findings()
    with disk_errors(root / CATALOGS):
        directories = sorted((root / CATALOGS).glob("v*/"))
    versions = [version for directory in directories if (version := version_in(directory.name))]
    if not image or not versions:
        missing = "no versions in the directory catalogs" if image else "no index_image"
        raise CatalogError(f"{config}: {missing}", hint=hint)
    return {version: f"{image}:v{version}" for version in versions}


def _report_shared_packages(runs: Sequence[_OperatorRun]) -> None:
    counts = Counter(run.package for run in runs)
    for run in runs:
        if counts[run.package] > 1:
            others = (other.directory.name for other in runs if other.package == run.package and other is not run)
            run.problems.append(f"package {run.package} also belongs to {shorten(sorted(others))}")


def _level(version: OpenShiftVersion) -> MigrationLevel:
    """Return the level to which bundles in the catalogs of an OpenShift version are migrated."""
    return PlanOptions(Path()).level_of(version)


class _ProblemCollector(Struct):
    """A context manager that adds the message of an error to a list instead of raising it."""

    problems: list[str]
    prefix: str = ""

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> bool:
        """Suppress an error of opmkit."""
        if isinstance(error, OpmkitError):
            hint = str(error.hint).removesuffix(".")
            self.problems.append(f"{self.prefix}{error.lines[0]}" + (f" ({hint})" if hint else ""))
            return True
        return False


class _OperatorRun(Struct):
    """The onboarding of one operator."""

    directory: Path
    options: OnboardingOptions
    catalogs: tuple[OpenShiftVersion, ...]
    render: BundleRenderer
    package: str = ""
    mapping: CatalogMapping | None = None
    derived: dict[OpenShiftVersion, DerivedTemplate] = {}
    published: list[OpenShiftVersion] = []
    differences: list[CatalogDifference] = []
    problems: list[str] = []
    is_blocked: bool = False

    def collect_problems(self, prefix: str = "") -> _ProblemCollector:
        return _ProblemCollector(self.problems, prefix)

    @property
    def is_onboarded(self) -> bool:
        """Return whether the operator has templates that are to be retained."""
        return bool(self.mapping and self.mapping.enabled and self.mapping.templates) and not self.options.force

    def prepare(self) -> None:
        """Read the package of the bundles, and the mapping of catalogs."""
        self.package = self.directory.resolve().name
        with disk_errors(self.directory):
            bundles = bundle_directories(self.directory)
        annotations = (read_annotations(bundle / "metadata" / "annotations.yaml") or {} for bundle in bundles)
        packages = sorted({name for values in annotations if (name := values.get(labels.PACKAGE, ""))})
        if packages:
            self.package = packages[0]
        if len(packages) > 1:
            raise CatalogError(
                f"the bundles belong to several packages: {shorten(packages)}", hint="move each to its own directory"
            )
        config = self.directory / config_name(self.directory)
        if config.is_file():
            self.mapping = read_catalog_mapping(config)

    def add(self, version: OpenShiftVersion, published: Blobs) -> None:
        """Add what is published for an OpenShift version; nothing is derived for an operator that cannot be written."""
        self.published.append(version)
        if self.is_blocked:
            return
        if self.is_onboarded:
            if self.options.check:
                self._compare(version, self._check_existing(version, published))
            return
        template = self.derived[version] = derive_template(published)
        comparison = template.comparison
        if self.options.check:
            file = TemplateFile.read(io.BytesIO(template.content), f"v{version}.yaml")
            comparison = check_template(file, template.type, published, self.render, _level(version))
        self._compare(version, comparison)

    def _check_existing(self, version: OpenShiftVersion, published: Blobs) -> CatalogComparison:
        templates = self.mapping.templates if self.mapping else ()
        name = f"v{version}"
        mapped = next((each for each in templates if name in dict(each.catalogs)), None)
        if mapped is None:
            raise CatalogError("published, but not in the catalog_mapping", hint="add it to the mapping of a template")
        path = self.directory / TEMPLATES / mapped.name
        return check_template(TemplateFile.open(path), mapped.type, published, self.render, _level(version))

    def _compare(self, version: OpenShiftVersion, comparison: CatalogComparison) -> None:
        if not comparison.is_equal:
            self.differences.append(CatalogDifference(f"v{version}", comparison))
            documents = shorten(comparison.documents)
            self.problems.append(f"v{version}: the rendered catalog differs from the published one: {documents}")

    def finish(self) -> OnboardedOperator:
        """Write the files of the operator unless it is onboarded, and return the result."""
        if self.is_onboarded:
            templates = self._existing_templates()
            self._report_unpublished(templates)
            return self._result(OnboardingStatus.ONBOARDED, templates)
        if not self.published and not self.problems:
            self.problems.append("not published in any of the catalogs")
        if len(self.derived) < len(self.published) or not self.derived:
            return self._result(OnboardingStatus.FAILED, ())
        planned = plan_templates(self.derived, per_version=self.options.per_version)
        templates = tuple(OnboardedTemplate(each.name, each.type.value, each.catalogs) for each in planned)
        files: tuple[OnboardedFile, ...] = ()
        failed = len(self.problems)
        with self.collect_problems(), locked_directory(self.directory):
            plan = plan_files(self.directory, planned, force=self.options.force)
            files = tuple(
                OnboardedFile(self.directory / file.path, file.is_changed, file.diff(self.directory)) for file in plan
            )
            if not self._is_dry_run:
                write_onboarding(self.directory, plan)
        done = OnboardingStatus.PLANNED if self._is_dry_run else OnboardingStatus.WRITTEN
        return self._result(OnboardingStatus.FAILED if len(self.problems) > failed else done, templates, files)

    @property
    def _is_dry_run(self) -> bool:
        return self.options.dry_run or self.options.check

    def _existing_templates(self) -> tuple[OnboardedTemplate, ...]:
        mapped = self.mapping.templates if self.mapping else ()
        return tuple(OnboardedTemplate(each.name, each.type.value, tuple(dict(each.catalogs))) for each in mapped)

    def _report_unpublished(self, templates: Sequence[OnboardedTemplate]) -> None:
        """With ``check``, report catalogs that are mapped but have no such package."""
        unpublished = {f"v{version}" for version in self.catalogs if version not in self.published}
        names = [name for template in templates for name in template.catalogs if name in unpublished]
        if names and self.options.check:
            self.problems.append(f"in the catalog_mapping, but not published: {shorten(names)}")

    def _result(
        self,
        status: OnboardingStatus,
        templates: tuple[OnboardedTemplate, ...],
        files: tuple[OnboardedFile, ...] = (),
    ) -> OnboardedOperator:
        return OnboardedOperator(
            self.directory,
            self.package,
            status,
            templates,
            format_versions(self.published, self.catalogs),
            files,
            tuple(self.differences),
            tuple(self.problems),
        )
