"""Output of the commands that generate bundles from Kubernetes manifests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.cli.hint_terms import CliOperation, CliSetting
from opmkit.cli.output.console import print_bytes, print_line
from opmkit.cli.output.errors import print_hint, print_warning, print_warnings
from opmkit.core.hints import Hint

if TYPE_CHECKING:
    from opmkit import GeneratedBundle

_BASE_HINT = Hint.any_of(
    Hint("replace them in a copy of the generated ClusterServiceVersion, and pass it with {}", CliSetting.BASE_CSV),
    Hint("write a base with {}", CliOperation.GENERATE_BASE),
)


def print_generated(generated: GeneratedBundle, *, quiet: bool = False) -> None:
    """Print the manifests, or the names of the written files unless ``quiet``; warnings go to stderr."""
    if generated.has_placeholders:
        print_warning("no base ClusterServiceVersion: description, provider, links and icon are placeholders")
        print_hint(_BASE_HINT)
    print_warnings(generated.warnings)
    if generated.manifests:
        print_bytes(b"---\n" + content for content in generated.manifests.values())
    for files in generated.written:
        print_warnings(files.warnings)
        if quiet:
            continue
        for path in files.written:
            print_line(f"{path}: written")
        for path in files.unchanged:
            print_line(f"{path}: unchanged")
        for path in files.leftover:
            print_line(f"{path}: not generated from the input, but part of the bundle")
