"""Parser for registries.conf, version 2 of the format: containers-registries.conf(5)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from opmkit.imagetools.errors import ImageToolsError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

MAX_FILE_SIZE = 4 << 20
"""Bytes of a settings file."""

_PULL_FROM_MIRROR = ("all", "digest-only", "tag-only")
_HINT = "see containers-registries.conf(5)"
_VERSION_1_TABLES = ("search", "insecure", "block")
_WILDCARD = "*."


class Mirror(Struct, frozen=True):
    """A ``[[registry.mirror]]`` table, for references with a digest, for those without one, or for both."""

    location: str
    insecure: bool = False
    for_digests: bool = True
    for_tags: bool = True


class Registry(Struct, frozen=True):
    """A ``[[registry]]`` table, for images whose names begin with ``prefix``.

    ``location`` replaces the prefix when images are pulled; it is empty if it equals the prefix.
    """

    prefix: str
    file: Path
    location: str = ""
    insecure: bool = False
    blocked: bool = False
    mirrors: tuple[Mirror, ...] = ()

    def match_length(self, name: str) -> int:
        """Return how many characters of ``name`` (REGISTRY/REPOSITORY) match the prefix, 0 if it does not match.

        As in podman, a host without a port matches any port, and ``*.example.com`` any depth of subdomains.
        """
        if self.prefix.startswith(_WILDCARD):
            host = name.partition("/")[0].partition(":")[0]
            return len(host) if host.endswith(self.prefix[1:]) else 0
        next_character = name[len(self.prefix) : len(self.prefix) + 1]
        return len(self.prefix) if name.startswith(self.prefix) and next_character in ("", "/", ":") else 0


class RegistriesConf(Struct, frozen=True):
    """The content of one settings file, or of several merged ones.

    Attributes:
        registries: ``[[registry]]`` tables by prefix.
        aliases: Full names by short name; an empty value disables an alias.
        search_registries: ``unqualified-search-registries``, None if not set.
        credential_helpers: ``credential-helpers``, None if not set.
    """

    registries: Mapping[str, Registry] = {}
    aliases: Mapping[str, str] = {}
    search_registries: tuple[str, ...] | None = None
    credential_helpers: tuple[str, ...] | None = None

    @classmethod
    def read(cls, path: Path) -> RegistriesConf | None:
        """Read a file.

        Returns:
            The settings, or None if the file does not exist.

        Raises:
            ImageToolsError: The file cannot be read or is invalid; the message names the line.
        """
        try:
            with path.open("rb") as stream:
                content = stream.read(MAX_FILE_SIZE + 1)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _invalid(path, None, error.strerror or "cannot be read") from error
        if len(content) > MAX_FILE_SIZE:
            raise _invalid(path, None, f"exceeds the limit of {MAX_FILE_SIZE} bytes")
        try:
            text = content.decode()
        except UnicodeDecodeError as error:
            raise _invalid(path, content.count(b"\n", 0, error.start) + 1, "invalid UTF-8") from None
        return _parse(path, text) if any(_has_content(line) for line in text.splitlines()) else cls()

    def overridden_by(self, other: RegistriesConf) -> RegistriesConf:
        """Merge two files; tables and aliases of ``other`` replace those for the same prefix or name."""
        return RegistriesConf(
            {**self.registries, **other.registries},
            {**self.aliases, **other.aliases},
            self.search_registries if other.search_registries is None else other.search_registries,
            self.credential_helpers if other.credential_helpers is None else other.credential_helpers,
        )

    def registry_for(self, name: str) -> Registry | None:
        """Return the table with the longest prefix that matches ``name`` (REGISTRY/REPOSITORY)."""
        matching = (registry for registry in self.registries.values() if registry.match_length(name))
        return max(matching, key=lambda registry: len(registry.prefix), default=None)


def _has_content(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _parse(path: Path, text: str) -> RegistriesConf:
    import tomllib  # few users have a registries.conf

    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        match = re.fullmatch(r"(?P<reason>.*?) \(at (?:line (?P<line>\d+), column \d+|end of document)\)", str(error))
        reason, line = (match["reason"], match["line"] or text.count("\n") + 1) if match else (str(error), None)
        raise _invalid(path, line, f"invalid TOML: {reason}") from None
    except ValueError:
        raise _invalid(path, None, "invalid TOML: an integer has too many digits") from None
    except RecursionError:
        raise _invalid(path, None, "nested too deeply") from None
    _reject_version_1(path, text, content)
    root = _Table(path, text, content)
    registries: dict[str, Registry] = {}
    for table in root.tables("registry", "registry"):
        registry = _registry(table)
        table.check_conflict(registry, registries.setdefault(registry.prefix, registry))
    return RegistriesConf(
        registries, root.aliases(), root.strings("unqualified-search-registries"), root.strings("credential-helpers")
    )


def _registry(table: _Table) -> Registry:
    prefix, location = table.location("prefix"), table.location("location")
    if not prefix and not location:
        raise table.invalid("prefix and location are missing")
    if not location and not prefix.startswith(_WILDCARD):
        raise table.invalid(f"location is missing for the prefix {prefix}")
    by_digest_only = table.boolean("mirror-by-digest-only")
    mirrors = tuple(_mirror(mirror, by_digest_only) for mirror in table.tables("mirror", "registry.mirror"))
    insecure, blocked = table.boolean("insecure"), table.boolean("blocked")
    return Registry(prefix or location, table.path, location if prefix else "", insecure, blocked, mirrors)


def _mirror(table: _Table, by_digest_only: bool) -> Mirror:
    location, pull_from_mirror = table.location("location"), table.string("pull-from-mirror")
    if not location:
        raise table.invalid("location is missing")
    if pull_from_mirror and by_digest_only:
        raise table.invalid("pull-from-mirror cannot be combined with mirror-by-digest-only of the registry")
    if pull_from_mirror and pull_from_mirror not in _PULL_FROM_MIRROR:
        raise table.invalid(f"pull-from-mirror = {pull_from_mirror!r}; expected one of {', '.join(_PULL_FROM_MIRROR)}")
    for_tags = pull_from_mirror != "digest-only" and not by_digest_only
    return Mirror(location, table.boolean("insecure"), for_digests=pull_from_mirror != "tag-only", for_tags=for_tags)


class _Table(Struct, frozen=True):
    """A table of a file, which begins in ``line``. Values are validated on access."""

    path: Path
    file_text: str
    content: Mapping[str, Any]
    header: str = ""
    line: int | None = None

    def tables(self, key: str, header: str) -> Iterator[_Table]:
        """Yield the tables of an array, which begin with ``[[header]]``."""
        lines = _header_lines(self.file_text, header, after=self.line or 0)
        for number, table in enumerate(self._value(key, list, "an array of tables") or []):
            line = lines[number] if number < len(lines) else self.line
            if not isinstance(table, dict):
                raise _invalid(self.path, line, f"{key}: expected an array of tables")
            yield _Table(self.path, self.file_text, table, f"[[{header}]]", line)

    def string(self, key: str) -> str:
        """Return a string, by default empty."""
        return self._value(key, str, "a string") or ""

    def boolean(self, key: str) -> bool:
        """Return a boolean, by default False."""
        return bool(self._value(key, bool, "a boolean"))

    def location(self, key: str) -> str:
        """Return a host with an optional path, without trailing slashes."""
        value = self.string(key).rstrip("/")
        if "://" in value:
            raise self.invalid(f"{key} = {value!r}: remove {value.partition('://')[0]}://")
        return value

    def strings(self, key: str) -> tuple[str, ...] | None:
        """Return an array of strings, or None if it is not set."""
        values = self._value(key, list, "an array of strings")
        if values is None:
            return None
        if not all(isinstance(value, str) for value in values):
            raise self.invalid(f"{key}: expected an array of strings", key)
        return tuple(values)

    def aliases(self) -> dict[str, str]:
        """Return the ``[aliases]`` table."""
        table = self._value("aliases", dict, "a table") or {}
        for name, value in table.items():
            if not isinstance(value, str):
                raise self.invalid(f"alias {name}: expected a string", name)
        return dict(table)

    def check_conflict(self, registry: Registry, first: Registry) -> None:
        """Raise for a duplicate prefix with other security settings. Otherwise the first table takes precedence."""
        if (registry.insecure, registry.blocked) != (first.insecure, first.blocked):
            raise self.invalid(f"insecure or blocked contradicts an earlier table for {registry.prefix}")

    def invalid(self, reason: str, key: str = "") -> ImageToolsError:
        """Return an error at this table, or at the line that sets ``key``."""
        line = _key_line(self.file_text, key, self.line or 0) if key else None
        return _invalid(self.path, line or self.line, f"{self.header}: {reason}" if self.header else reason)

    def _value(self, key: str, kind: type, kind_name: str) -> Any:
        value = self.content.get(key)
        if value is not None and not isinstance(value, kind):
            raise self.invalid(f"{key}: expected {kind_name}", key)
        return value


def _reject_version_1(path: Path, text: str, content: Mapping[str, Any]) -> None:
    tables = content.get("registries")
    if not isinstance(tables, dict):
        return
    if any(isinstance(table := tables.get(name), dict) and table.get("registries") for name in _VERSION_1_TABLES):
        lines = _lines(text, r"\[\s*registries\b") or [1]
        raise _invalid(
            path,
            lines[0],
            "unsupported version 1 of the format",
            "write unqualified-search-registries, and a [[registry]] table with insecure or blocked for each registry",
        )


def _header_lines(text: str, header: str, after: int) -> list[int]:
    name = r"\s*\.\s*".join(map(re.escape, header.split(".")))
    return [line for line in _lines(text, rf"\[\[\s*{name}\s*\]\]") if line > after]


def _key_line(text: str, key: str, after: int) -> int | None:
    return next((line for line in _lines(text, rf'["\']?{re.escape(key)}["\']?\s*=') if line > after), None)


def _lines(text: str, pattern: str) -> list[int]:
    """Return the numbers of the lines that begin with ``pattern``."""
    return [number for number, line in enumerate(text.splitlines(), 1) if re.match(rf"\s*{pattern}", line)]


def _invalid(path: Path, line: int | str | None, reason: str, hint: str = _HINT) -> ImageToolsError:
    location = f"{path}, line {line}" if line else str(path)
    return ImageToolsError(f"registry settings {location}: {reason}", hint=hint)
