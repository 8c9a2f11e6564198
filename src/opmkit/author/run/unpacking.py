"""The Jobs in which OLM unpacks bundle images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opmkit.author.run.objects import items, text

if TYPE_CHECKING:
    from collections.abc import Mapping


def is_unpack_job(job: Mapping[str, Any], image: str) -> bool:
    """Return whether a Job unpacks a bundle image: one of its containers has the image."""
    spec = ("spec", "template", "spec")
    containers = [*items(job, *spec, "initContainers"), *items(job, *spec, "containers")]
    return any(text(container, "image") == image for container in containers)
