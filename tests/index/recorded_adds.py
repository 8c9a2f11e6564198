"""Replay of recorded ``registry add`` commands with bundles from directories instead of images."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from opmkit.bundle import Bundle, BundleError, ManifestCache, parse_bundle
from opmkit.index.errors import CatalogError
from opmkit.index.modes import UpdateMode
from opmkit.index.operations.add.options import AddOptions
from opmkit.index.operations.add.sqlite import add_bundles
from opmkit.index.sqlite import replace_database
from tests.kit.shared import SHARED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REGISTRY = "registry.example.com/corpus"
_CACHE = ManifestCache()
_SWITCHES = ("--permissive", "--overwrite-latest", "--enable-alpha")


@dataclass(frozen=True)
class AddStep:
    """A recorded ``registry add`` command."""

    images: tuple[str, ...]
    mode: str
    permissive: bool
    overwrite_latest: bool
    enable_alpha: bool

    @classmethod
    def parse(cls, argv: list[str]) -> AddStep | None:
        """Parse a command line; return None for another command or unknown flags."""
        known = {"--use-http", "--database", "--bundle-images", "--mode"}.union(_SWITCHES)
        if argv[:2] != ["registry", "add"] or {flag for flag in argv if flag.startswith("--")} - known:
            return None
        values = dict(zip(argv, [*argv[1:], ""], strict=True))
        images = tuple(filter(None, values.get("--bundle-images", "").strip('"').split(",")))
        return cls(images, values.get("--mode", "replaces"), *(flag in argv for flag in _SWITCHES))

    def bundles(self) -> Iterator[Bundle]:
        for image in dict.fromkeys(self.images):
            yield corpus_bundle(image.replace("{registry}", REGISTRY))

    def run(self, path: Path) -> int:
        """Change the database at ``path``; return the exit code."""
        try:
            with replace_database(path) as database:
                try:
                    add_bundles(
                        database,
                        self.bundles(),
                        AddOptions(
                            UpdateMode.parse(self.mode), self.permissive, self.overwrite_latest, self.enable_alpha
                        ),
                    )
                except (BundleError, FileNotFoundError):
                    if not self.permissive:
                        raise
        except CatalogError as error:
            return error.exit_code
        except (BundleError, FileNotFoundError):
            return 1
        return 0


@lru_cache(maxsize=64)
def corpus_bundle(image: str) -> Bundle:
    """Return the bundle of the corpus for an image."""
    package, _, tag = image.removeprefix(REGISTRY + "/").partition(":")
    root = SHARED / "corpus" / "bundles" / package / tag.replace("_", "+")
    if not root.is_dir():
        raise FileNotFoundError(root)
    files = {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    return parse_bundle(files, image=image, cache=_CACHE)


def add_steps(record: dict[str, Any]) -> list[AddStep] | None:
    """Return the steps of a record that has only adds, else None."""
    steps = [AddStep.parse(step["argv"]) for step in record["steps"]]
    return [step for step in steps if step is not None] if None not in steps else None
