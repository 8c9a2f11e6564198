"""Flags for container tools, which pull and build images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from opmkit.cli.output.errors import UsageError
from opmkit.cli.parser.declaration import flag
from opmkit.imagetools.image_format import ImageFormat

if TYPE_CHECKING:
    from opmkit.api import Opm
    from opmkit.cli.flags.registry import RegistryFlags

TOOLS = "none, docker, podman or buildah"
PULL_TOOL_HELP = f"Tool to pull images: {TOOLS}"
PUSH_HELP = "Push to the registry of --tag instead of the embedded image store"
BUILD_TOOL_HELP = f"Tool to build images: {TOOLS}"
TOOLS_PANEL = "Container tools"

PullTool = Annotated[
    str, typer.Option("--container-tool", "-c", metavar="TOOL", help=PULL_TOOL_HELP, rich_help_panel=TOOLS_PANEL)
]
PullToolWithoutShorthand = Annotated[
    str, typer.Option("--container-tool", metavar="TOOL", help=PULL_TOOL_HELP, rich_help_panel=TOOLS_PANEL)
]
FormatOption = Annotated[
    ImageFormat | None,
    typer.Option(
        "--format",
        help="Image format: oci, or v2s2 for Docker; default: oci, with docker v2s2",
        rich_help_panel=TOOLS_PANEL,
    ),
]


def is_tool(name: str) -> bool:
    """Return whether there is a container tool of this name."""
    from opmkit.imagetools.tools import ENGINES, NO_ENGINE  # slow to import

    return name in (*NO_ENGINE, *ENGINES)


@dataclass(frozen=True, slots=True)
class ToolFlags:
    """Flags of commands that pull and build with the same tool."""

    container_tool: str = flag(
        "none", f"Tool to pull and build images: {TOOLS}", "-c", panel=TOOLS_PANEL, metavar="TOOL"
    )
    image_format: FormatOption = None

    def opm(self, registry_flags: RegistryFlags) -> Opm:
        """Return the operations with the chosen tool."""
        return registry_flags.opm(self.container_tool, image_format=self.image_format)


@dataclass(frozen=True, slots=True)
class SeparateToolFlags:
    """Flags of commands that can pull with another tool than they build with."""

    panel: ClassVar[str] = TOOLS_PANEL

    container_tool: str | None = flag(None, f"Tool to pull and build images: {TOOLS}", "-c", metavar="TOOL")
    build_tool: str | None = flag(None, BUILD_TOOL_HELP, "-u", metavar="TOOL")
    pull_tool: str | None = flag(None, PULL_TOOL_HELP, "-p", metavar="TOOL")
    image_format: FormatOption = None

    def opm(self, registry_flags: RegistryFlags, command: str) -> Opm:
        """Return the operations with the chosen tools; raises UsageError if the flags of ``command`` conflict."""
        if self.container_tool and (self.build_tool or self.pull_tool):
            raise UsageError("container-tool cannot be set alongside pull-tool or build-tool", command)
        pull = self.container_tool or self.pull_tool or "none"
        build = self.container_tool or self.build_tool or "none"
        return registry_flags.opm(pull, build_tool=build, image_format=self.image_format)
