"""Parse a Dockerfile and evaluate its variables.

The syntax is that of docker, see https://docs.docker.com/reference/dockerfile/.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from e2b_dockerfile_utils import DockerfileInstruction, DockerfileSyntaxError, ShellLex, parse_dockerfile_ast
from msgspec import Struct

from opmkit.bundle.errors import InvalidDockerfile
from opmkit.bundle.hint_terms import BundleSetting
from opmkit.core.files import disk_errors
from opmkit.core.hints import Hint
from opmkit.imagetools.reference import SCRATCH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path


_MAX_SIZE = 1 << 20
_MAX_EXPANDED = 2 << 20
_MAX_QUOTED = 200
_SUPPORTED = "FROM, ARG, LABEL, COPY and ADD"
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|git@")
_MODE = re.compile("[0-7]{1,4}")
_ROOT_OWNERS = frozenset({"0", "0:0"})
_BOOLEANS = frozenset({"", "true", "false"})
_PLATFORM_ARGUMENT = re.compile("(?:TARGET|BUILD)(?:PLATFORM|OS|ARCH|VARIANT)")
_VARIABLE = re.compile(r"\$\{?(\w+)", re.ASCII)
_PATTERN_MODIFIER = re.compile(r"\$\{\w*[#%/]")
_SCRATCH_PLATFORM = "linux/amd64"


class CopyInstruction(Struct, frozen=True):
    """A COPY or ADD instruction, with variables replaced; ``mode`` is that of the copied files, or None."""

    location: InstructionLocation
    sources: tuple[str, ...]
    destination: str
    mode: int | None = None

    @property
    def extracts_archives(self) -> bool:
        """Whether the instruction extracts archives instead of copying them."""
        return self.location.name == "ADD"


class Dockerfile(Struct, frozen=True):
    """The result of the instructions of a Dockerfile with one build stage.

    Attributes:
        base: Name of the base image, which may be ``scratch``.
        labels: Labels of the image.
        copies: COPY and ADD instructions in their order.
        unused_arguments: Build arguments that the Dockerfile does not declare.
    """

    base: str
    labels: Mapping[str, str]
    copies: tuple[CopyInstruction, ...]
    unused_arguments: tuple[str, ...]


def read_dockerfile(path: Path, arguments: Mapping[str, str]) -> Dockerfile:
    """Read a Dockerfile.

    Args:
        path: Path of the file.
        arguments: Build arguments, which override the defaults of ARG instructions.

    Raises:
        InvalidDockerfile: If the file is invalid, or has an instruction that requires a container engine.
        DiskError: If the file cannot be read.
    """
    with disk_errors(path), path.open("rb") as file:
        content = file.read(_MAX_SIZE + 1)
    if len(content) > _MAX_SIZE:
        raise InvalidDockerfile(f"{path}: larger than {_MAX_SIZE} bytes", hint="pass a Dockerfile")
    if b"\0" in content:
        raise InvalidDockerfile(f"{path}: not a text file", hint="pass a Dockerfile")
    try:
        parsed = parse_dockerfile_ast(content.decode())
    except UnicodeDecodeError as error:
        raise InvalidDockerfile(f"{path}: not UTF-8", hint="pass a Dockerfile") from error
    except DockerfileSyntaxError as error:
        problem = str(error).partition(": ")[2]
        raise InvalidDockerfile(f"{path}:{error.line}: {problem}", hint="correct the line") from error
    except RecursionError as error:
        raise InvalidDockerfile(f"{path}: too deeply nested JSON", hint="correct the instruction") from error
    evaluator = _Evaluator(parsed.escape_token, arguments)
    for instruction in parsed.instructions:
        evaluator.apply(InstructionLocation(path, instruction.start_line, instruction.name), instruction)
    return evaluator.result(path)


class _Evaluator(Struct):
    """The state of a build: variables, and what the instructions so far have set.

    ``global_variables`` are those that are declared before FROM.
    """

    escape_token: str
    arguments: Mapping[str, str]
    base: str = ""
    variables: dict[str, str] = {}
    global_variables: dict[str, str] = {}
    declared: set[str] = set()
    labels: dict[str, str] = {}
    copies: list[CopyInstruction] = []
    expanded: int = 0
    """Length of all words so far with their variables replaced, at most."""

    def apply(self, location: InstructionLocation, instruction: DockerfileInstruction) -> None:
        """Evaluate an instruction; raise InvalidDockerfile."""
        handlers: dict[str, Callable[[InstructionLocation, DockerfileInstruction], None]] = {
            "FROM": self._from,
            "ARG": self._arg,
            "LABEL": self._label,
            "COPY": self._copy,
            "ADD": self._copy,
        }
        handler = handlers.get(location.name)
        if handler is None:
            raise location.unsupported(f"instruction; supported are {_SUPPORTED}")
        if not instruction.args:
            raise location.invalid("no arguments")
        if not self.base and location.name not in {"FROM", "ARG"}:
            raise location.invalid("no FROM instruction before it")
        handler(location, instruction)

    def result(self, path: Path) -> Dockerfile:
        """Return the result; raise InvalidDockerfile if no base image is set."""
        if not self.base:
            raise InvalidDockerfile(f"{path}: no FROM instruction", hint="add 'FROM scratch' as the first line")
        unused = tuple(name for name in self.arguments if name not in self.declared)
        return Dockerfile(self.base, self.labels, tuple(self.copies), unused)

    def _from(self, location: InstructionLocation, instruction: DockerfileInstruction) -> None:
        if self.base:
            raise location.unsupported("second build stage")
        image, *alias = instruction.args
        if alias and (len(alias) != 2 or alias[0].upper() != "AS"):
            raise location.invalid(f"unexpected {' '.join(alias)!r} after the image")
        self.base = self._expand(location, image)
        if not self.base:
            raise location.invalid(f"empty name {image!r}", hint=Hint("set it with {}", BundleSetting.BUILD_ARG))
        for name, value in self._flags(location, instruction, {"platform"}):
            if self.base != SCRATCH or value != _SCRATCH_PLATFORM:
                raise location.unsupported(f"flag {name}")
        self.global_variables, self.variables = self.variables, {}

    def _arg(self, location: InstructionLocation, instruction: DockerfileInstruction) -> None:
        for word in instruction.args:
            raw_name, has_default, default = word.partition("=")
            name = self._expand(location, raw_name)
            if not name:
                raise location.invalid("empty name")
            self.declared.add(name)
            if name in self.arguments:
                self.variables[name] = self.arguments[name]
            elif has_default:
                self.variables[name] = self._expand(location, default)
            elif name in self.global_variables:
                self.variables[name] = self.global_variables[name]
            elif _PLATFORM_ARGUMENT.fullmatch(name):
                raise location.unsupported(f"variable {name}", hint=Hint("set it with {}", BundleSetting.BUILD_ARG))

    def _label(self, location: InstructionLocation, instruction: DockerfileInstruction) -> None:
        arguments = instruction.args
        for raw_name, raw_value in zip(arguments[::3], arguments[1::3], strict=True):
            name = self._expand(location, raw_name)
            if not name:
                raise location.invalid("empty name")
            self.labels[name] = self._expand(location, raw_value)

    def _copy(self, location: InstructionLocation, instruction: DockerfileInstruction) -> None:
        if instruction.heredocs:
            raise location.unsupported("heredoc", hint="write its content to a file")
        mode = self._mode(location, instruction)
        words = instruction.args
        if not instruction.json and any(any(map(str.isspace, word)) for word in words):
            raise location.invalid("path with a space", hint='write the paths as JSON: ["a b", "/c/"]')
        *sources, destination = [self._expand(location, word) for word in words]
        if not sources:
            raise location.invalid("source or destination is missing")
        for path in (*sources, destination):
            if not path or "\0" in path:
                raise location.invalid("empty path" if not path else f"invalid path {path!r}")
        if location.name == "ADD" and (urls := [source for source in sources if _URL.match(source)]):
            raise location.unsupported(f"URL {urls[0]}", hint="download it and copy the file")
        self.copies.append(CopyInstruction(location, tuple(sources), destination, mode))

    def _mode(self, location: InstructionLocation, instruction: DockerfileInstruction) -> int | None:
        """Return the mode that the flags of a COPY or ADD instruction set; raise InvalidDockerfile for other flags."""
        mode = None
        for name, value in self._flags(location, instruction, {"chmod", "chown", "link"}):
            if name == "chmod" and _MODE.fullmatch(value):
                mode = int(value, 8)
            elif not (name == "chown" and value in _ROOT_OWNERS) and not (name == "link" and value in _BOOLEANS):
                raise location.unsupported(f"{name} {value!r}")
        return mode

    def _flags(
        self, location: InstructionLocation, instruction: DockerfileInstruction, supported: set[str]
    ) -> Iterator[tuple[str, str]]:
        """Yield the names, without dashes, and the values of the flags of an instruction."""
        for flag in instruction.flags:
            name, _, value = flag.removeprefix("--").partition("=")
            if name not in supported:
                raise location.unsupported(f"flag {name}")
            yield name, self._expand(location, value)

    def _expand(self, location: InstructionLocation, word: str) -> str:
        """Remove quotes and escapes, and replace variables; undefined ones are empty."""
        if _PATTERN_MODIFIER.search(word):
            raise location.unsupported(f"pattern in the variable of {word!r}", hint="use another variable")
        references = _VARIABLE.findall(word)
        self.expanded += len(word) + sum(len(self.variables.get(name, "")) for name in references)
        if self.expanded > _MAX_EXPANDED:
            raise location.invalid(
                f"variables expand to more than {_MAX_EXPANDED} characters", hint="use fewer or shorter variables"
            )
        lexer = ShellLex(self.escape_token, env=self.variables, skip_unset_env=False)
        try:
            return lexer.process_word(word)
        except ValueError as error:
            raise location.invalid(_shortened(str(error))) from error


def _shortened(problem: str) -> str:
    return problem if len(problem) <= _MAX_QUOTED else f"{problem[:_MAX_QUOTED]}..."


ENGINE_HINT = "build the image with 'podman build' or 'docker build'"


class InstructionLocation(Struct, frozen=True):
    """The name of an instruction, its file and its first line, from 1."""

    file: Path
    line: int
    name: str

    def invalid(self, problem: str, *, hint: Hint | str = "correct the instruction") -> InvalidDockerfile:
        """Return the error for an instruction that is invalid for every builder."""
        return InvalidDockerfile(f"{self}: {problem}", hint=hint)

    def unsupported(self, feature: str, *, hint: Hint | str = "remove it") -> InvalidDockerfile:
        """Return the error for something that only a container engine can build."""
        return InvalidDockerfile(f"{self}: unsupported {feature}", hint=Hint.any_of(hint, ENGINE_HINT))

    def __str__(self) -> str:
        """Return the location as compilers write it, and the instruction."""
        return f"{self.file}:{self.line}: {self.name}"
