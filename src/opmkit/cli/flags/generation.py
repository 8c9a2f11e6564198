"""Flags of ``opm bundle generate`` for the generation of a bundle from the manifests that install an operator."""

from __future__ import annotations

import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from opmkit.cli.output.errors import UsageError
from opmkit.cli.output.generation import print_generated
from opmkit.cli.parser.declaration import flag

if TYPE_CHECKING:
    from opmkit import Project
    from opmkit.cli.flags.bundle import BundleFlags

ACCOUNTS_HELP = "Service accounts of the operator that none of its Deployments use"


@dataclass(frozen=True, slots=True)
class GenerationFlags:
    """Flags for the manifests that install an operator, and for the ClusterServiceVersion."""

    manifest_input: Path | None = flag(
        None,
        "Manifests that install the operator, instead of --directory; default: stdin unless a terminal",
        "--input",
        metavar="FILE|DIR|-",
    )
    base_csv: Path | None = flag(
        None, "ClusterServiceVersion to fill in; default: the one in the manifests, or placeholders", metavar="FILE"
    )
    version: str = flag("", "Version of the operator; default: that of the base", metavar="VERSION")
    extra_service_accounts: list[str] | None = flag(None, ACCOUNTS_HELP, metavar="NAME,...")

    def generate(self, ctx: typer.Context, bundle_flags: BundleFlags) -> None:
        """Generate a bundle; raises UsageError if there is no input."""
        from opmkit import GenerationOptions
        from opmkit.api import Opm

        if self.manifest_input is None and not has_piped_input():
            raise UsageError(
                "no manifests given: none of --directory, --input and standard input",
                ctx.command_path,
                hint="pass --directory for the manifests of a bundle, or --input for those that install an operator, "
                "for example 'kustomize build config/default | opm bundle generate --package NAME --version 0.1.0'",
            )
        project = find_project()
        options = GenerationOptions(
            package_name(bundle_flags.package, project, ctx.command_path),
            self.version,
            ",".join(project.layout) if project else "",
            tuple(self.extra_service_accounts or ()),
            manifests=self.manifest_input or Path("-"),
            base=self.base_csv,
            directory=bundle_flags.output_dir or Path("bundle"),
            channels=bundle_flags.channels or None,
            default_channel=bundle_flags.default,
            base_image=bundle_flags.base_image,
        )
        print_generated(Opm().generate_bundle(options))


def has_piped_input() -> bool:
    """Return whether standard input is a pipe or a file, not a terminal or /dev/null."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def find_project() -> Project | None:
    """Return the operator project in the working directory, None if there is none."""
    from opmkit.api import Opm

    return Opm().read_project() if Path("PROJECT").exists() else None


def package_name(package: str, project: Project | None, command: str) -> str:
    """Return the given package, or the name of the project; raises UsageError if there is none."""
    if name := package or (project.name if project else ""):
        return name
    missing = "the PROJECT file has no projectName" if project else "there is no PROJECT file"
    raise UsageError(f"no package name: --package is not set, and {missing}", command, hint="pass --package NAME")
