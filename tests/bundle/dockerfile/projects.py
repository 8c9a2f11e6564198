"""Operator projects with a Dockerfile for a bundle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from opmkit.bundle.dockerfile.build import DockerfileBuild, dockerfile_build_spec

if TYPE_CHECKING:
    from pathlib import Path

LABELS = {
    "operators.operatorframework.io.bundle.mediatype.v1": "registry+v1",
    "operators.operatorframework.io.bundle.manifests.v1": "manifests/",
    "operators.operatorframework.io.bundle.metadata.v1": "metadata/",
    "operators.operatorframework.io.bundle.package.v1": "harbor",
    "operators.operatorframework.io.bundle.channels.v1": "alpha",
}
SCAFFOLDED = (
    "FROM scratch\n\n# Core bundle labels.\n"
    + "".join(f"LABEL {key}={value}\n" for key, value in LABELS.items())
    + """LABEL operators.operatorframework.io.metrics.builder=operator-sdk-v1.42.3

# Labels for testing.
LABEL operators.operatorframework.io.test.mediatype.v1=scorecard+v1
LABEL operators.operatorframework.io.test.config.v1=tests/scorecard/

# Copy files to locations specified by labels.
COPY bundle/manifests /manifests/
COPY bundle/metadata /metadata/
COPY bundle/tests/scorecard /tests/scorecard/
"""
)
"""A Dockerfile with the instructions that operator-sdk writes."""


@dataclass(frozen=True)
class Project:
    """A directory with a Dockerfile."""

    directory: Path

    @classmethod
    def create(cls, directory: Path) -> Self:
        """Create a project with a bundle."""
        project = cls(directory)
        project.write("bundle/manifests/csv.yaml", "kind: ClusterServiceVersion\n")
        project.write("bundle/manifests/crd.yaml", "kind: CustomResourceDefinition\n")
        annotations = "".join(f"  {key}: {value}\n" for key, value in LABELS.items())
        project.write("bundle/metadata/annotations.yaml", f"annotations:\n{annotations}")
        project.write("bundle/tests/scorecard/config.yaml", "kind: Configuration\n")
        return project

    @property
    def dockerfile(self) -> Path:
        return self.directory / "bundle.Dockerfile"

    def write(self, name: str, content: str = "x", *, mode: int = 0o644) -> Path:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        path.chmod(mode)
        return path

    def build(self, dockerfile: str, **arguments: str) -> DockerfileBuild:
        """Build a Dockerfile without checks of the bundle that it contains."""
        self.write("bundle.Dockerfile", dockerfile)
        return dockerfile_build_spec(self.dockerfile, self.directory, arguments=arguments)

    def paths(self, *instructions: str) -> dict[str, str]:
        """Return the paths of the image, without the manifests and metadata, and the names of the copied files."""
        bundle = "COPY bundle/manifests /manifests/\nCOPY bundle/metadata /metadata/"
        built = self.build("\n".join(["FROM scratch", bundle, *instructions]))
        return {
            file.path: file.source.relative_to(self.directory).as_posix()
            for file in built.spec.files
            if not isinstance(file.source, bytes) and not file.path.startswith(("manifests/", "metadata/"))
        }
