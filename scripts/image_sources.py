"""Interpreters with installed packages, whose files the runtime image contains."""

from __future__ import annotations

import platform
import re
import site
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from sbom import normalized, requirements

from opmkit.core.errors import OpmkitError
from opmkit.imagetools.spec import Platform

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HOME = Path("opt/opmkit")
LINKED = re.compile(r"^\s*(?:\S+ => )?(/\S+) \(0x", re.MULTILINE)
NEEDED = re.compile(r"\(NEEDED\).*\[(.+)\]")
LOADER = re.compile(r"program interpreter: (\S+)\]")


@dataclass(frozen=True)
class HostSource:
    """The running interpreter with its packages and the shared libraries of this machine."""

    platform: Platform
    interpreter: Path
    library: Path
    """The directory of the standard library."""
    modules: Path
    """The directory of the packages in the image."""
    version: str
    """The version of the interpreter."""

    @classmethod
    def running(cls) -> HostSource:
        """Return that of the running interpreter."""
        return cls(
            Platform.from_host(),
            Path(sys.executable).resolve(),
            Path(sysconfig.get_path("stdlib")),
            Path(site.getsitepackages([f"/{HOME}"])[-1]).relative_to("/"),
            platform.python_version(),
        )

    def dependencies(self, name: str) -> list[metadata.Distribution]:
        """Return the installed packages that a package requires, directly or indirectly, by name."""
        return find_dependencies(name, sys.path, {})

    def libraries(self, binaries: Sequence[Path], inside: Sequence[Path]) -> dict[str, Path]:
        """Return the shared libraries that files are linked to, by path in the image, except those ``inside``.

        They go where the loader looks by itself, which is where the C library is; the loader has its place.
        """
        # The interpreter where it is, for its own path may tell where its library is.
        argv = ["ldd", sys.executable, *map(str, binaries)]
        linked = subprocess.run(argv, capture_output=True, text=True, check=False).stdout
        found = {Path(path) for path in LINKED.findall(linked)}
        home = next(path.parent for path in found if path.name.startswith(("libc.so", "ld-musl")))
        outside = [path for path in found if not any(path.is_relative_to(each) for each in inside)]
        return {str(path if path.name.startswith("ld-") else home / path.name): path for path in outside}


@dataclass(frozen=True)
class UnpackedSource(HostSource):
    """An interpreter of another platform, in a directory with the packages of a Linux distribution."""

    root: Path
    packages: Path
    """The directory of the installed Python packages."""
    machine: str
    """The architecture, as in environment markers."""

    def dependencies(self, name: str) -> list[metadata.Distribution]:
        """Return the installed packages that a package requires, directly or indirectly, by name."""
        return find_dependencies(name, [str(self.packages)], {"platform_machine": self.machine})

    def libraries(self, binaries: Sequence[Path], inside: Sequence[Path]) -> dict[str, Path]:
        """Return the shared libraries that files are linked to, by path in the image, except those ``inside``."""
        [loader] = LOADER.findall(_readelf("--program-headers", self.interpreter))
        present = {path.name for each in inside for path in each.rglob("*.so*")}
        directory = f"{self.machine}-linux-gnu"
        placed: dict[str, Path] = {}
        pending = [self.interpreter, *binaries]
        while pending:
            for name in set(NEEDED.findall(_readelf("--dynamic", *pending, *pending[:1]))) - present:
                path = next(
                    (path for each in ("lib", "usr/lib") if (path := self.root / each / directory / name).exists()),
                    None,
                )
                if path is None:
                    raise OpmkitError(f"{name}: shared library not found for {self.platform}")
                placed[loader if name == Path(loader).name else f"/lib/{directory}/{name}"] = path
            present |= {path.name for path in placed.values()}
            pending = [path for path in placed.values() if path not in binaries]
            binaries = [*binaries, *pending]
        return placed


def find_dependencies(name: str, path: Sequence[str], markers: Mapping[str, str]) -> list[metadata.Distribution]:
    """Return the packages in ``path`` that an installed package requires, directly or indirectly, by name."""
    found: dict[str, metadata.Distribution] = {normalized(name): metadata.distribution(name)}

    def find(requirement: Requirement) -> None:
        key = normalized(requirement.name)
        if key not in found:
            present = metadata.distributions(name=requirement.name, path=list(path))
            found[key] = next(iter(present), None) or _missing(requirement.name)
            find_all(found[key], requirement.extras)

    def find_all(distribution: metadata.Distribution, extras: set[str]) -> None:
        for needed in requirements(distribution, extras, markers):
            find(needed)

    find_all(found[normalized(name)], set())
    return [found[key] for key in sorted(found) if key != normalized(name)]


def _missing(name: str) -> metadata.Distribution:
    raise OpmkitError(f"{name}: package not found", hint="install the packages of requirements.lock")


def _readelf(*arguments: object) -> str:
    done = subprocess.run(["readelf", *map(str, arguments)], capture_output=True, text=True, check=False)
    return done.stdout
