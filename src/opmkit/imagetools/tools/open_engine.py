"""Which engine a name means, and whether it can do what it is asked for."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from opmkit.imagetools.auth import Keychain
from opmkit.imagetools.errors import ImageToolsError
from opmkit.imagetools.hints import Hint, Setting
from opmkit.imagetools.image_format import ImageFormat
from opmkit.imagetools.registry import RegistryClient
from opmkit.imagetools.registry_config import RegistrySettings
from opmkit.imagetools.tools.engine import EngineTool
from opmkit.imagetools.tools.registry import RegistryTool

if TYPE_CHECKING:
    from opmkit.imagetools.engines.engine import Engine
    from opmkit.imagetools.registry import RegistryOptions
    from opmkit.imagetools.store import ImageStore

_log = logging.getLogger(__name__)


def open_engine(
    name: str, options: RegistryOptions, store: ImageStore, image_format: ImageFormat | None = None
) -> EngineTool:
    """The tool over ``docker``, ``podman`` or ``buildah``, which builds images of that format.

    Nothing is connected to or started before it is needed. Raises ImageToolsError for options that the engine can't
    follow: docker builds in its own format only, and of how registries are spoken to an engine has settings of its own.
    """
    settings = RegistrySettings()
    keychain = Keychain(options.authfile, helpers=settings.credential_helpers)
    engine = _ENGINES[name](options, image_format)
    registries = RegistryClient(options, settings=settings)
    return EngineTool(engine, keychain, registries, RegistryTool(registries, store))


def _docker(options: RegistryOptions, image_format: ImageFormat | None) -> Engine:
    from opmkit.imagetools.engines.docker import DockerEngine

    if image_format is ImageFormat.OCI:
        raise ImageToolsError(
            "docker builds images in docker's own format only",
            hint=Hint.any_of(
                Hint("use {}", Setting.IMAGE_FORMAT.with_value("v2s2")),
                Hint("build OCI images with {}, podman or buildah", Setting.CONTAINER_TOOL.with_value("none")),
            ),
        )
    _refuse_certificates("docker", options, "/etc/docker/certs.d/HOST")
    if options.plain_http or not options.verify_tls:
        _log.warning(
            "docker decides by itself how registries are spoken to; to allow plain HTTP or any certificate, "
            "name a registry in insecure-registries of its daemon.json"
        )
    return DockerEngine()


def _podman(options: RegistryOptions, image_format: ImageFormat | None) -> Engine:
    from opmkit.imagetools.engines.podman import PodmanEngine

    _refuse_certificates("podman", options, "/etc/containers/certs.d/HOST")
    return PodmanEngine(image_format or ImageFormat.OCI, verify_tls=_verifies(options))


def _buildah(options: RegistryOptions, image_format: ImageFormat | None) -> Engine:
    from opmkit.imagetools.engines.buildah import BuildahEngine

    image_format = image_format or ImageFormat.OCI
    return BuildahEngine(image_format, verify_tls=_verifies(options), certificates=options.certificates())


_ENGINES = {"docker": _docker, "podman": _podman, "buildah": _buildah}


def _verifies(options: RegistryOptions) -> bool:
    """What podman and buildah verify; what is plain HTTP is among what they don't."""
    return options.verify_tls and not options.plain_http


def _refuse_certificates(engine: str, options: RegistryOptions, directory: str) -> None:
    if options.ca_file is not None or options.cert_dir is not None:
        raise ImageToolsError(
            f"{engine}: unsupported: passing certificates to the engine",
            hint=Hint.any_of(
                f"put them in {directory} where {engine} runs",
                Hint("use {}", Setting.CONTAINER_TOOL.with_value("none")),
            ),
        )
