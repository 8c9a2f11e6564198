"""Images and settings for tests of engines."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

from opmkit.imagetools.build_spec import BuildSpec
from opmkit.imagetools.copy import copy_image
from opmkit.imagetools.image import Image, load_image
from opmkit.imagetools.layer import LayerFile
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from opmkit.imagetools.store import ImageStore
from opmkit.imagetools.tools import engine as open_engine_module
from tests.kit.requirements import require

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from opmkit.imagetools.image_format import ImageFormat
    from opmkit.imagetools.reference import Reference
    from opmkit.imagetools.tools.engine import EngineTool
    from tests.kit.engines import Engine
    from tests.kit.registry import Registry


ENGINES = ("docker", "podman", "buildah")
HTTP = RegistryOptions(plain_http=True)
FILES = {"manifests/csv.yaml": b"kind: ClusterServiceVersion\n", "metadata/annotations.yaml": b"annotations: {}\n"}
BUILD_SPEC = BuildSpec(
    files=tuple(LayerFile(path, content) for path, content in FILES.items()),
    labels={"package.v1": "demo", "odd": 'quo"te $HOME \\ back\nnew line'},
    entrypoint=("/bin/opm",),
    cmd=("serve", "$DATABASE", 'quo"te'),
    exposed_ports=("50051/tcp",),
    annotations={"note": "a b"},
)


def open_engine(name: str, options: RegistryOptions, image_format: ImageFormat | None = None) -> EngineTool:
    """Return the tool of an engine, with an empty image store."""
    return open_engine_module.open_engine(name, options, ImageStore.open(), image_format)


def use_engine(name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """Start an engine and set its environment variables."""
    require(name)
    started: Engine = request.getfixturevalue("docker_daemon" if name == "docker" else "container_storage")
    for key, value in started.settings.items():
        monkeypatch.setenv(key, value)
    return started


def load_from_registry(reference: Reference, options: RegistryOptions = HTTP) -> Image:
    """Load an image from its registry, without an engine."""
    return load_image(RegistryClient(options).repository(reference), reference.identifier)


def push_image(image: Image, reference: Reference, options: RegistryOptions = HTTP) -> None:
    """Push an image to its registry, without an engine."""
    copy_image(image, RegistryClient(options).repository(reference), reference.tag)


def options_with_credentials(registry: Registry, directory: Path, password: str) -> RegistryOptions:
    """Return options with a credentials file for the user ``tester``."""
    path = directory / f"{password}.json"
    auth = base64.b64encode(f"tester:{password}".encode()).decode()
    path.write_text(json.dumps({"auths": {registry.host: {"auth": auth}}}))
    return RegistryOptions(plain_http=True, authfile=path)
