"""The build context: the files that COPY and ADD can copy."""

from __future__ import annotations

import os
import posixpath
import re
import stat
import warnings
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from e2b_dockerfile_utils import PatternMatcher
from msgspec import Struct

from opmkit.bundle.errors import InvalidDockerfile
from opmkit.core.files import disk_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.bundle.dockerfile.instructions import InstructionLocation


_SPECIFIC_IGNORE_SUFFIXES = (".containerignore", ".dockerignore")
_IGNORE_FILES = (".containerignore", ".dockerignore")
_MAX_IGNORE_SIZE = 1 << 20
_EXECUTABLE = 0o100
_CONTEXT_HINT = "check the path, which is relative to the build context"


class ContextFile(Struct, frozen=True):
    """A regular file of the context to copy; ``name`` is its path in the copied directory, or its own name."""

    name: str
    path: Path
    is_executable: bool


class ContextSource(Struct, frozen=True):
    """A file or directory that a source of an instruction names, with its files in the order of their names."""

    name: str
    is_directory: bool
    files: tuple[ContextFile, ...]


class BuildContext:
    """A directory without the files that its ignore file excludes."""

    def __init__(self, directory: Path, ignored: PatternMatcher, ignore_file: Path | None = None) -> None:
        """Create the context of a directory; ``ignored`` are the patterns of ``ignore_file``."""
        self._root = Path(os.path.realpath(directory))
        self._directory = directory
        self._ignored = ignored
        self.ignore_file = ignore_file

    @classmethod
    def open(cls, directory: Path, dockerfile: Path) -> BuildContext:
        """Return the context in a directory, without the files that its ignore file excludes.

        As in docker and podman, this is the first of ``DOCKERFILE.containerignore`` and ``DOCKERFILE.dockerignore``
        next to the Dockerfile, and ``.containerignore`` and ``.dockerignore`` in the directory.

        Raises:
            InvalidDockerfile: If the context is not a directory, or the ignore file is invalid.
            DiskError: If the ignore file cannot be read.
        """
        if not directory.is_dir():
            raise InvalidDockerfile(f"{directory}: no such directory", hint="pass the directory to copy files from")
        specific = [dockerfile.with_name(f"{dockerfile.name}{suffix}") for suffix in _SPECIFIC_IGNORE_SUFFIXES]
        for path in (*specific, *(directory / name for name in _IGNORE_FILES)):
            if path.is_file():
                return cls(directory, _read_ignore_file(path), path)
        return cls(directory, PatternMatcher([]))

    def find(self, location: InstructionLocation, source: str) -> list[ContextSource]:
        """Return what a source of an instruction names: one file or directory, or all that match its wildcards.

        Raises:
            InvalidDockerfile: If there is nothing, or something other than files and directories inside the context.
            DiskError: If a directory cannot be read.
        """
        relative = posixpath.normpath(source.lstrip("/") or ".")
        if relative == ".." or relative.startswith("../"):
            raise self._outside(location, source)
        with disk_errors(self._directory):
            if not has_wildcards(relative):
                return [self._source(location, source, relative)]
            matches = list(self._match(location, source, relative.split("/")))
            if not matches:
                hint = f"{_CONTEXT_HINT}, and {self.ignore_file}" if self.ignore_file else _CONTEXT_HINT
                raise location.invalid(f"no file of {self._directory} matches {source!r}", hint=hint)
            return [self._source(location, match, match) for match in matches]

    def _match(self, location: InstructionLocation, source: str, components: list[str]) -> Iterator[str]:
        """Yield the paths that match a pattern, in the order of their names."""
        paths = [""]
        for component in components:
            if not has_wildcards(component):
                paths = [posixpath.join(path, component) for path in paths]
                continue
            try:
                pattern = FilePattern.parse(component)
            except ValueError as error:
                raise location.invalid(f"invalid pattern {source!r}: {error}") from error
            paths = [
                posixpath.join(path, name)
                for path in paths
                if self._contains(path) and (self._root / path).is_dir()
                for name in sorted(child.name for child in (self._root / path).iterdir())
                if pattern.matches(name)
            ]
        return (path for path in paths if (self._root / path).exists() and not self._is_ignored(path))

    def _source(self, location: InstructionLocation, source: str, relative: str) -> ContextSource:
        """Return the source at a path, following symbolic links inside the context."""
        if not (self._root / relative).exists():
            raise location.invalid(f"{source!r} does not exist in {self._directory}", hint=_CONTEXT_HINT)
        if not self._contains(relative):
            raise self._outside(location, source)
        path = Path(os.path.realpath(self._root / relative))
        if self._is_ignored(relative) or self._is_ignored(path.relative_to(self._root).as_posix()):
            raise self._excluded(location, source, is_directory=path.is_dir())
        if path.is_dir():
            files = tuple(self._files(location, path))
            if not files and self._ignored.matches(relative):  # engines do not even see the directory
                raise self._excluded(location, source, is_directory=True)
            return ContextSource(source, True, files)
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            raise location.unsupported(f"kind of file: {source!r}", hint="copy a regular file")
        file = ContextFile(posixpath.basename(relative), path, bool(mode & _EXECUTABLE))
        return ContextSource(source, False, (file,))

    def _files(self, location: InstructionLocation, directory: Path) -> list[ContextFile]:
        """Return the files below a directory; links among them are replaced by the files that they point to."""
        files: dict[Path, ContextFile] = {}
        links = []
        for path, mode in self._walk(directory):
            if stat.S_ISLNK(mode):
                links.append(path)
            elif stat.S_ISREG(mode):
                name = path.relative_to(directory).as_posix()
                files[path] = ContextFile(name, path, bool(mode & _EXECUTABLE))
            else:
                raise location.unsupported(f"kind of file: '{path}'", hint="copy only regular files")
        linked = []
        for path in links:
            target = files.get(Path(os.path.realpath(path)))
            if target is None or not _stays_below(directory, path):
                raise location.unsupported(
                    f"symbolic link '{path}': its target is not copied with it", hint="replace the link with the file"
                )
            linked.append(ContextFile(path.relative_to(directory).as_posix(), target.path, target.is_executable))
        return sorted([*files.values(), *linked], key=lambda file: file.name)

    def _walk(self, directory: Path) -> Iterator[tuple[Path, int]]:
        """Yield the paths and modes of all that is below a directory, without directories and ignored files."""
        pending = [directory]
        while pending:
            current = pending.pop()
            for path in current.iterdir():
                relative = path.relative_to(self._root).as_posix()
                mode = path.lstat().st_mode
                is_ignored = self._ignored.matches(relative)
                if stat.S_ISDIR(mode):
                    if not is_ignored or self._ignored.may_match_under(relative):
                        pending.append(path)
                elif not is_ignored:
                    yield path, mode

    def _contains(self, relative: str) -> bool:
        """Return whether a path is inside the context after following links."""
        return Path(os.path.realpath(self._root / relative)).is_relative_to(self._root)

    def _is_ignored(self, relative: str) -> bool:
        if relative == "." or not self._ignored.matches(relative):
            return False
        return not ((self._root / relative).is_dir() and self._ignored.may_match_under(relative))

    def _excluded(self, location: InstructionLocation, source: str, *, is_directory: bool) -> InvalidDockerfile:
        pattern = f"!{source.strip('/')}{'/**' if is_directory else ''}"
        return location.invalid(
            f"{source!r} is excluded by {self.ignore_file}", hint=f"add the line {pattern} to {self.ignore_file}"
        )

    def _outside(self, location: InstructionLocation, source: str) -> InvalidDockerfile:
        return location.invalid(
            f"{source!r} is outside of the build context {self._directory}", hint="pass a context that contains it"
        )


