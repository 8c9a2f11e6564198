"""Operations on bundles."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.api.session import Session
from opmkit.core.progress import NO_PROGRESS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from opmkit.bundle.finding import RuleDescription
    from opmkit.bundle.policy import Policy
    from opmkit.bundle.validation.cache import ValidationCache
    from opmkit.bundle.validation.options import ValidationOptions, ValidationPlan
    from opmkit.bundle.validation.platforms import ImagePlatforms
    from opmkit.bundle.validation.report import ValidationReport
    from opmkit.bundle.validation.result import ValidationResult
    from opmkit.bundle.validation.sources import Source
    from opmkit.core.progress import Progress
    from opmkit.imagetools.worker_options import WorkerExecutor


class BundleOperations(Session):
    """Operations on bundles."""

    def build_bundle(
        self,
        manifests: Path,
        image: str,
        *,
        package: str = "",
        channels: Sequence[str] = (),
        default_channel: str = "",
        output: Path | None = None,
        push: bool = False,
    ) -> str:
        """Build a bundle image from a directory of manifests.

        Args:
            manifests: Directory of the manifests. Annotations are written to ``metadata`` next to it, or in ``output``.
            image: Name of the image.
            package: Package name, by default that of existing annotations.
            channels: Channels, by default those of existing annotations.
            default_channel: Default channel of the package.
            output: Directory that receives manifests and metadata.
            push: Push the image to its registry, instead of the embedded store.

        Returns:
            The name of the image with its digest, ``NAME@sha256:<hex>``; without digest for an archive.

        Raises:
            BundleError: The manifests are not a valid bundle, or package or channels are missing.
            ImageToolsError: The image cannot be written.
        """
        from opmkit.bundle.generate import AnnotationsInput, generate
        from opmkit.bundle.unpack import bundle_build_spec
        from opmkit.core.environment import source_date_epoch
        from opmkit.imagetools.reference import parse_image_reference
        from opmkit.imagetools.transports import pin_reference

        target = parse_image_reference(image)
        given = AnnotationsInput(package, ",".join(channels), default_channel)
        bundle = generate(manifests, given, output=output, write_dockerfile=False)
        spec = bundle_build_spec(bundle.manifests, bundle.metadata, created=source_date_epoch())
        return pin_reference(target, self._tool.build(spec, None, [target], push=push))

    def validate_bundles(
        self,
        bundles: Iterable[str],
        options: ValidationOptions | None = None,
        *,
        executor: WorkerExecutor | None = None,
        progress: Progress = NO_PROGRESS,
    ) -> ValidationReport:
        """Validate bundles, each by itself and all of them together.

        The findings of rules over several bundles, such as those about their update graph, are added to the results of
        the bundles that they are about.

        Args:
            bundles: Bundle and operator directories, bundle images, repositories, of which all tags are validated, and
                ``@FILE`` for lists of these.
            options: The rules to apply, and the bundles to select; by default the profile ``all``.
            executor: Workers that read and validate the bundles, instead of this process.
            progress: Receiver of progress reports.

        Returns:
            A sequence of one result per bundle, in their order; that of a bundle that cannot be read is an error.

        Raises:
            BundleError: An option is invalid, or a pattern matches no tag.
            ImageToolsError: The tags of a repository cannot be listed.
            ExecutorError: The executor cannot be used.
        """
        from opmkit.bundle.validation.options import ValidationOptions
        from opmkit.bundle.validation.report import ValidationReport
        from opmkit.bundle.validation.shard_report import PlacedResult, Selection
        from opmkit.bundle.validation.sources import select_sources

        options = options or ValidationOptions()
        plan, shard = options.plan(), options.shard
        everything, skipped = select_sources(
            bundles, lambda repository: self._registry_tool.tags(repository), options.tags, options.exclude_tags
        )
        places = [(n, source) for n, source in enumerate(everything) if not shard or shard.contains(source.target)]
        results = self._validate(
            [source for _, source in places], plan, executor, progress, use_cache=options.use_cache
        )
        placed = tuple(PlacedResult(*place, result) for place, result in zip(places, results, strict=True))
        selection = Selection.from_sources(everything, skipped) if shard else None
        return ValidationReport(placed, plan.settings, skipped, selection, shard)

    def _validate(
        self,
        sources: Sequence[Source],
        plan: ValidationPlan,
        executor: WorkerExecutor | None,
        progress: Progress,
        *,
        use_cache: bool,
    ) -> Iterable[ValidationResult]:
        """Yield the result of each bundle by itself, before the policy is applied."""
        from opmkit.bundle.validation.sources import read_files, read_labels
        from opmkit.bundle.validation.validator import BundleValidator

        key = plan.cache_key() if use_cache else None
        if executor is not None:
            from opmkit.bundle.validation.validator import ValidationTask

            executor.check_paths(source.target for source in sources if isinstance(source.location, Path))
            config = plan.validator_config(None)
            task = ValidationTask(executor.worker, config, plan.labels_only, key, plan.needs_registries)
            return executor.map("Validating", task, sources, "bundles", progress)
        validator = BundleValidator(
            lambda: self._tool,
            plan.validator_config(self._find_platforms),
            read=read_labels if plan.labels_only else read_files,
            cache=_open_cache(key) if key is not None else None,
            external=plan.external,
        )
        return validator.run(sources, progress=progress)

    def _find_platforms(self, image: str) -> ImagePlatforms | None:
        from opmkit.bundle.validation.platforms import find_platforms

        return find_platforms(self._registry_tool, image)

    def merge_reports(self, reports: Sequence[Path]) -> ValidationReport:
        """Merge the reports of all shards of a validation into that of one process.

        Args:
            reports: JSON, SARIF or JUnit reports, one of each shard.

        Raises:
            BundleError: A shard is missing or duplicate, a report is damaged, or the reports belong to different runs.
            DiskError: A report cannot be read.
        """
        from opmkit.bundle.validation.report import merge_reports

        return merge_reports(reports)

    def read_policy(self, path: Path | None, *, ignore: Sequence[str] = ()) -> Policy:
        """Read the policy file of a project, for the validation of bundles and catalogs.

        Args:
            path: The policy file; None for a policy without settings.
            ignore: Ids of further rules whose findings are allowed.

        Raises:
            BundleError: The file is invalid, or a rule to ignore does not exist.
            DiskError: The file cannot be read.
        """
        from opmkit.bundle.policy import Policy, read_policy

        if path is None and not ignore:
            return Policy()
        from opmkit.bundle.validation.external import RULE

        rules = {RULE, *(rule.id for rule in self.list_rules())}
        policy = (read_policy(path, rules) if path else Policy()).with_ignored(ignore, rules)
        return replace(policy, baseline=str(path.parent / policy.baseline)) if path and policy.baseline else policy

    def list_rules(self) -> list[RuleDescription]:
        """Return the rules for bundles and catalogs, sorted by their ids.

        Raises:
            ImportError: A module with rules of another distribution cannot be imported.
        """
        from opmkit.bundle.validation.rule_registry import rules
        from opmkit.index.fbc.check.policy import CATALOG_RULES

        described = {**{name: rule.describe() for name, rule in rules().items()}, **CATALOG_RULES}
        return [described[name] for name in sorted(described)]

    def validate_archive(self, archive: Path, options: ValidationOptions | None = None) -> ValidationResult:
        """Validate the bundle in a tar or zip archive from an untrusted source.

        The archive contains a bundle directory or its entries. It is unpacked to a temporary directory, within limits
        on sizes and numbers of files: no path leads out of it. A tar archive can be compressed with gzip or zstd; a
        zip archive must not contain links.

        Args:
            archive: File of at most 16 MiB, whose unpacked files have at most 64 MiB.
            options: The rules to apply; by default the profile ``all``.

        Returns:
            The result, whose target is the name of the file.

        Raises:
            BundleError: The archive contains no bundle, or an option is invalid.
            ImageToolsError: The archive is damaged, unsafe or too large, or cannot be read.
        """
        from opmkit.bundle.upload import unpack_archive
        from opmkit.core.files import ScratchDirectory

        with ScratchDirectory("opm-upload-") as scratch:
            directory = unpack_archive(archive, Path(scratch, "bundle"))
            (result,) = self.validate_bundles([str(directory)], options)
            return replace(result, target=archive.name, error=result.error.replace(str(directory), archive.name))


def _open_cache(key: tuple[str, ...]) -> ValidationCache:
    from opmkit.bundle.validation.cache import ValidationCache
    from opmkit.bundle.validation.validator import CACHE
    from opmkit.imagetools.store.directory import cache_directory

    return ValidationCache.open(cache_directory(CACHE), key)
