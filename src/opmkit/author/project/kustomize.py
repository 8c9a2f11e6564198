"""Generate ``config/manifests`` of an operator project: the base of its ClusterServiceVersion, and a kustomization."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opmkit.author.project.base import (
    apply_metadata,
    encode_base,
    new_base,
    owned_crds,
    parse_base,
    read_file,
    replace_placeholder,
    set_owned_crds,
    update_base,
)
from opmkit.author.project.project_file import OperatorType
from opmkit.bundle.errors import InvalidProject
from opmkit.bundle.hint_terms import BundleSetting
from opmkit.bundle.kubernetes_names import dns1123_label
from opmkit.core.files import disk_errors, write_files
from opmkit.core.hints import Hint

if TYPE_CHECKING:
    from opmkit.author.project.base import UserInterfaceMetadata
    from opmkit.author.project.project_file import Project

KUSTOMIZATION = "kustomization.yaml"
_WEBHOOK_PATCH = """
# If the operator has admission or conversion webhooks, uncomment this patch: OLM creates the certificate and mounts it,
# so the volume with the certificate of cert-manager has to be removed. Adapt the indexes to your Deployment.
#patches:
#- target:
#    group: apps
#    version: v1
#    kind: Deployment
#    name: controller-manager
#    namespace: system
#  patch: |-
#    - op: remove
#      path: /spec/template/spec/containers/0/volumeMounts/0
#    - op: remove
#      path: /spec/template/spec/volumes/0
"""


@dataclass(frozen=True, slots=True)
class KustomizeOptions:
    """Name of the package, and directories to read and write.

    Attributes:
        package: Name of the package; by default that of the project.
        input_directory: Directory with the existing base, in ``bases/``.
        output_directory: Directory to write to.
        apis_directory: Directory with the Go types of the APIs; its subdirectories are included.
    """

    package: str = ""
    input_directory: Path = Path("config/manifests")
    output_directory: Path = Path("config/manifests")
    apis_directory: Path = Path("api")

    def base_file(self, project: Project) -> Path:
        """Return the path of the existing base, or where it would be.

        Raises:
            InvalidProject: if neither the options nor the project have a valid name.
        """
        return self.input_directory / _base_name(_operator_name(self, project))


@dataclass(frozen=True, slots=True)
class GeneratedKustomization:
    """Files that were written, files that already had the generated content, and warnings."""

    written: tuple[Path, ...]
    unchanged: tuple[Path, ...]
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the files and warnings in JSON types."""
        return {name: list(map(str, values)) for name, values in asdict(self).items()}


def generate_kustomize_manifests(
    options: KustomizeOptions, project: Project, metadata: UserInterfaceMetadata | None = None
) -> GeneratedKustomization:
    """Write the base of a ClusterServiceVersion, and a kustomization if there is none.

    Fields of an existing base are retained, except that the owned CRDs are updated from the Go types.

    Args:
        options: What to generate.
        project: The project in the working directory.
        metadata: Fields for user interfaces to set.

    Raises:
        InvalidProject: A file of the project is missing or invalid; the message contains the line.
        DiskError: A file cannot be read or written.
    """
    source, name = options.base_file(project), _operator_name(options, project)
    raw = read_file(source) if source.exists() else b""
    csv = parse_base(source, raw) if source.exists() else new_base(name)
    replace_placeholder(csv, name)
    if metadata:
        apply_metadata(csv, metadata)
    warnings = _update_owned_crds(csv, project, options.apis_directory)
    output = options.output_directory
    target, kustomization = output / _base_name(name), output / KUSTOMIZATION
    files = {target: update_base(raw, csv) if raw else encode_base(csv)}
    if not kustomization.exists():
        files[kustomization] = _kustomization(output, name, project.operator_type).encode()
    with disk_errors(output):
        unchanged = [path for path, content in files.items() if path.is_file() and path.read_bytes() == content]
        written = [path for path in files if path not in unchanged]
        write_files(output, {str(path.relative_to(output)): files[path] for path in written})
    return GeneratedKustomization(tuple(written), tuple(unchanged), warnings)


def _update_owned_crds(csv: dict[str, Any], project: Project, directory: Path) -> tuple[str, ...]:
    """Describe the APIs of the project as owned CRDs, if they have Go types, and return warnings about the others."""
    if project.operator_type is not OperatorType.GO:
        return ()
    if not directory.is_dir():
        return (f"{directory}: no such directory: the owned CRDs are not updated",)
    from opmkit.author.project.crd_descriptions import describe_apis, merge_owned
    from opmkit.author.project.go_source import load_packages

    described = describe_apis(load_packages(directory), project.resources)
    found = [description for description in described.values() if description]
    set_owned_crds(csv, merge_owned(owned_crds(csv), found))
    missing = [f"{api}: no Go type found in {directory}" for api, description in described.items() if not description]
    return (*missing, *(warning for description in found for warning in description.warnings))


def _operator_name(options: KustomizeOptions, project: Project) -> str:
    """Return the name of the package or the project; old projects have the name of their directory."""
    name = options.package or project.name or Path.cwd().name.lower()
    if "/" in name or "\0" in name or name.startswith("."):
        problem = "it must not begin with a dot or contain a slash"
    else:
        problem = next(iter(dns1123_label(name)), "") if not (options.package or project.name) else ""
    if problem:
        raise InvalidProject(
            f"{name!r}: invalid package name: {problem}", hint=Hint("pass {}", BundleSetting.PACKAGE.with_value("NAME"))
        )
    return name


def _base_name(name: str) -> Path:
    return Path("bases", f"{name}.clusterserviceversion.yaml")


def _kustomization(output: Path, name: str, kind: OperatorType) -> str:
    """Return a kustomization of the base, and of the other directories that the project has."""
    optional = [f"../{sibling}" for sibling in ("samples", "scorecard") if (output.parent / sibling).is_dir()]
    resources = [_base_name(name).as_posix(), "../default", *optional]
    lines = ["# The manifests from which a bundle is generated.", "resources:", *(f"- {path}" for path in resources)]
    return "\n".join([*lines, ""]) + (_WEBHOOK_PATCH if kind is OperatorType.GO else "")
