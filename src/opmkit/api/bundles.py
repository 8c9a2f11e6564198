"""Operations on bundles."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.api.session import Session, ignore_warning
from opmkit.core.json_types import JsonResult
from opmkit.core.progress import NO_PROGRESS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from opmkit.bundle.config_map import ConfigMap, ExtractionOptions
    from opmkit.bundle.finding import RuleDescription
    from opmkit.bundle.generate import GeneratedMetadata
    from opmkit.bundle.permissions.grant import Permissions
    from opmkit.bundle.permissions.report import PermissionDiff, PermissionReport
    from opmkit.bundle.policy import Policy
    from opmkit.bundle.rendering.chart import ChartRequest, HelmChart
    from opmkit.bundle.rendering.objects import RenderRequest
    from opmkit.bundle.rendering.output import RenderedBundle
    from opmkit.bundle.rendering.registry_v1 import RegistryV1
    from opmkit.bundle.validation.options import ValidationOptions, ValidationPlan
    from opmkit.bundle.validation.platforms import ImagePlatforms
    from opmkit.bundle.validation.report import ValidationReport
    from opmkit.bundle.validation.result import ValidationResult
    from opmkit.bundle.validation.sources import Source
    from opmkit.core.progress import Progress
    from opmkit.imagetools.build_spec import BuildSpec
    from opmkit.imagetools.reference import ImageReference
    from opmkit.imagetools.worker_options import WorkerExecutor


@dataclass(frozen=True, slots=True)
class BuiltBundle(JsonResult):
    """A bundle image that was built.

    Attributes:
        references: Its names, with its digest, except for archives.
        digest: Its digest, "" if it is unknown.
    """

    references: tuple[str, ...]
    digest: str

    @property
    def reference(self) -> str:
        """The first name."""
        return self.references[0]


class BundleOperations(Session):
    """Operations on bundles."""

    def generate_metadata(
        self,
        manifests: Path,
        *,
        package: str = "",
        channels: Sequence[str] = (),
        default_channel: str = "",
        output: Path | None = None,
        base_image: str = "scratch",
    ) -> GeneratedMetadata:
        """Write ``annotations.yaml`` and ``bundle.Dockerfile`` for a directory of manifests.

        Args:
            manifests: Directory of the manifests. Annotations are written to ``metadata`` next to it, or in ``output``.
            package: Package name; this and the channels are by default those of existing annotations.
            channels: Names of the channels.
            default_channel: Default channel of the package.
            output: Directory that receives manifests and metadata.
            base_image: Image in the FROM instruction of the Dockerfile.

        Raises:
            BundleError: There are no manifests, or package or channels are unknown.
            DiskError: A file cannot be read or written.
        """
        from opmkit.bundle.generate import AnnotationsInput, generate

        given = AnnotationsInput(package, ",".join(channels), default_channel)
        return generate(manifests, given, output=output, base_image=base_image)

    def build_bundle(
        self,
        manifests: Path,
        *images: str,
        package: str = "",
        channels: Sequence[str] = (),
        default_channel: str = "",
        output: Path | None = None,
        base_image: str = "scratch",
        write_dockerfile: bool = False,
        overwrite: bool = True,
        push: bool = False,
        warn: Callable[[str], None] = ignore_warning,
        progress: Progress = NO_PROGRESS,
    ) -> BuiltBundle:
        """Build a bundle image from a directory of manifests.

        Args:
            manifests: Directory of the manifests. Annotations are written to ``metadata`` next to it, or in ``output``.
            images: Names of the image.
            package: Package name; this and the channels are by default those of existing annotations.
            channels: Names of the channels.
            default_channel: Default channel of the package.
            output: Directory that receives manifests and metadata.
            base_image: Image to build on.
            write_dockerfile: Write ``bundle.Dockerfile`` to the working directory.
            overwrite: Overwrite the Dockerfile and different annotations, which are an error otherwise.
            push: Push the image to its registry, instead of the embedded store.
            warn: Called with each warning about the manifests.
            progress: Receiver of progress reports.

        Raises:
            BundleError: The manifests are not a valid bundle, or package or channels are missing.
            ImageToolsError: The image cannot be written.
            ValueError: No image is named.
        """
        from opmkit.bundle.generate import AnnotationsInput, generate
        from opmkit.bundle.unpack import bundle_build_spec
        from opmkit.core.environment import source_date_epoch

        targets = _parse_targets(images)
        bundle = generate(
            manifests,
            AnnotationsInput(package, ",".join(channels), default_channel),
            output=output,
            base_image=base_image,
            overwrite=overwrite,
            needs_dockerfile=False,
            write_dockerfile=write_dockerfile,
        )
        for warning in bundle.warnings:
            warn(warning)
        spec = bundle_build_spec(bundle.manifests, bundle.metadata, created=source_date_epoch())
        return self._build(spec, "" if base_image == "scratch" else base_image, targets, push=push, progress=progress)

    def build_dockerfile(
        self,
        dockerfile: Path,
        *images: str,
        context: Path = Path(),
        arguments: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        push: bool = False,
        warn: Callable[[str], None] = ignore_warning,
        progress: Progress = NO_PROGRESS,
    ) -> BuiltBundle:
        """Build a bundle image from a Dockerfile, which may contain FROM, ARG, LABEL, COPY and ADD.

        Args:
            dockerfile: The Dockerfile.
            images: Names of the image.
            context: Directory to copy files from.
            arguments: Build arguments by their names.
            labels: Labels to set after those of the Dockerfile.
            push: Push the image to its registry, instead of the embedded store.
            warn: Called with each warning about the Dockerfile.
            progress: Receiver of progress reports.

        Raises:
            BundleError: The Dockerfile is invalid or requires a container engine, or the image contains no manifests.
            ImageToolsError: The image cannot be written.
            DiskError: A file cannot be read.
            ValueError: No image is named.
        """
        from opmkit.bundle.dockerfile.build import dockerfile_build_spec
        from opmkit.core.environment import source_date_epoch

        targets = _parse_targets(images)
        built = dockerfile_build_spec(
            dockerfile, context, arguments=arguments, labels=labels, created=source_date_epoch()
        )
        for warning in built.warnings:
            warn(warning)
        return self._build(built.spec, built.base, targets, push=push, progress=progress)

    def _build(
        self, spec: BuildSpec, base: str, targets: Sequence[ImageReference], *, push: bool, progress: Progress
    ) -> BuiltBundle:
        from opmkit.imagetools.reference import parse_image_reference
        from opmkit.imagetools.transports import pin_reference

        base_image = parse_image_reference(base) if base else None
        digest = self._build_tool.build(spec, base_image, targets, push=push, progress=progress)
        pinned = tuple(pin_reference(target, digest) if digest else str(target) for target in targets)
        return BuiltBundle(pinned, digest)

    def unpack_bundle(self, bundle: str, directory: Path, *, validate: bool = True) -> tuple[str, ...]:
        """Write all files of a bundle to a directory, whose other files remain, and return warnings about the bundle.

        Args:
            bundle: Bundle image, or bundle directory.
            directory: Directory to write to; it is created.
            validate: Reject images that are not valid bundles, before anything is written.

        Raises:
            BundleError: The bundle is invalid, or a file is in the place of a directory or the other way round.
            ImageToolsError: The image cannot be read or a file cannot be written.
        """
        from opmkit.bundle.unpack import unpack_bundle

        return unpack_bundle(self._tool, bundle, directory, validate=validate)

    def render_bundle(self, bundle: str, request: RenderRequest) -> RenderedBundle:
        """Return the objects that OLM v1 applies for a bundle of the format ``registry+v1``.

        Args:
            bundle: Bundle image, or bundle directory.
            request: Where and how to install the bundle.

        Raises:
            UnsupportedBundle: OLM v1 does not install the bundle, or not in these namespaces.
            BundleError: The bundle cannot be read.
            ImageToolsError: The image cannot be read.
        """
        from opmkit.bundle.rendering.objects import render_objects
        from opmkit.bundle.rendering.output import RenderedBundle

        with self._registry_v1(bundle) as (parsed, warnings):
            return RenderedBundle(parsed.name, tuple(render_objects(parsed, request)), warnings)

    def make_chart(self, bundle: str, request: ChartRequest) -> HelmChart:
        """Return a Helm chart that renders to the objects of `render_bundle`.

        Args:
            bundle: Bundle image, or bundle directory.
            request: Defaults of the chart's values.

        Raises:
            UnsupportedBundle: OLM v1 does not install the bundle, or not in the namespaces that are the defaults.
            BundleError: The bundle cannot be read.
            ImageToolsError: The image cannot be read.
        """
        from opmkit.bundle.rendering.chart import make_chart

        with self._registry_v1(bundle) as (parsed, warnings):
            return replace(make_chart(parsed, request), warnings=warnings)

    @contextmanager
    def _registry_v1(self, bundle: str) -> Iterator[tuple[RegistryV1, tuple[str, ...]]]:
        """Read a bundle for OLM v1 with warnings about it, and name it in the errors about it."""
        from opmkit.bundle.errors import InvalidBundle
        from opmkit.bundle.load import fetch_bundle_files
        from opmkit.bundle.rendering.objects import UnsupportedBundle
        from opmkit.bundle.rendering.registry_v1 import read_registry_v1
        from opmkit.bundle.rendering.support import dependency_warnings
        from opmkit.bundle.source import BundleSource, path_or_image

        source = BundleSource.parse(bundle)
        with path_or_image(bundle):
            files = fetch_bundle_files(self._tool, source)
        try:
            parsed = read_registry_v1(files)
            yield parsed, dependency_warnings(parsed.name, files)
        except (InvalidBundle, UnsupportedBundle) as error:
            first, *details = error.lines
            raise type(error)(f"{source.text}: {first}", details=details, hint=error.hint) from error

    def bundle_permissions(self, bundle: str) -> PermissionReport:
        """Return what the operator of a bundle may do, and which permissions are dangerous.

        Args:
            bundle: Bundle image, or bundle directory.

        Raises:
            BundleError: The bundle cannot be read, or a permission has the wrong type.
            ImageToolsError: The image cannot be read.
        """
        from opmkit.bundle.permissions.report import PermissionReport

        return PermissionReport.of(self._permissions(bundle))

    def compare_permissions(self, old: str, new: str) -> PermissionDiff:
        """Return what the operator of a bundle may do that another version may not, and the other way round.

        Args:
            old: Bundle image, or bundle directory, of the version before.
            new: Bundle image, or bundle directory, of the version after.

        Raises:
            BundleError: A bundle cannot be read, or has too many permissions.
            ImageToolsError: An image cannot be read.
        """
        from opmkit.bundle.permissions.report import compare_permissions

        return compare_permissions(self._permissions(old), self._permissions(new))

    def _permissions(self, bundle: str) -> Permissions:
        from opmkit.bundle.permissions.load import load_permissions
        from opmkit.bundle.source import BundleSource, path_or_image

        with path_or_image(bundle):
            return load_permissions(self._tool, BundleSource.parse(bundle))

    def extract_bundle(self, bundle: str | Path, options: ExtractionOptions) -> ConfigMap:
        """Convert a bundle to a ConfigMap, the form in which OLM unpacks it; see `write_bundle`.

        Args:
            bundle: Bundle image, or bundle directory.
            options: Name of the ConfigMap, and its format. The image is by default that of the bundle.

        Raises:
            BundleError: The bundle is invalid, or larger than the limit.
            ImageToolsError: The image cannot be read.
        """
        from opmkit.bundle.config_map import bundle_config_map
        from opmkit.bundle.load import fetch_bundle_files
        from opmkit.bundle.source import BundleSource, path_or_image

        source = BundleSource(str(bundle), bundle, "") if isinstance(bundle, Path) else BundleSource.parse(bundle)
        with path_or_image(source.text):
            files = fetch_bundle_files(self._tool, source)
        return bundle_config_map(files, replace(options, image=options.image or source.image))

    def write_bundle(self, config_map: ConfigMap, kubeconfig: str = "") -> None:
        """Write the ConfigMap of a bundle to a cluster; further annotations of an existing one remain.

        Args:
            config_map: The result of `extract_bundle`.
            kubeconfig: Kubeconfig files; "" for the service account of this pod.

        Raises:
            ClusterError: The cluster cannot be reached, or rejects the request.
        """
        from opmkit.bundle.config_map import MANAGED_ANNOTATIONS, write_config_map
        from opmkit.kube.cluster import Cluster

        cluster = Cluster.connect(kubeconfig) if kubeconfig else Cluster.of_this_pod()
        write_config_map(cluster, config_map, replacing=MANAGED_ANNOTATIONS)

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
            ImageToolsError: The tags of a repository cannot be listed, or the replaced bundle cannot be read.
            ExecutorError: The executor cannot be used.
        """
        from opmkit.bundle.validation.options import ValidationOptions
        from opmkit.bundle.validation.report import ValidationReport
        from opmkit.bundle.validation.shard_report import PlacedResult, Selection
        from opmkit.bundle.validation.sources import read_definitions, select_sources

        options = options or ValidationOptions()
        plan, shard = options.plan(), options.shard
        if options.replaces:
            plan = plan.replacing(read_definitions(lambda: self._tool, options.replaces))
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
        from opmkit.bundle.validation.cache import ValidationCache
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
            cache=None if key is None else ValidationCache.open(self.store, key),
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
        from opmkit.index.fbc.check.rules import CATALOG_RULES

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
        from opmkit.core.scratch import ScratchDirectory

        with ScratchDirectory("opm-upload-") as scratch:
            directory = unpack_archive(archive, Path(scratch, "bundle"))
            (result,) = self.validate_bundles([str(directory)], options)
            return replace(result, target=archive.name, error=result.error.replace(str(directory), archive.name))


def _parse_targets(images: Sequence[str]) -> list[ImageReference]:
    from opmkit.imagetools.reference import parse_image_reference

    if not images:
        raise ValueError("no image is named")
    return [parse_image_reference(image) for image in images]
