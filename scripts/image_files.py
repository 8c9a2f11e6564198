"""Select, strip and compile the files of the runtime image."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tarfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

UNUSED_LIBRARY = {
    "dist-packages",
    "distutils",
    "ensurepip",
    "idlelib",
    "lib2to3",
    "pydoc_data",
    "site-packages",
    "test",
    "tkinter",
    "turtle.py",
    "turtledemo",
    "sitecustomize.py",
    "venv",
}
"""Parts of the standard library for development, teaching and graphical programs."""
UNUSED_PREFIXES = ("config-", "_test", "_ctypes_test", "_xx", "xx")
UNUSED_EXTENSIONS = ("_curses", "_curses_panel", "_dbm", "_gdbm", "_tkinter", "nis", "ossaudiodev", "readline")
"""Compiled modules that would require libraries for terminals, databases and NIS."""
UNUSED_DIRECTORIES = {"__pycache__", "test", "tests", "testdata"}
UNUSED_SUFFIXES = (".a", ".c", ".cpp", ".h", ".pxd", ".pyi", ".pyx")
LEXERS = {"__init__.py", "_mapping.py", "data.py", "python.py", "special.py"}
"""Lexers of Pygments for tracebacks, JSON, YAML and plain text."""
ELF = b"\x7fELF"


def unused_in_library(parts: tuple[str, ...], names: list[str]) -> set[str]:
    """Return the entries of a directory of the standard library that are not copied."""
    unused = {name for name in names if is_unused((*parts, name)) or is_unused((*parts, name, ""))}
    unused |= {
        name for name in names if name.startswith(UNUSED_PREFIXES) or name.partition(".")[0] in UNUSED_EXTENSIONS
    }
    return unused | (UNUSED_LIBRARY if not parts else set())


def is_unused(parts: tuple[str, ...]) -> bool:
    """Return whether a file, by its path below the directory of modules, is not copied."""
    if parts[:2] == ("pygments", "lexers"):
        return parts[2] not in LEXERS
    return not UNUSED_DIRECTORIES.isdisjoint(parts[:-1]) or parts[-1].endswith(UNUSED_SUFFIXES)


def strip_binaries(stages: Iterable[Path]) -> None:
    """Remove symbols that are only for debuggers, if binutils is installed."""
    binaries = [path for stage in stages for path in stage.rglob("*") if path.is_file() and _is_elf(path)]
    if shutil.which("strip"):
        subprocess.run(["strip", "--strip-unneeded", *binaries], check=True)
    else:
        print("strip: not found: the image contains symbols for debuggers; install binutils", file=sys.stderr)


def compile_modules(stage: Path, with_source: Path) -> None:
    """Write bytecode, since containers cannot, without paths and times of this machine; remove the source.

    That of the package in ``with_source``, a path in the stage, remains, because opmkit reads it.
    """
    _compile(stage, stage, "-b", "-x", f"/{with_source}/")
    for module in stage.rglob("*.py"):
        if module.with_suffix(".pyc").exists():
            module.unlink()
    if (stage / with_source).exists():
        _compile(stage, stage / with_source)


def tar(stage: Path, mtime: int) -> Iterator[bytes]:
    """Yield the blocks of a tar archive of ``stage``; ``mtime`` is in seconds of Unix time."""
    for path in sorted(stage.rglob("*")):
        info = tarfile.TarInfo(path.relative_to(stage).as_posix())
        info.mtime = mtime
        mode = path.stat().st_mode
        if path.is_dir():
            info.type, info.mode = tarfile.DIRTYPE, 0o1777 if mode & stat.S_ISVTX else 0o755
            yield info.tobuf(tarfile.PAX_FORMAT)
        else:
            content = path.read_bytes()
            info.size, info.mode = len(content), 0o755 if mode & stat.S_IXUSR else 0o644
            yield info.tobuf(tarfile.PAX_FORMAT) + content + bytes(-len(content) % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(ELF)) == ELF


def _compile(stage: Path, directory: Path, *options: str) -> None:
    flags = ("-q", "-j", "0", "--invalidation-mode", "unchecked-hash", "-s", str(stage), "-p", "/", *options)
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    # Files that cannot be compiled, such as templates with the suffix .py, remain uncompiled.
    subprocess.run(
        [sys.executable, "-m", "compileall", *flags, str(directory)], env=environment, check=False, stdout=-3
    )
