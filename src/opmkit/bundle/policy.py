"""Policy file of a project: severities of rules, findings that it allows, and requirements on catalogs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from opmkit.bundle.errors import BundleError
from opmkit.bundle.finding import AllowedFinding, Severity, TargetResult
from opmkit.bundle.hint_terms import BundleOperation
from opmkit.core.files import disk_errors, read_limited
from opmkit.core.hints import Hint
from opmkit.core.json_types import JsonResult

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from opmkit.documents.content import Content
    from opmkit.documents.fields import FieldPath

FILE_NAME = ".opm-validate.yaml"
"""Name of the policy file in the working directory."""
OFF = "off"

_KEYS = ("profile", "fail-on", "severity", "ignore", "baseline", "optional", "optional-values", "catalog")
_IGNORE_KEYS = ("rule", "target", "package", "channel", "bundle", "file", "subject", "reason")
CATALOG_PROFILES = ("konflux",)
"""Profiles of `CatalogSettings`."""
_CATALOG_KEYS = (
    "profile",
    "openshift-version",
    "require-digests",
    "allowed-registries",
    "related-images",
    "against",
    "fragment",
    "require-signature",
    "allowed-permissions",
)

_Result = TypeVar("_Result", bound=TargetResult)


class InvalidPolicy(BundleError):
    """The policy or baseline is invalid."""


class UnknownRule(InvalidPolicy):
    """A rule to ignore does not exist."""


@dataclass(frozen=True, slots=True)
class Ignore:
    """Findings to allow, and the reason.

    Attributes:
        rule: Pattern of rule ids. This and the other patterns are shell patterns.
        reason: Why the findings are allowed.
        target: Pattern of the name of the bundle or catalog on the command line.
        package: Pattern of packages.
        channel: Pattern of channels.
        bundle: Pattern of names of bundles, or of their names on the command line.
        file: Pattern of files.
        subject: Pattern of subjects.
        location: File, line and column of the entry in the policy file, or "" for one of the command line.
    """

    rule: str
    reason: str
    target: str = "*"
    package: str = "*"
    channel: str = "*"
    bundle: str = "*"
    file: str = "*"
    subject: str = "*"
    location: str = field(default="", compare=False)

    def covers(self, names: Mapping[str, tuple[str, ...]]) -> bool:
        """Return whether a finding with these names, see `TargetResult.names`, is allowed."""
        return all(
            pattern == "*" or any(fnmatchcase(name, pattern) for name in names[key])
            for key, pattern in self._patterns()
        )

    def __str__(self) -> str:
        """Return the patterns in one line: ``rule FBC-GRAPH, package lagoon``."""
        return ", ".join(f"{key} {pattern}" for key, pattern in self._patterns() if pattern != "*" or key == "rule")

    def _patterns(self) -> Iterator[tuple[str, str]]:
        return ((key, getattr(self, key)) for key in _IGNORE_KEYS if key != "reason")


class CatalogSettings(Struct, frozen=True):
    """Defaults of the flags for catalogs, None if the policy does not set them.

    Attributes:
        openshift_version: OpenShift version that serves the catalog, such as ``4.17``.
        require_digests: Whether bundle images must have a digest.
        allowed_registries: Allowed prefixes of bundle images.
        related_images: Whether the requirements on bundle images apply to related images, too.
        against: The published index.
        fragment: Whether the catalog is a part of the published index.
        require_signature: Path of a public key, or of a policy with keys.
        allowed_permissions: Dangerous permissions that new bundles may gain, as ``KIND`` or ``PACKAGE/KIND``.
        profile: Pipeline whose checks apply, one of `CATALOG_PROFILES`.
    """

    openshift_version: str | None = None
    require_digests: bool | None = None
    allowed_registries: tuple[str, ...] | None = None
    related_images: bool | None = None
    against: str | None = None
    fragment: bool | None = None
    require_signature: str | None = None
    allowed_permissions: tuple[str, ...] | None = None
    profile: str | None = None


@dataclass(frozen=True, slots=True)
class Policy(JsonResult):
    """Settings of a project.

    Attributes:
        profile: Default of the flag.
        fail_on: Default of the flag.
        severities: Severities by rule id, None for disabled rules.
        ignores: Findings to allow.
        baseline: Path of the baseline file, or "" if there is none.
        optional: Names of optional validators to run.
        optional_values: Options of optional validators.
        catalog: Defaults of the flags for catalogs.
    """

    profile: str = ""
    fail_on: Severity | None = None
    severities: tuple[tuple[str, Severity | None], ...] = ()
    ignores: tuple[Ignore, ...] = ()
    baseline: str = ""
    optional: tuple[str, ...] = ()
    optional_values: tuple[tuple[str, str], ...] = ()
    catalog: CatalogSettings = field(default_factory=CatalogSettings)

    def with_ignored(self, ignored: Sequence[str], rules: Collection[str]) -> Policy:
        """Return a policy that allows all findings of further rules as well; ``rules`` are the known ids.

        Raises:
            UnknownRule: A rule to ignore does not exist.
        """
        unknown = [rule for rule in ignored if rule not in rules]
        if unknown:
            raise UnknownRule(
                f"unknown rule {unknown[0]!r}", hint=Hint("list the rules with {}", BundleOperation.LIST_RULES)
            )
        return replace(
            self, ignores=(*self.ignores, *(Ignore(rule, "ignored on the command line") for rule in ignored))
        )

    def with_error(self, rule: str) -> Policy:
        """Return a policy whose findings of a rule are errors."""
        return replace(self, severities=(*self.severities, (rule, Severity.ERROR)))

    def apply(self, result: _Result) -> _Result:
        """Return the result with the severities of the policy, and with the findings that it allows apart."""
        severities = dict(self.severities)
        findings, allowed = [], []
        for original in result.findings:
            severity = severities.get(original.rule, original.severity)
            if severity is None:
                continue
            finding = original if severity is original.severity else replace(original, severity=severity)
            names = result.names(finding)
            ignore = next((ignore for ignore in self.ignores if ignore.covers(names)), None)
            if ignore is None:
                findings.append(finding)
            else:
                allowed.append(AllowedFinding(finding, ignore.reason))
        return replace(result, findings=tuple(findings), allowed=(*result.allowed, *allowed))

    def apply_with_unused(self, result: _Result, rules: Collection[str]) -> _Result:
        """Return the result as `apply` does, with a notice about each entry of the policy file that allows nothing.

        Args:
            result: A result.
            rules: The ids of the rules that were applied.
        """
        unused = [
            f"{ignore.location}: the policy allows nothing: no finding matches {ignore}"
            for ignore in self.unused(result, rules)
        ]
        return replace(self.apply(result), notices=(*result.notices, *unused))

    def unused(self, result: TargetResult, rules: Collection[str]) -> tuple[Ignore, ...]:
        """Return the entries of the policy file for some of ``rules``, and for the target, that allow no finding.

        Args:
            result: A result before `apply`.
            rules: The ids of the rules that were applied.
        """
        entries = [
            ignore
            for ignore in self.ignores
            if ignore.location
            and fnmatchcase(result.target, ignore.target)
            and any(fnmatchcase(rule, ignore.rule) for rule in rules)
        ]
        names = [result.names(finding) for finding in result.findings] if entries else []
        return tuple(ignore for ignore in entries if not any(map(ignore.covers, names)))


def read_policy(path: Path, rules: Collection[str]) -> Policy:
    """Parse a policy file; ``rules`` are the known ids.

    Raises:
        InvalidPolicy: With the line, for unknown keys and rules, and for ignores without a reason.
        ImageToolsError: The file cannot be read, or is too large.
    """
    from opmkit.documents import MAX_BYTES
    from opmkit.documents.content import Content  # slow to import: not needed without a policy

    with disk_errors(path):
        raw = read_limited(path, MAX_BYTES)
    return _Parser(path, Content.read_settings(raw), rules).policy()


class _Parser(Struct, frozen=True):
    path: Path
    content: Content
    rules: Collection[str]

    def policy(self) -> Policy:
        if self.content.error is not None:
            raise InvalidPolicy(
                self.content.error.located(str(self.path)),
                hint="correct the YAML, and write each setting once, into one YAML document",
            )
        value: Any = self.content.value
        if value is None:
            raise InvalidPolicy(f"{self.path}: the policy is empty", hint="remove the file, or write its settings")
        self._check_keys(value, _KEYS, ())
        return Policy(
            profile=self._profile(value),
            fail_on=self._severity(value.get("fail-on"), ("fail-on",)) if "fail-on" in value else None,
            severities=tuple(self._severities(value.get("severity", {}))),
            ignores=tuple(self._ignores(value.get("ignore", []))),
            baseline=self._text(value, "baseline"),
            optional=tuple(self._strings(value.get("optional", []), ("optional",))),
            optional_values=tuple(self._pairs(value.get("optional-values", {}))),
            catalog=self._catalog(value.get("catalog", {})),
        )

    def _profile(self, value: Any) -> str:
        from opmkit.bundle.validation.profiles import PROFILES

        name = self._text(value, "profile")
        if name and name not in PROFILES:
            raise self._invalid(("profile",), "is not a known profile", f"choose one of {', '.join(PROFILES)}")
        return name

    def _catalog(self, value: Any) -> CatalogSettings:
        self._check_keys(value, _CATALOG_KEYS, ("catalog",))
        return CatalogSettings(
            openshift_version=self._text(value, "openshift-version", ("catalog",)) or None,
            require_digests=self._flag(value, "require-digests"),
            allowed_registries=self._names(value, "allowed-registries"),
            related_images=self._flag(value, "related-images"),
            against=self._against(value),
            fragment=self._flag(value, "fragment"),
            require_signature=self._relative_path(value, "require-signature"),
            allowed_permissions=self._permissions(value),
            profile=self._catalog_profile(value),
        )

    def _catalog_profile(self, value: Any) -> str | None:
        path = ("catalog", "profile")
        name = self._text(value, "profile", ("catalog",))
        if name and name not in CATALOG_PROFILES:
            raise self._invalid(path, "is not a known profile", f"choose one of {', '.join(CATALOG_PROFILES)}")
        return name or None

    def _names(self, value: Any, key: str) -> tuple[str, ...] | None:
        if key not in value:
            return None
        names = tuple(self._strings(value[key], ("catalog", key)))
        if not (names and all(names)):  # which would allow any
            raise self._invalid(("catalog", key), "is empty, or has an empty entry", "list what is allowed")
        return names

    def _permissions(self, value: Any) -> tuple[str, ...] | None:
        key = "allowed-permissions"
        if key not in value:
            return None
        from opmkit.bundle.permissions.kinds import DangerKind, find_unknown_kind

        names = tuple(self._strings(value[key], ("catalog", key)))  # null must not allow everything
        unknown = find_unknown_kind(names)
        if unknown is not None:
            path = ("catalog", key, names.index(unknown))
            raise self._invalid(
                path, f'has the unknown kind "{unknown}"', f"use {', '.join(DangerKind)}, or PACKAGE/KIND"
            )
        return names

    def _relative_path(self, value: Any, key: str) -> str | None:
        """Return a path that is relative to the policy file."""
        if key not in value:
            return None
        text = self._text(value, key, ("catalog",))
        if not text:
            raise self._invalid(("catalog", key), "is empty", "write a path, or remove the key")
        return str(self.path.parent / text)

    def _against(self, value: Any) -> str | None:
        """Return the published index: a path relative to the policy file, or an image that no path stands in for."""
        text = self._text(value, "against", ("catalog",))
        if not text:
            return None
        from opmkit.bundle import source  # slow to import: only for catalogs
        from opmkit.imagetools import reference
        from opmkit.imagetools.errors import InvalidReference

        directory = self.path.parent.absolute()
        if (directory / text).exists() and not reference.names_image(text):
            return str(directory / text)
        try:
            location = source.parse_location(text)
        except InvalidReference as error:
            raise self._invalid(("catalog", "against"), f"is invalid: {error.message}", error.hint) from error
        match location:
            case reference.Reference():
                return str(location.with_default_tag())
            case reference.LayoutReference() | reference.OciArchiveReference() | reference.DockerArchiveReference():
                return str(replace(location, path=directory / location.path))
            case reference.DaemonReference() | reference.StorageReference() | reference.StoreReference():
                return text
            case _:
                return str(directory / text)

    def _flag(self, value: Any, key: str) -> bool | None:
        flag = value.get(key)
        if flag is not None and not isinstance(flag, bool):
            raise self._invalid(("catalog", key), "is not a boolean", "write true or false")
        return flag

    def _severities(self, value: Any) -> Iterable[tuple[str, Severity | None]]:
        for rule, level in self._mapping(value, ("severity",)).items():
            self._check_rule(rule, ("severity", rule))
            off = level is False or level == OFF  # a plain off is false in YAML
            yield rule, None if off else self._severity(level, ("severity", rule))

    def _ignores(self, value: Any) -> Iterable[Ignore]:
        if not isinstance(value, list):
            raise self._invalid(("ignore",), "is not a list", "write a list of entries with rule and reason")
        for number, entry in enumerate(value):
            path = ("ignore", number)
            self._check_keys(entry, _IGNORE_KEYS, path)
            texts = {key: self._text(entry, key, path) for key in entry}
            if not texts.get("rule") or not texts.get("reason", "").strip():
                raise self._invalid(path, "has no rule or no reason", "set the rule and the reason to ignore it")
            if not any(fnmatchcase(rule, texts["rule"]) for rule in self.rules):
                self._check_rule(texts["rule"], path)
            line, column = self.content.locate(path)
            yield Ignore(**texts, location=f"{self.path}:{line}:{column}")

    def _pairs(self, value: Any) -> Iterable[tuple[str, str]]:
        for name, text in self._mapping(value, ("optional-values",)).items():
            if not isinstance(text, str | int | float):
                raise self._invalid(("optional-values", name), "is not a string", "write a string")
            yield name, str(text)

    def _strings(self, value: Any, path: FieldPath) -> list[str]:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._invalid(path, "is not a list of strings", "write a list of strings")
        return value

    def _text(self, value: Any, key: str, path: FieldPath = ()) -> str:
        text = value.get(key, "")
        if not isinstance(text, str):
            raise self._invalid((*path, key), "is not a string", "put it in quotes")
        return text

    def _severity(self, value: Any, path: FieldPath) -> Severity:
        if value not in tuple(Severity):
            raise self._invalid(
                path, f"has the invalid severity {value!r}", "write error or warning, or off for a rule"
            )
        return Severity(value)

    def _check_rule(self, rule: str, path: FieldPath) -> None:
        if rule not in self.rules:
            import difflib  # slow to import: only for errors

            near = difflib.get_close_matches(rule.upper(), self.rules, n=1)
            hint = f"did you mean {near[0]}?" if near else Hint("list all rules with {}", BundleOperation.LIST_RULES)
            raise self._invalid(path, "is not a known rule", hint)

    def _mapping(self, value: Any, path: FieldPath) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._invalid(path, "is not a mapping", "write names and values")
        return value

    def _check_keys(self, value: Any, keys: Sequence[str], path: FieldPath) -> None:
        for key in self._mapping(value, path):
            if key not in keys:
                raise self._invalid((*path, key), "is an unknown key", f"use one of {', '.join(keys)}")
            if value[key] in (None, ""):
                raise self._invalid((*path, key), "has no value", "set a value, or remove the key")

    def _invalid(self, path: FieldPath, problem: str, hint: Hint | str) -> InvalidPolicy:
        line, column = self.content.locate(path)
        where = ".".join(str(part) for part in path) or "the file"
        return InvalidPolicy(f"{self.path}:{line}:{column}: {where} {problem}", hint=hint)
