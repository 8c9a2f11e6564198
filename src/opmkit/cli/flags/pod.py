"""Flags for the pod of a CatalogSource."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.flags.olm import PodSecurity
from opmkit.cli.output.errors import UsageError

if TYPE_CHECKING:
    from opmkit import PodConfig

CATALOG_DIRECTORY = "/configs"
"""Directory of the file-based catalog in images that opm builds."""
POD_PANEL = "Pod of the catalog source"


@dataclass(frozen=True, slots=True)
class PodFlags:
    """Flags for the pod that OLM runs an index image in."""

    security_context: Annotated[
        PodSecurity | None,
        typer.Option(metavar="CONTEXT", help="Security context: legacy or restricted", rich_help_panel=POD_PANEL),
    ] = None
    memory_target: Annotated[
        str,
        typer.Option(metavar="SIZE", help="Soft memory limit of the server, such as 512Mi", rich_help_panel=POD_PANEL),
    ] = ""
    extract_content: Annotated[
        bool,
        typer.Option(
            "--extract-content",
            help="Serve the file-based catalog of the image with OLM's own opm; implied if the image has no server",
            rich_help_panel=POD_PANEL,
        ),
    ] = False
    extract_catalog_dir: Annotated[
        str,
        typer.Option(
            metavar="DIR",
            help="Directory of the catalog to extract; default: /configs",
            rich_help_panel=POD_PANEL,
        ),
    ] = ""
    extract_cache_dir: Annotated[
        str,
        typer.Option(
            metavar="DIR",
            help="Directory of the cache to extract, such as /tmp/cache; default: create the cache when the pod starts",
            rich_help_panel=POD_PANEL,
        ),
    ] = ""
    node_selector: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE,...", help="Labels of the nodes to run on", rich_help_panel=POD_PANEL),
    ] = None
    toleration: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY[=VALUE][:EFFECT],...", help="Taints of nodes to tolerate", rich_help_panel=POD_PANEL),
    ] = None
    priority_class: Annotated[
        str, typer.Option(metavar="NAME", help="PriorityClass of the pod", rich_help_panel=POD_PANEL)
    ] = ""
    pod_config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="YAML file with further fields of grpcPodConfig, such as affinity",
            rich_help_panel=POD_PANEL,
        ),
    ] = None

    def config(self) -> PodConfig:
        """Return the configuration of the pod; raises OpmkitError for invalid values."""
        from opmkit import PodConfig

        extracts = self.extract_content or self.extract_catalog_dir or self.extract_cache_dir
        return PodConfig(
            security_context=self.security_context or "",
            memory_target=self.memory_target,
            catalog_directory=(self.extract_catalog_dir or CATALOG_DIRECTORY) if extracts else "",
            cache_directory=self.extract_cache_dir,
            node_selector=dict(_parse_label(text) for text in self.node_selector or ()),
            tolerations=tuple(self.toleration or ()),
            priority_class=self.priority_class,
            fields=PodConfig.read_fields(self.pod_config) if self.pod_config else {},
        )


def _parse_label(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--node-selector: {text!r} is not a label", hint="write KEY=VALUE")
    return key, value
