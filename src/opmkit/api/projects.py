"""Operations on operator projects."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.api.session import Session
from opmkit.core.progress import NO_PROGRESS

if TYPE_CHECKING:
    from opmkit.author.generate.operation import GeneratedBundle, GenerationOptions
    from opmkit.author.project.base import UserInterfaceMetadata
    from opmkit.author.project.kustomize import GeneratedKustomization, KustomizeOptions
    from opmkit.author.project.project_file import Project
    from opmkit.core.progress import Progress


class ProjectOperations(Session):
    """Operations on operator projects."""

    def read_project(self, directory: Path = Path()) -> Project:
        """Read the PROJECT file of an operator project.

        Args:
            directory: Root directory of the project.

        Raises:
            BundleError: The file does not exist or is invalid.
            DiskError: The file cannot be read.
        """
        from opmkit.author.project.project_file import read_project

        return read_project(directory)

    def generate_bundle(self, options: GenerationOptions, *, progress: Progress = NO_PROGRESS) -> GeneratedBundle:
        """Generate a bundle from the manifests that install an operator, without changes to files that are up to date.

        Args:
            options: The manifests to read, and the bundle to write.
            progress: Receiver of progress reports.

        Raises:
            BundleError: Manifests are invalid or missing, or the ClusterServiceVersion or an annotation is invalid.
            ImageToolsError: SOURCE_DATE_EPOCH is invalid, or an image has no digest.
            DiskError: A file cannot be read or written.
        """
        from opmkit.author.generate.operation import generate_bundle

        return generate_bundle(options, lambda image: self._registry_tool.registry_digest(image), progress)

    def generate_kustomize(
        self, project: Project, options: KustomizeOptions, metadata: UserInterfaceMetadata | None = None
    ) -> GeneratedKustomization:
        """Write the base of the ClusterServiceVersion of an operator project, and a kustomization if there is none.

        Fields of an existing base are retained, except that the owned CRDs are updated from the Go types.

        Args:
            project: The project in the working directory.
            options: Name of the package, and directories to read and write.
            metadata: Fields for user interfaces to set.

        Raises:
            BundleError: A file of the project is missing or invalid.
            DiskError: A file cannot be read or written.
        """
        from opmkit.author.project.kustomize import generate_kustomize_manifests

        return generate_kustomize_manifests(options, project, metadata)
