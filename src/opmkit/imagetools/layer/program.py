"""Check whether the layers of an image contain the program that it runs."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from opmkit.core.errors import LimitExceeded
from opmkit.imagetools.layer.limits import Limits, LimitTracker
from opmkit.imagetools.layer.paths import MAX_LINKS, ancestors, normalize_path, resolve_link
from opmkit.imagetools.layer.reader import LayerReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opmkit.imagetools.layer.types import LayerSource
    from opmkit.imagetools.spec import ImageConfig

_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Directories of programs in images that do not set PATH."""
_MERGED_DIRECTORIES = ("bin/", "sbin/", "lib/")
"""Directories that are links to those of the same name below ``usr`` in most distributions."""


def find_program(config: ImageConfig, layers: Sequence[LayerSource], limits: Limits) -> bool | None:
    """Return whether one of the layers contains the program that an image runs; False if it runs none.

    Layers that the history names the program for are read first, then the smallest. Reading ends at the program, so
    that only the beginning of the layer with a server is read. Whiteouts are ignored: whoever removes a program from an
    image also changes its command.

    Args:
        config: The configuration of the image.
        layers: The layers, bottom first.
        limits: Limits for reading all layers together.

    Returns:
        The answer, or None if finding it would exceed the limits.

    Raises:
        ImageToolsError: A layer cannot be read, or is damaged.
    """
    wanted = set(_program_paths(config))
    ordered, tracker = _likely_first(config, layers), LimitTracker(limits)
    try:
        for _ in range(MAX_LINKS if wanted else 0):
            linked: set[str] = set()
            if any(_search(layer, wanted, linked, tracker) for layer in ordered):
                return True
            if linked <= wanted:
                break
            wanted |= linked
    except LimitExceeded:
        return None
    return False


def _program_paths(config: ImageConfig) -> Iterator[str]:
    """Yield the paths at which a runtime looks for the program, relative to the root of the image."""
    program = next(iter((*config.entrypoint, *config.cmd)), "")
    if not program:
        return
    env = dict(variable.partition("=")[::2] for variable in config.env)
    directories = [config.working_dir or "/"] if "/" in program else env.get("PATH", _DEFAULT_PATH).split(":")
    for directory in directories:
        path = normalize_path(str(PurePosixPath("/", directory, program)))
        if path:
            yield path
            if path.startswith(_MERGED_DIRECTORIES):
                yield f"usr/{path}"


def _likely_first(config: ImageConfig, layers: Sequence[LayerSource]) -> list[LayerSource]:
    steps = [step.created_by for step in config.history if not step.empty_layer]
    if len(steps) != len(layers):
        steps = [""] * len(layers)
    program = PurePosixPath(next(iter((*config.entrypoint, *config.cmd)), "")).name
    name = re.compile(rf"\b{re.escape(program)}\b")
    pairs = zip(layers, steps, strict=True)
    return [layer for layer, _ in sorted(pairs, key=lambda pair: (not name.search(pair[1]), pair[0][0].size))]


def _search(layer: LayerSource, wanted: set[str], linked: set[str], tracker: LimitTracker) -> bool:
    """Return whether a layer has a file or link at a wanted path; add the paths that links of directories lead to."""
    parents = {parent for path in wanted for parent in ancestors(path)}
    descriptor, opener = layer
    with LayerReader(descriptor, opener, tracker) as entries:
        for entry in entries:
            if entry.path in wanted and entry.kind in {"file", "symlink", "hardlink"}:
                return True
            if entry.kind == "symlink" and entry.path in parents:
                target = resolve_link(entry.path, entry.target)
                below = [path.removeprefix(entry.path) for path in wanted if path.startswith(f"{entry.path}/")]
                linked.update(f"{target}{rest}".lstrip("/") for rest in below)
    return False
