"""Operations on bundles."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.api.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from opmkit.bundle.validation.result import ValidationResult


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
        from opmkit.bundle.build import bundle_build_spec
        from opmkit.bundle.generate import AnnotationsInput, generate
        from opmkit.core.epoch import source_date_epoch
        from opmkit.imagetools.reference import parse_image_reference
        from opmkit.imagetools.transports import pin_reference

        target = parse_image_reference(image)
        given = AnnotationsInput(package, ",".join(channels), default_channel)
        bundle = generate(manifests, given, output=output, write_dockerfile=False)
        spec = bundle_build_spec(bundle.manifests, bundle.metadata, created=source_date_epoch())
        return pin_reference(target, self._tool.build(spec, None, [target], push=push))

    def validate_bundles(self, bundles: Iterable[str], *, profile: str = "all") -> list[ValidationResult]:
        """Validate bundles, each by itself and all of them together.

        The findings of rules over several bundles, such as those about their update graph, are added to the results of
        the bundles that they are about. Results equal those of the command ``opm bundle validate`` without a policy.

        Args:
            bundles: Bundle directories, bundle images, and repositories, of which all tags are validated.
            profile: Name of the profile, see ``opm bundle validate --help``.

        Returns:
            One result per bundle, in their order. A bundle that cannot be read has a result with an error.

        Raises:
            BundleError: The profile does not exist.
            ImageToolsError: The tags of a repository cannot be listed.
        """
        from opmkit.bundle.validation.bundle_view import Options
        from opmkit.bundle.validation.compat import Compat
        from opmkit.bundle.validation.parallel_validator import ValidatorConfig
        from opmkit.bundle.validation.profiles import profile_named
        from opmkit.bundle.validation.run import ProfileValidator
        from opmkit.bundle.validation.sources import expand_targets
        from opmkit.bundle.validation.validator import (
            BundleValidator,
            add_cross_bundle_findings,
            cross_bundle_rules,
        )

        selected = profile_named(profile)
        config = ValidatorConfig(ProfileValidator(selected), Compat.OPMKIT, Options())
        validator = BundleValidator(lambda: self._tool, config)
        sources = list(expand_targets(bundles, self._registry_tool.tags))
        results = list(validator.run(sources))
        if len(results) > 1:
            results = add_cross_bundle_findings(results, sources, cross_bundle_rules(selected, Compat.OPMKIT))
        return results

    def validate_archive(self, archive: Path, *, profile: str = "all") -> ValidationResult:
        """Validate the bundle in a tar or zip archive from an untrusted source.

        The archive contains a bundle directory or its entries. It is unpacked to a temporary directory, within limits
        on sizes and numbers of files: no path leads out of it. A tar archive can be compressed with gzip or zstd; a
        zip archive must not contain links.

        Args:
            archive: File of at most 16 MiB, whose unpacked files have at most 64 MiB.
            profile: Name of the profile, see ``opm bundle validate --help``.

        Returns:
            The result, whose target is the name of the file.

        Raises:
            BundleError: The archive contains no bundle, or the profile does not exist.
            ImageToolsError: The archive is damaged, unsafe or too large, or cannot be read.
        """
        from opmkit.bundle.upload import unpack_archive
        from opmkit.core.scratch import ScratchDirectory

        with ScratchDirectory("opm-upload-") as scratch:
            directory = unpack_archive(archive, Path(scratch, "bundle"))
            (result,) = self.validate_bundles([str(directory)], profile=profile)
            return replace(result, target=archive.name, error=result.error.replace(str(directory), archive.name))
