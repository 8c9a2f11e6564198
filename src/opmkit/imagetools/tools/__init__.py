"""Container tools: reading, building and pushing images with or without a container engine.

Importing this package does not import any client library; :func:`open_tool` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.imagetools.errors import ImageToolsError

if TYPE_CHECKING:
    from opmkit.imagetools.image_format import ImageFormat
    from opmkit.imagetools.registry import RegistryOptions
    from opmkit.imagetools.store import ImageStore
    from opmkit.imagetools.tools.engine import EngineTool
    from opmkit.imagetools.tools.registry import RegistryTool

NO_ENGINE = ("none", "registry")
"""Names of the tool that requires no container engine."""
ENGINES = ("docker", "podman", "buildah")


def open_tool(
    name: str, *, options: RegistryOptions, store: ImageStore, image_format: ImageFormat | None = None, workers: int = 4
) -> RegistryTool | EngineTool:
    """Return the tool called ``none`` (or ``registry``), ``docker``, ``podman`` or ``buildah``.

    Args:
        name: The name of the tool.
        options: The settings for registries.
        store: The embedded image store, for the tool ``none``.
        image_format: The format of images to build, by default OCI, and for docker its own.
        workers: The number of concurrent transfers of the tool ``none``.

    Raises:
        ImageToolsError: The tool does not exist, or does not support the options.
    """
    if name in NO_ENGINE:
        from opmkit.imagetools.image_format import ImageFormat
        from opmkit.imagetools.registry import RegistryClient
        from opmkit.imagetools.tools.registry import RegistryTool

        return RegistryTool(
            RegistryClient(options), store, image_format=image_format or ImageFormat.OCI, workers=workers
        )
    if name in ENGINES:
        from opmkit.imagetools.tools.engine import open_engine

        return open_engine(name, options, store, image_format)
    raise ImageToolsError(
        f'unknown container tool "{name}"',
        hint=f"use one of: none (no container engine required), {', '.join(ENGINES)}",
    )
