"""One file of settings for registries, in version 2 of the format: containers-registries.conf(5)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from opmkit.imagetools.errors import ImageToolsError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

SIZE_LIMIT = 4 << 20
"""The longest file, in bytes, that is read."""

_PULL_FROM_MIRROR = ("all", "digest-only", "tag-only")
_HINT = "see containers-registries.conf(5)"
_VERSION_1 = ("search", "insecure", "block")
_WILDCARD = "*."


@dataclass(frozen=True, slots=True)
class Mirror:
    """A copy of what is below a prefix; asked for references with a digest, for those without one, or for both."""

    location: str
    insecure: bool = False
    for_digests: bool = True
    for_tags: bool = True


@dataclass(frozen=True, slots=True)
class Registry:
    """A ``[[registry]]`` table: what holds for the images whose names begin with ``prefix``.

    ``location`` takes the place of the prefix when images are read; it is empty where it is the prefix itself. ``file``
    says where the table stands.
    """

    prefix: str
    file: Path
    location: str = ""
    insecure: bool = False
    blocked: bool = False
    mirrors: tuple[Mirror, ...] = ()

    def matched(self, name: str) -> int:
        """How many characters of ``name`` (registry and repository) the prefix stands for; 0 if it doesn't match.

        Like podman, a host without a port stands for all ports, and ``*.example.com`` for any depth of subdomains.
        """
        if self.prefix.startswith(_WILDCARD):
            host = name.partition("/")[0].partition(":")[0]
            return len(host) if host.endswith(self.prefix[1:]) else 0
        follows = name[len(self.prefix) : len(self.prefix) + 1]
        return len(self.prefix) if name.startswith(self.prefix) and follows in ("", "/", ":") else 0


@dataclass(frozen=True, slots=True)
class RegistriesConf:
    """The content of a file, or of several, the later ones taking precedence.

    ``registries`` are by prefix. ``search`` are the registries for names without one, ``helpers`` the credential
    helpers; None where a file doesn't say. An alias with an empty value is none.
    """

    registries: Mapping[str, Registry] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    search: tuple[str, ...] | None = None
    helpers: tuple[str, ...] | None = None

    @classmethod
    def read(cls, path: Path) -> RegistriesConf | None:
        """Read a file, None if there is none; ImageToolsError, with file and line, if it can't be understood."""
        try:
            with path.open("rb") as stream:
                content = stream.read(SIZE_LIMIT + 1)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _unusable(path, None, error.strerror or "can't be read") from error
        if len(content) > SIZE_LIMIT:
            raise _unusable(path, None, f"is longer than {SIZE_LIMIT} bytes")
        try:
            text = content.decode()
        except UnicodeDecodeError as error:
            raise _unusable(path, content.count(b"\n", 0, error.start) + 1, "is not UTF-8") from None
        return _parse(path, text) if any(_says_something(line) for line in text.splitlines()) else cls()

    def overridden_by(self, later: RegistriesConf) -> RegistriesConf:
        """Both, a table or alias of ``later`` in place of one for the same prefix or name."""
        return RegistriesConf(
            {**self.registries, **later.registries},
            {**self.aliases, **later.aliases},
            self.search if later.search is None else later.search,
            self.helpers if later.helpers is None else later.helpers,
        )

    def registry_for(self, name: str) -> Registry | None:
        """The table with the longest prefix of ``name``, None if there is none."""
        matching = (registry for registry in self.registries.values() if registry.matched(name))
        return max(matching, key=lambda registry: len(registry.prefix), default=None)


