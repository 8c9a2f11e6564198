"""Selection of a container engine, and checks of the options that it supports."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from opmkit.core.hints import Hint
from opmkit.imagetools.auth import Keychain
from opmkit.imagetools.errors import ImageToolsError
from opmkit.imagetools.hint_terms import ImageSetting
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
    """Return the tool called ``docker``, ``podman`` or ``buildah``; its first call connects to the engine.

    Raises:
        ImageToolsError: The engine does not support the image format, or certificates from ``options``.
    """
    settings = RegistrySettings()
    keychain = Keychain(options.authfile, helpers=settings.credential_helpers)
    engine = _FACTORIES[name](options, image_format)
    registries = RegistryClient(options, settings=settings)
    return EngineTool(engine, keychain, registries, RegistryTool(registries, store))


def _docker(options: RegistryOptions, image_format: ImageFormat | None) -> Engine:
    from opmkit.imagetools.engines.docker import DockerEngine

    if image_format is ImageFormat.OCI:
        raise ImageToolsError(
            "docker: unsupported image format oci",
            hint=Hint.any_of(
                Hint("use {}", ImageSetting.IMAGE_FORMAT.with_value("v2s2")),
                Hint("build OCI images with {}, podman or buildah", ImageSetting.CONTAINER_TOOL.with_value("none")),
            ),
        )
    _check_no_certificates("docker", options, "/etc/docker/certs.d/HOST")
    if options.plain_http or not options.verify_tls:
        _log.warning(
            "docker: ignoring the TLS options; to allow plain HTTP or untrusted certificates, add the registry to "
            "insecure-registries in the daemon.json of the daemon"
        )
    return DockerEngine()


def _podman(options: RegistryOptions, image_format: ImageFormat | None) -> Engine:
    from opmkit.imagetools.engines.podman import PodmanEngine

    _check_no_certificates("podman", options, "/etc/containers/certs.d/HOST")
    return PodmanEngine(image_format or ImageFormat.OCI, verify_tls=_verify_tls(options))


def _buildah(options: RegistryOptions, image_format: ImageFormat | None) -> Engine:
    from opmkit.imagetools.engines.buildah import BuildahEngine

    image_format = image_format or ImageFormat.OCI
    return BuildahEngine(image_format, verify_tls=_verify_tls(options), certificates=options.certificates())


_FACTORIES = {"docker": _docker, "podman": _podman, "buildah": _buildah}


def _verify_tls(options: RegistryOptions) -> bool:
    """Return whether podman and buildah require TLS; they have no separate option for plain HTTP."""
    return options.verify_tls and not options.plain_http


def _check_no_certificates(engine: str, options: RegistryOptions, directory: str) -> None:
    if options.ca_file is not None or options.cert_dir is not None:
        raise ImageToolsError(
            f"{engine}: unsupported option: certificates are configured in the engine",
            hint=Hint.any_of(
                f"put them in {directory} where {engine} runs",
                Hint("use {}", ImageSetting.CONTAINER_TOOL.with_value("none")),
            ),
        )
