"""Settings and connections that all operations share."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from opmkit.imagetools.registry.options import RegistryOptions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from opmkit.core.cache import ResultCache
    from opmkit.core.progress import Progress
    from opmkit.imagetools.image_format import ImageFormat
    from opmkit.imagetools.registry import RegistryClient
    from opmkit.imagetools.registry.trust_policy import TrustPolicy
    from opmkit.imagetools.store import ImageStore
    from opmkit.imagetools.tools.engine import EngineTool
    from opmkit.imagetools.tools.registry import RegistryTool
    from opmkit.index.fbc.definitions import ReadBundles
    from opmkit.index.fbc.permissions import ReadPermissions

T = TypeVar("T")
_CREATION = threading.RLock()


def ignore_warning(_warning: str, /) -> None:
    """Ignore a warning."""


class BuiltImages(NamedTuple):
    """The place of images that were built but not pushed.

    Attributes:
        name: The tool that has them.
        storage: A description of the place.
    """

    name: str
    storage: str


@dataclass(frozen=True)
class Session:
    """The settings of `Opm`, and the connections that are created on first use."""

    registries: RegistryOptions = field(default_factory=RegistryOptions)
    store: Path | None = None
    container_tool: str = "none"
    build_tool: str = ""
    image_format: ImageFormat | None = None
    _created: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def _client(self) -> RegistryClient:
        """The registry client."""
        from opmkit.imagetools.registry import RegistryClient

        return self._once("client", lambda: RegistryClient(self.registries))

    @property
    def _trust_policy(self) -> TrustPolicy:
        """The policy for signatures of the images that are read."""
        from opmkit.imagetools.registry.trust_policy import TrustPolicy

        return self._once("policy", lambda: TrustPolicy(self.registries))

    @property
    def _store(self) -> ImageStore:
        """The embedded image store."""
        from opmkit.imagetools.store import ImageStore

        return ImageStore.open(self.store)

    @property
    def _render_cache(self) -> ResultCache:
        """The cache of rendered bundle images."""
        from opmkit.index.render import open_render_cache

        return open_render_cache(self.store)

    def _bundle_reader(self, progress: Progress) -> ReadBundles:
        """Return a function that reads bundle images in parallel; bundles that were read before are cached."""
        from opmkit.index.image.source import SourceKind
        from opmkit.index.render import RenderOptions
        from opmkit.index.templates.renderer import bundle_renderer

        options = RenderOptions(kinds=frozenset({SourceKind.BUNDLE_IMAGE}), cache=self._render_cache)
        return bundle_renderer(lambda: self._registry_tool, options, progress=progress)

    def _permission_reader(self, progress: Progress) -> ReadPermissions:
        """Return a function that reads the permissions of bundle images in parallel."""
        from opmkit.bundle.permissions.load import load_image_permissions

        return lambda images: load_image_permissions(self._registry_tool, images, progress=progress)

    @property
    def _registry_tool(self) -> RegistryTool:
        """The container tool ``none``, also if another is chosen."""
        from opmkit.imagetools.tools.registry import RegistryTool

        return self._once("none", lambda: RegistryTool(self._client, self._store))

    @property
    def _tool(self) -> RegistryTool | EngineTool:
        """The tool that pulls images.

        Raises:
            ImageToolsError: The tool is unknown, or does not support the options.
        """
        if self.container_tool == self._build_tool_name:
            return self._build_tool
        return self._open_tool(self.container_tool, None)

    @property
    def _build_tool(self) -> RegistryTool | EngineTool:
        """The tool that builds images, see `_tool`."""
        return self._open_tool(self._build_tool_name, self.image_format)

    @property
    def built_images(self) -> BuiltImages:
        """The place of images that were built but not pushed."""
        tool = self._build_tool
        return BuiltImages(tool.name, tool.storage)

    @property
    def _build_tool_name(self) -> str:
        return self.build_tool or self.container_tool

    def _open_tool(self, name: str, image_format: ImageFormat | None) -> RegistryTool | EngineTool:
        from opmkit.imagetools.tools import NO_ENGINE, open_tool

        if name in NO_ENGINE and image_format is None:
            return self._registry_tool
        return self._once(
            f"{name} {image_format}",
            lambda: open_tool(name, options=self.registries, store=self._store, image_format=image_format),
        )

    def _once(self, name: str, create: Callable[[], T]) -> T:
        """Return what ``create`` returned the first time, under the same name."""
        with _CREATION:
            if name not in self._created:
                self._created[name] = create()
            created: T = self._created[name]
            return created
