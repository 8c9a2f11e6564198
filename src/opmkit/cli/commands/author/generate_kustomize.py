"""``opm generate kustomize``: generate the kustomize files from which a bundle is generated."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.cli.output.console import print_line, print_prompt
from opmkit.cli.output.errors import UsageError, print_warnings
from opmkit.cli.parser.declaration import flag

if TYPE_CHECKING:
    from opmkit import Maintainer, UserInterfaceMetadata

_QUOTES = "`'\""


def manifests(
    *,
    package: str = flag("", "Package name (default: projectName in PROJECT)", metavar="NAME"),
    input_dir: Path = flag(
        Path("config/manifests"), "Directory that contains the existing base in bases/", metavar="DIR"
    ),
    output_dir: Path = flag(Path("config/manifests"), "Directory to write the kustomize files to", metavar="DIR"),
    apis_dir: Path = flag(Path("api"), "Directory with the Go types of the APIs", metavar="DIR"),
    interactive: bool | None = flag(
        None, "Ask for the display name and similar fields (default: on a terminal, for a new base)"
    ),
    quiet: bool = flag(False, "Print only errors and warnings", "-q"),
) -> None:
    """Write the base of the ClusterServiceVersion of an operator project, and a kustomization

    Run the command in the directory of the PROJECT file. In a Go project, the owned CRDs are described by the comments
    and the markers +operator-sdk:csv:customresourcedefinitions of the API types. All other fields of an existing base
    are retained.

    [bold]Examples:[/]
      opm generate kustomize manifests
      opm generate kustomize manifests --interactive=false --apis-dir apis
    """
    from opmkit import KustomizeOptions
    from opmkit.api import Opm

    opm = Opm()
    project = opm.read_project()
    options = KustomizeOptions(package, input_dir, output_dir, apis_dir)
    if interactive is None:
        interactive = sys.stdin.isatty() and not options.base_file(project).exists()
    result = opm.generate_kustomize(project, options, _ask_metadata() if interactive else None)
    print_warnings(result.warnings)
    if not quiet:
        for path in result.written:
            print_line(f"{path}: written")
        for path in result.unchanged:
            print_line(f"{path}: unchanged")


def _ask_metadata() -> UserInterfaceMetadata:
    from opmkit import UserInterfaceMetadata

    return UserInterfaceMetadata(
        display_name=_ask("Display name for the operator"),
        description=_ask("Description for the operator"),
        provider_name=_ask("Name of the provider of the operator"),
        provider_url=_ask("URL of the provider", required=False),
        keywords=tuple(_ask_list("Comma-separated list of keywords")),
        maintainers=tuple(_ask_maintainers()),
    )


def _ask(question: str, *, required: bool = True) -> str:
    while True:
        print_prompt(f"\n{question} ({'required' if required else 'optional'}):\n> ")
        line = sys.stdin.buffer.readline().decode(errors="replace")
        if not line:
            raise UsageError(
                "unexpected end of input", "opm generate kustomize manifests", hint="pass --interactive=false"
            )
        answer = line.strip().strip(_QUOTES)
        if answer or not required:
            return answer
        print_line("A value is required.")


def _ask_list(question: str) -> list[str]:
    while True:
        if items := [item.strip() for item in _ask(question).split(",") if item.strip()]:
            return items


def _ask_maintainers() -> list[Maintainer]:
    from opmkit import Maintainer

    while True:
        entries = _ask_list("Comma-separated list of maintainers and their emails (name1:email1,name2:email2)")
        pairs = [entry.split(":") for entry in entries]
        if all(len(pair) == 2 and all(map(str.strip, pair)) for pair in pairs):
            return [Maintainer(name.strip(), email.strip()) for name, email in pairs]
        print_line("Write each maintainer as NAME:EMAIL.")