def _stays_below(directory: Path, link: Path) -> bool:
    """Return whether a link is relative and does not lead out of a directory, not even to return to it."""
    target = link.readlink()
    depths = accumulate(
        (-1 if part == ".." else 1 for part in target.parts), initial=len(link.parent.relative_to(directory).parts)
    )
    return not target.is_absolute() and min(depths) >= 0


def _read_ignore_file(path: Path) -> PatternMatcher:
    """Parse an ignore file; raise InvalidDockerfile."""
    with disk_errors(path), path.open("rb") as file:
        content = file.read(_MAX_IGNORE_SIZE + 1)
    if len(content) > _MAX_IGNORE_SIZE:
        raise InvalidDockerfile(f"{path}: larger than {_MAX_IGNORE_SIZE} bytes", hint="pass fewer patterns")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of re, for a pattern such as [[a]
            return PatternMatcher(content.decode("utf-8-sig").split("\n"))
    except ValueError as error:  # also for invalid UTF-8
        raise InvalidDockerfile(f"{path}: {error}", hint="correct the pattern") from error


_WILDCARDS = re.compile(r"[*?\[\\]")
_TOKEN = re.compile(
    r"\[(?P<negation>\^?+)(?P<members>(?:\\.|[^\\\]])+)\]|\\(?P<escaped>.)|(?P<other>[^\[\\])", re.DOTALL
)
_MEMBER = re.compile(r"\\.|[\[^&~|]", re.DOTALL)
_ANY = re.compile(".", re.DOTALL)


def has_wildcards(path: str) -> bool:
    """Return whether a path is a pattern."""
    return _WILDCARDS.search(path) is not None


class FilePattern(Struct, frozen=True):
    """A pattern of one component of a path: expressions for one character each, and None for ``*``."""

    tokens: tuple[re.Pattern[str] | None, ...]

    @classmethod
    def parse(cls, text: str) -> FilePattern:
        """Parse a pattern.

        Raises:
            ValueError: It is invalid.
        """
        tokens: list[re.Pattern[str] | None] = []
        position = 0
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise ValueError(f"syntax error in {text[position:]!r}")
            tokens.append(_expression(match))
            position = match.end()
        return cls(tuple(tokens))

    def matches(self, name: str) -> bool:
        """Return whether a name matches, in a time proportional to the lengths of both."""
        position = index = 0
        star, retry = -1, 0  # the last star, and where to continue the name if it matches one more character
        while position < len(name):
            if index < len(self.tokens) and self.tokens[index] is None:
                star, retry = index, position
                index += 1
            elif index < len(self.tokens) and (token := self.tokens[index]) and token.match(name[position]):
                position, index = position + 1, index + 1
            elif star >= 0:
                retry += 1
                position, index = retry, star + 1
            else:
                return False
        return all(token is None for token in self.tokens[index:])


def _expression(match: re.Match[str]) -> re.Pattern[str] | None:
    """Return the expression for a token of a pattern, None for ``*``."""
    if match["members"]:
        members = _MEMBER.sub(lambda member: re.escape(member[0][-1]), match["members"])
        try:
            return re.compile(f"[{match['negation']}{members}]", re.DOTALL)
        except re.error as error:
            raise ValueError(str(error)) from error
    if match["other"] == "*":
        return None
    return _ANY if match["other"] == "?" else re.compile(re.escape(match["escaped"] or match["other"]))
