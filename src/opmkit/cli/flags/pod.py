"""Flags for the pod of a CatalogSource."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from opmkit.cli.flags.olm import PodSecurity
from opmkit.cli.output.errors import UsageError
from opmkit.cli.parser.declaration import flag

if TYPE_CHECKING:
    from opmkit import PodConfig

CATALOG_DIRECTORY = "/configs"
"""Directory of the file-based catalog in images that opm builds."""
POD_PANEL = "Pod of the catalog source"


@dataclass(frozen=True, slots=True)
class PodFlags:
    """Flags for the pod that OLM runs an index image in."""

    panel: ClassVar[str] = POD_PANEL

    security_context: PodSecurity | None = flag(None, "Security context: legacy or restricted", metavar="CONTEXT")
    memory_target: str = flag("", "Soft memory limit of the server, such as 512Mi", metavar="SIZE")
    extract_content: bool = flag(
        False, "Serve the file-based catalog of the image with OLM's own opm; implied if the image has no server"
    )
    extract_catalog_dir: str = flag("", "Directory of the catalog to extract; default: /configs", metavar="DIR")
    extract_cache_dir: str = flag(
        "",
        "Directory of the cache to extract, such as /tmp/cache; default: create the cache when the pod starts",
        metavar="DIR",
    )
    node_selector: list[str] | None = flag(None, "Labels of the nodes to run on", metavar="KEY=VALUE,...")
    toleration: list[str] | None = flag(None, "Taints of nodes to tolerate", metavar="KEY[=VALUE][:EFFECT],...")
    priority_class: str = flag("", "PriorityClass of the pod", metavar="NAME")
    pod_config: Path | None = flag(
        None, "YAML file with further fields of grpcPodConfig, such as affinity", metavar="FILE"
    )

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
