"""Input and output of the commands that generate bundles from Kubernetes manifests."""

from __future__ import annotations

import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.cli.hint_terms import CliOperation, CliSetting
from opmkit.cli.output.console import format_count, print_line
from opmkit.cli.output.errors import UsageError, print_hint, print_warning
from opmkit.core.hints import Hint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from opmkit.author.generate.bundle import BundleSettings
    from opmkit.author.generate.input import InputObject
    from opmkit.author.generate.metadata import BundleLabels
    from opmkit.author.generate.write import WrittenFiles
    from opmkit.author.project.project_file import Project

STDIN = Path("-")
BUNDLE_DIRECTORY = Path("bundle")
_BASE_HINT = Hint.any_of(
    Hint("replace them in a copy of the generated ClusterServiceVersion, and pass it with {}", CliSetting.BASE_CSV),
    Hint("write a base with {}", CliOperation.GENERATE_BASE),
)


def has_piped_input() -> bool:
    """Return whether standard input is a pipe or a file, not a terminal or /dev/null."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def read_objects(path: Path) -> list[InputObject]:
    """Return the objects in a file, in the files of a directory, or in standard input for ``-``."""
    from opmkit.author.generate.input import read_path, read_stream

    return list(read_stream(sys.stdin.buffer) if path == STDIN else read_path(path))


def read_base(path: Path) -> list[InputObject]:
    """Return the objects of a file with a base; raises InvalidBundle if none is a ClusterServiceVersion."""
    from opmkit.bundle.errors import InvalidBundle
    from opmkit.bundle.kinds import CSV_KIND

    objects = read_objects(path)
    if all(item.kind != CSV_KIND for item in objects):
        raise InvalidBundle(f"{path}: no {CSV_KIND} found", hint="pass the file of a ClusterServiceVersion")
    return objects


def find_project() -> Project | None:
    """Return the operator project in the working directory, None if there is none."""
    from opmkit.author.project.project_file import PROJECT_FILE, read_project

    return read_project() if Path(PROJECT_FILE).exists() else None


def package_name(package: str, project: Project | None, command: str) -> str:
    """Return the given package, or the name of the project; raises UsageError if there is none."""
    if name := package or (project.name if project else ""):
        return name
    missing = "the PROJECT file has no projectName" if project else "there is no PROJECT file"
    raise UsageError(f"no package name: --package is not set, and {missing}", command, hint="pass --package NAME")


@dataclass(frozen=True, slots=True)
class BundleWriter:
    """The directory of a generated bundle, and the output of the command.

    Attributes:
        directory: Directory of the bundle; None to print the manifests.
        quiet: Whether to print only warnings.
        transform: Applied to all manifests, by file name.
    """

    directory: Path | None
    quiet: bool = False
    transform: Callable[[Mapping[str, bytes]], Mapping[str, bytes]] = dict

    def write_manifests(
        self, objects: Sequence[InputObject], settings: BundleSettings, base: Iterable[InputObject] = ()
    ) -> None:
        """Generate the manifests, and write or print them."""
        from opmkit.author.generate.bundle import generate_manifests
        from opmkit.author.generate.write import encode_manifests, write_manifests
        from opmkit.cli.output.console import print_bytes

        generated = generate_manifests(objects, settings, base)
        if generated.has_placeholders:
            print_warning("no base ClusterServiceVersion: description, provider, links and icon are placeholders")
            print_hint(_BASE_HINT)
        for warning in generated.warnings:
            print_warning(warning)
        if self.directory is None:
            manifests = self.transform(encode_manifests(generated)).values()
            print_bytes(b"---\n" + content for content in manifests)
            return
        self._print(write_manifests(generated, self.directory, self.transform))

    def write_metadata(
        self, labels: BundleLabels, *, base_image: str = "scratch", overwrite: bool = True, retain: bool = True
    ) -> None:
        """Write the annotations and the Dockerfile; ``retain`` keeps other annotations of an existing file."""
        from opmkit.author.generate.write import write_metadata

        directory = self.directory or BUNDLE_DIRECTORY
        self._print(write_metadata(labels, directory, base_image=base_image, overwrite=overwrite, retain=retain))

    def _print(self, result: WrittenFiles) -> None:
        for warning in result.warnings:
            print_warning(warning)
        if self.quiet:
            return
        for path in result.written:
            print_line(f"{path}: written")
        if result.unchanged:
            print_line(f"{format_count(len(result.unchanged), 'file')} unchanged")
        for path in result.leftover:
            print_line(f"{path}: not generated from the input, but part of the bundle")
