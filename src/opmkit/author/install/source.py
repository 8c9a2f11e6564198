"""Sources of OLM releases: directories, files, images, and the web."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.author.install.release import Release, parse_release
from opmkit.author.run.errors import InvalidRelease, ReleaseUnavailable
from opmkit.author.run.hint_terms import OlmSetting
from opmkit.bundle.source import parse_location, path_or_image
from opmkit.core.errors import DiskError, LimitExceeded
from opmkit.core.hints import Hint
from opmkit.imagetools.errors import ImageToolsError, NotFound
from opmkit.imagetools.layer.limits import MEMORY_LIMITS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from opmkit.imagetools.registry import RegistryOptions
    from opmkit.imagetools.tools.registry import RegistryTool

LATEST = "latest"
RELEASES = "https://github.com/operator-framework/operator-lifecycle-manager/releases"
_ASSETS = ("crds.yaml", "olm.yaml")
"""Files of a release on the web."""
_DIRECTORY = "manifests"
_SUFFIXES = (".yaml", ".yml", ".json")
_MAX_FILE = 32 << 20
_FIRST_WITH_PREFIX = (0, 17)
"""The first minor version whose tag begins with ``v``."""


@dataclass(frozen=True, slots=True)
class ReleaseReader:
    """Reads releases.

    Attributes:
        options: TLS settings of downloads.
        tool: opens the tool that reads images.
    """

    options: RegistryOptions
    tool: Callable[[], RegistryTool]

    def read(self, source: str) -> Release:
        """Return the release in a directory, file, image or URL, or for ``-`` on standard input.

        Raises:
            InvalidRelease: the source is not a release.
            ReleaseUnavailable: a file cannot be read or downloaded.
            ImageToolsError: the image cannot be read.
        """
        if source == "-":
            return parse_release({"standard input": sys.stdin.buffer.read(_MAX_FILE)}, "standard input")
        if source.startswith(("http://", "https://")):
            return self._download(source)
        if Path(source).exists():
            return parse_release(_read_path(Path(source)), source)
        location = parse_location(source)
        if isinstance(location, Path):
            raise ReleaseUnavailable(f"{source}: no such file or directory")
        with path_or_image(source):
            found = self.tool().read_tree(location, (_DIRECTORY, *_ASSETS), MEMORY_LIMITS)
        return parse_release(_select(found, source), source)

    def download(self, version: str) -> Release:
        """Download a published release.

        Raises:
            InvalidRelease: the files are not a release.
            ReleaseUnavailable: the release does not exist or cannot be downloaded.
        """
        path = f"{LATEST}/download" if version == LATEST else f"download/{tag_of(version)}"
        return self._download(f"{RELEASES}/{path}")

    def _download(self, url: str) -> Release:
        names = [""] if url.endswith(_SUFFIXES) else [f"/{name}" for name in _ASSETS]
        base = url.rstrip("/")
        return parse_release({f"{base}{name}": self._fetch(f"{base}{name}") for name in names}, url)

    def _fetch(self, url: str) -> bytes:
        from opmkit.imagetools.registry.download import download  # slow to import

        hint = Hint("download crds.yaml and olm.yaml elsewhere, and pass their directory with {}", OlmSetting.FROM)
        try:
            return download(url, _MAX_FILE, self.options)
        except LimitExceeded as error:
            raise InvalidRelease(error.message) from error
        except NotFound as error:
            raise ReleaseUnavailable(error.message, hint=Hint.all_of("check the version", hint)) from error
        except (ImageToolsError, DiskError) as error:
            raise ReleaseUnavailable(error.message, hint=hint) from error


def tag_of(version: str) -> str:
    """Return the tag of a version; what is not a version is used as it is."""
    number = version.removeprefix("v")
    parts = number.partition("-")[0].partition("+")[0].split(".")
    if not all(part.isdecimal() for part in parts):
        return version
    is_old = tuple(map(int, (*parts, "0")))[:2] < _FIRST_WITH_PREFIX
    return number if is_old else f"v{number}"


def _read_path(path: Path) -> dict[str, bytes]:
    """Return the manifests in a file, or in a directory: the assets of a release, or all, there or in ``manifests``."""
    if not path.is_dir():
        return {str(path): _read_file(path)}
    assets = [path / name for name in _ASSETS]
    if not all(map(Path.is_file, assets)):
        assets = _manifests(path) or _manifests(path / _DIRECTORY)
    if not assets:
        raise InvalidRelease(f"{path}: no manifests found", hint="pass a directory with crds.yaml and olm.yaml")
    return {str(file): _read_file(file) for file in assets}


def _manifests(directory: Path) -> list[Path]:
    found = sorted(directory.iterdir()) if directory.is_dir() else []
    return [path for path in found if path.suffix in _SUFFIXES and path.is_file()]


def _read_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_FILE + 1)
    except OSError as error:
        raise ReleaseUnavailable(f"{path}: {error.strerror}") from error
    if len(content) > _MAX_FILE:
        raise InvalidRelease(f"{path}: larger than {_MAX_FILE} bytes")
    return content


def _select(files: dict[str, bytes], source: str) -> dict[str, bytes]:
    """Return the manifests among the files of an image: the assets of a release, otherwise those in ``manifests``."""
    names: Iterable[str] = _ASSETS
    if not all(name in files for name in names):
        names = sorted(name for name in files if name.startswith(f"{_DIRECTORY}/") and name.endswith(_SUFFIXES))
    selected = {f"{source}: {name}": files[name] for name in names}
    if not selected:
        raise InvalidRelease(f"{source}: no manifests found in the image", hint="use an image with /manifests")
    return selected