def _says_something(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _parse(path: Path, text: str) -> RegistriesConf:
    import tomllib  # not needed where nothing is set

    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        told = re.fullmatch(r"(?P<reason>.*?) \(at (?:line (?P<line>\d+), column \d+|end of document)\)", str(error))
        reason, line = (told["reason"], told["line"] or text.count("\n") + 1) if told else (str(error), None)
        raise _unusable(path, line, f"is no TOML ({reason})") from None
    except RecursionError:
        raise _unusable(path, None, "is nested too deeply") from None
    _refuse_version_1(path, text, content)
    top = _Table(path, text, content)
    registries: dict[str, Registry] = {}
    for table in top.tables("registry", "registry"):
        registry = _registry(table)
        table.refuse_conflict(registry, registries.setdefault(registry.prefix, registry))
    return RegistriesConf(
        registries, top.aliases(), top.texts("unqualified-search-registries"), top.texts("credential-helpers")
    )


def _registry(table: _Table) -> Registry:
    prefix, location = table.location("prefix"), table.location("location")
    if not prefix and not location:
        raise table.unusable("names neither prefix nor location")
    if not location and not prefix.startswith(_WILDCARD):
        raise table.unusable(f"names no location for the prefix {prefix}")
    by_digest_only = table.flag("mirror-by-digest-only")
    mirrors = tuple(_mirror(mirror, by_digest_only) for mirror in table.tables("mirror", "registry.mirror"))
    insecure, blocked = table.flag("insecure"), table.flag("blocked")
    return Registry(prefix or location, table.path, location if prefix else "", insecure, blocked, mirrors)


def _mirror(table: _Table, by_digest_only: bool) -> Mirror:
    location, use = table.location("location"), table.text("pull-from-mirror")
    if not location:
        raise table.unusable("names no location")
    if use and by_digest_only:
        raise table.unusable("has pull-from-mirror, which excludes the registry's mirror-by-digest-only")
    if use and use not in _PULL_FROM_MIRROR:
        raise table.unusable(f"has pull-from-mirror = {use!r}, which is none of {', '.join(_PULL_FROM_MIRROR)}")
    for_tags = use != "digest-only" and not by_digest_only
    return Mirror(location, table.flag("insecure"), for_digests=use != "tag-only", for_tags=for_tags)


@dataclass(frozen=True, slots=True)
class _Table:
    """A table of a file, whose values are checked when they are asked for; ``line`` is where it begins."""

    path: Path
    file_text: str
    content: Mapping[str, Any]
    title: str = ""
    line: int | None = None

    def tables(self, key: str, header: str) -> Iterator[_Table]:
        """The tables of an array, which begin with ``[[header]]``."""
        lines = _header_lines(self.file_text, header, after=self.line or 0)
        for number, table in enumerate(self._value(key, list, "an array of tables") or []):
            line = lines[number] if number < len(lines) else self.line
            if not isinstance(table, dict):
                raise _unusable(self.path, line, f"{key} is no array of tables")
            yield _Table(self.path, self.file_text, table, f"a [[{header}]] table", line)

    def text(self, key: str) -> str:
        """A string; empty where there is none."""
        return self._value(key, str, "a string") or ""

    def flag(self, key: str) -> bool:
        """A boolean; false where there is none."""
        return bool(self._value(key, bool, "true or false"))

    def location(self, key: str) -> str:
        """A host, perhaps with a path, without the slashes at its end."""
        value = self.text(key).rstrip("/")
        if "://" in value:
            raise self.unusable(f"has {key} = {value!r}: write it without {value.partition('://')[0]}://")
        return value

    def texts(self, key: str) -> tuple[str, ...] | None:
        """An array of strings; None where there is none."""
        values = self._value(key, list, "an array of strings")
        if values is None:
            return None
        if not all(isinstance(value, str) for value in values):
            raise self.unusable(f"{key} is not an array of strings", key)
        return tuple(values)

    def aliases(self) -> dict[str, str]:
        """The ``[aliases]`` table."""
        table = self._value("aliases", dict, "a table") or {}
        for name, value in table.items():
            if not isinstance(value, str):
                raise self.unusable(f"the alias {name} is not a string", name)
        return dict(table)

    def refuse_conflict(self, registry: Registry, first: Registry) -> None:
        """Of two tables for a prefix the first holds, unless security depends on which one is meant."""
        if (registry.insecure, registry.blocked) != (first.insecure, first.blocked):
            raise self.unusable(f"contradicts an earlier one for {registry.prefix} in insecure or blocked")

    def unusable(self, reason: str, key: str = "") -> ImageToolsError:
        """The error for this table, or for the line where ``key`` is set."""
        line = _key_line(self.file_text, key, self.line or 0) if key else None
        return _unusable(self.path, line or self.line, f"{self.title} {reason}".strip())

    def _value(self, key: str, kind: type, kind_name: str) -> Any:
        value = self.content.get(key)
        if value is not None and not isinstance(value, kind):
            raise self.unusable(f"{f'has {key} that' if self.title else key} is not {kind_name}", key)
        return value


def _refuse_version_1(path: Path, text: str, content: Mapping[str, Any]) -> None:
    old = content.get("registries")
    if not isinstance(old, dict):
        return
    if any(isinstance(part := old.get(name), dict) and part.get("registries") for name in _VERSION_1):
        lines = _lines(text, r"\[\s*registries\b") or [1]
        raise _unusable(
            path,
            lines[0],
            "is in version 1 of the format",
            "write unqualified-search-registries, and a [[registry]] table with insecure or blocked for each registry",
        )


def _header_lines(text: str, header: str, after: int) -> list[int]:
    name = r"\s*\.\s*".join(map(re.escape, header.split(".")))
    return [line for line in _lines(text, rf"\[\[\s*{name}\s*\]\]") if line > after]


def _key_line(text: str, key: str, after: int) -> int | None:
    return next((line for line in _lines(text, rf'["\']?{re.escape(key)}["\']?\s*=') if line > after), None)


def _lines(text: str, pattern: str) -> list[int]:
    """The numbers of the lines that begin with ``pattern``."""
    return [number for number, line in enumerate(text.splitlines(), 1) if re.match(rf"\s*{pattern}", line)]


def _unusable(path: Path, line: int | str | None, reason: str, hint: str = _HINT) -> ImageToolsError:
    where = f"{path}, line {line}" if line else str(path)
    return ImageToolsError(f"registry settings {where}: {reason}", hint=hint)
