"""Rendered objects as a stream, as files, and as a base for kustomize."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opmkit.bundle.errors import BundleError
from opmkit.bundle.rendering.registry_v1 import object_name
from opmkit.core.files import disk_errors, write_files
from opmkit.documents.yaml_writer import dump_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_MAX_FILE_NAME = 200
KUSTOMIZATION = "kustomization.yaml"


@dataclass(frozen=True, slots=True)
class RenderedBundle:
    """The objects of an installed bundle.

    Attributes:
        name: Name of the bundle.
        objects: The objects in JSON types, in the order in which OLM v1 generates them.
        warnings: Why OLM v1 would not install the bundle from a catalog.
    """

    name: str
    objects: tuple[Mapping[str, Any], ...]
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return name and objects in JSON types."""
        return {"name": self.name, "objects": [dict(value) for value in self.objects]}

    def to_yaml(self) -> bytes:
        """Return the objects as a stream of YAML documents."""
        return b"".join(b"---\n" + dump_yaml(dict(value)) for value in self.objects)

    def files(self, *, kustomize: bool = False) -> dict[str, bytes]:
        """Return a file for each object, by a name of its number, kind and name.

        Characters that are unusual in file names are replaced by underscores.

        Args:
            kustomize: Add the file that makes the directory a base for kustomize.
        """
        digits = len(str(len(self.objects)))
        files = {
            f"{number:0{digits}}_{object_file_name(value)}": dump_yaml(dict(value))
            for number, value in enumerate(self.objects)
        }
        if kustomize:
            header = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
            files[KUSTOMIZATION] = dump_yaml({**header, "resources": list(files)})
        return files

    def write(self, directory: Path, *, kustomize: bool = False) -> tuple[str, ...]:
        """Write `files` to a directory that is empty or does not exist, all of them or none; return their names.

        Raises:
            BundleError: The directory contains files, which could be objects of another version.
            DiskError: A file cannot be written.
        """
        return write_new_directory(directory, self.files(kustomize=kustomize))


def write_new_directory(directory: Path, files: Mapping[str, bytes]) -> tuple[str, ...]:
    """Write files to a directory that is empty or does not exist, all of them or none; return their names.

    Raises:
        BundleError: The directory contains files, which could be objects of another version.
        DiskError: A file cannot be written.
    """
    with disk_errors(directory):
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            message = f"{directory}: already exists and is not an empty directory"
            raise BundleError(message, hint="choose another directory, or remove this one")
    write_files(directory, files)
    return tuple(files)


def object_file_name(value: Mapping[str, Any]) -> str:
    """Return a file name of the kind and name of an object; unusual characters become underscores."""
    return f"{_safe(str(value['kind']).lower())}_{_safe(object_name(value))}.yaml"


def _safe(name: str) -> str:
    return _UNSAFE.sub("_", name)[:_MAX_FILE_NAME]
