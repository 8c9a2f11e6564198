"""Flags for building bundles from a Dockerfile."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import typer

from opmkit.cli.output.errors import UsageError, conflicting_flags, print_warning
from opmkit.cli.parser.declaration import argument, flag
from opmkit.cli.parser.go_commands import given_flags, require_flags

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from opmkit import BuiltBundle, Opm, Progress

DOCKERFILE_PANEL = "Build from a Dockerfile"
_MANIFEST_FLAGS = ("directory", "package", "channels", "default", "output-dir", "base-image", "overwrite")
_DOCKERFILE_FLAGS = ("label", "build-arg")


@dataclass(frozen=True, slots=True)
class DockerfileFlags:
    """Flags for a Dockerfile, with the names that they have in ``docker build``."""

    panel: ClassVar[str] = DOCKERFILE_PANEL

    context: str = argument(
        "", "With --file, directory to copy files from; default: the working directory", metavar="[CONTEXT]"
    )
    file: Path | None = flag(None, "Dockerfile to build from", "-f", metavar="FILE")
    label: list[str] | None = flag(None, "Label to set; can be repeated", metavar="KEY=VALUE")
    build_arg: list[str] | None = flag(
        None, "Value of an ARG, by default that of the environment variable; can be repeated", metavar="NAME=VALUE"
    )

    def check_flags(self, ctx: typer.Context) -> None:
        """Raise UsageError if a flag is missing, or only valid with or without a Dockerfile."""
        given = given_flags(ctx)
        if self.file is None:
            unused = [f"--{name}" for name in _DOCKERFILE_FLAGS if name in given] + ["CONTEXT"] * bool(self.context)
            if unused:
                raise UsageError(f"{unused[0]} requires --file", ctx.command_path)
            hint = "pass --directory for a directory of manifests, or --file for a Dockerfile, and --tag"
            require_flags(ctx, "directory", "tag", hint=hint)
            return
        for name in _MANIFEST_FLAGS:
            if name in given:
                raise conflicting_flags("--file", f"--{name}", ctx.command_path)
        require_flags(ctx, "tag")

    def build(self, opm: Opm, tags: Sequence[str], *, push: bool, progress: Progress) -> BuiltBundle:
        """Build the image of the Dockerfile, and print warnings about it."""
        return opm.build_dockerfile(
            self.file or Path(),
            *tags,
            context=Path(self.context),
            arguments=_parse_arguments(self.build_arg or ()),
            labels=_parse_labels(self.label or ()),
            push=push,
            warn=print_warning,
            progress=progress,
        )


def _parse_arguments(texts: Iterable[str]) -> dict[str, str]:
    """Parse ``NAME=VALUE``; an argument without a value is that of the environment, if there is one."""
    arguments = {}
    for text in texts:
        name, has_value, value = text.partition("=")
        if has_value or name in os.environ:
            arguments[name] = value if has_value else os.environ[name]
    return arguments


def _parse_labels(texts: Iterable[str]) -> dict[str, str]:
    """Parse ``KEY=VALUE``; a label without a value is empty."""
    labels = {name: value for name, _, value in (text.partition("=") for text in texts)}
    if "" in labels:
        raise UsageError("--label: empty name", hint="write KEY=VALUE")
    return labels
