"""Promote operators of a repository to the next version of OpenShift: copy their catalogs, and extend ``ci.yaml``.

The repository has the catalog of each operator and version in ``catalogs/vVERSION/OPERATOR``, as the repositories of
community and certified operators do. In ``ci.yaml``, ``fbc.version_promotion_strategy`` says whether an operator is
promoted: ``always``, ``never``, or after a review.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from opmkit.bundle.validation.openshift import OpenShiftVersion
from opmkit.bundle.validation.operator_directory import CI_FILE, OPERATORS
from opmkit.core.errors import OpmkitError
from opmkit.core.files import disk_errors, refuse_links
from opmkit.core.json_types import JsonResult
from opmkit.core.locks import locked_directory
from opmkit.documents.document_stream import read_documents
from opmkit.documents.errors import InvalidDocument
from opmkit.documents.lenient import items, mapping
from opmkit.documents.text_edits import SourceText
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.check.policy import CatalogPolicy, check_policy
from opmkit.index.fbc.findings import raise_findings
from opmkit.index.fbc.load import load_files
from opmkit.index.fbc.model import Catalog
from opmkit.index.plan.platform import PlatformCatalog, plan_platforms
from opmkit.index.suggestions import suggest_names
from opmkit.index.templates.ci_config import is_safe_name
from opmkit.index.templates.edit.write import change_files, read_template

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from opmkit.documents.document_stream import Document
    from opmkit.index.fbc.blobs import Blobs
    from opmkit.index.plan.platform import PlatformPlan

CATALOGS = "catalogs"
"""Directory of a repository with the catalogs."""
_UNRESOLVABLE = "unresolvable"
"""Kind of problems with dependencies, which the catalogs of other operators satisfy."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class PromotionStrategy(StrEnum):
    """Values of ``fbc.version_promotion_strategy``."""

    ALWAYS = "always"
    REVIEW_NEEDED = "review-needed"
    NEVER = "never"


class PromotionStatus(StrEnum):
    """What became of an operator."""

    PROMOTED = "promoted"
    UNCHANGED = "unchanged"
    """It was promoted before."""
    EXCLUDED = "excluded"
    """Its strategy excludes it."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class PromotedOperator(JsonResult):
    """An operator, and what became of it.

    Attributes:
        name: Name of its directory.
        status: What became of it.
        strategy: Its strategy; an unknown one counts as ``never``.
        files: Paths of the files that are written, relative to the repository.
        problems: Why it failed, what clusters will find wrong with the catalog, and what to do by hand.
        plan: What installed operators do on both versions; None if the catalogs cannot be read.
    """

    name: str
    status: PromotionStatus
    strategy: PromotionStrategy = PromotionStrategy.REVIEW_NEEDED
    files: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    plan: PlatformPlan | None = None


@dataclass(frozen=True, slots=True)
class PromotedRepository(JsonResult):
    """The operators of a repository that were promoted, or would be.

    Attributes:
        source: The version of OpenShift that has the catalogs.
        target: The version that gets them.
        operators: The operators of the first version, sorted by name.
    """

    source: OpenShiftVersion
    target: OpenShiftVersion
    operators: tuple[PromotedOperator, ...]

    @property
    def failed(self) -> tuple[PromotedOperator, ...]:
        """The operators that could not be promoted."""
        return tuple(each for each in self.operators if each.status is PromotionStatus.FAILED)

    def to_dict(self) -> dict[str, Any]:
        """Return the result in JSON types."""
        operators = [each.to_dict() for each in self.operators]
        return {"source": str(self.source), "target": str(self.target), "operators": operators}


@dataclass(frozen=True, slots=True)
class PromotionRequest:
    """The operators to promote.

    Attributes:
        source: The version of OpenShift that has the catalogs.
        target: The version that gets them.
        operators: Names of operators, empty for all of the first version.
        strategies: Strategies of the operators to promote.
        dry_run: Whether nothing is written.
    """

    source: OpenShiftVersion
    target: OpenShiftVersion
    operators: Sequence[str] = ()
    strategies: Collection[PromotionStrategy] = (PromotionStrategy.ALWAYS, PromotionStrategy.REVIEW_NEEDED)
    dry_run: bool = False

    @classmethod
    def parse(cls, source: str, target: str) -> PromotionRequest:
        """Return a request for two versions such as ``v4.20``.

        Raises:
            CatalogError: A version is invalid, or the target is not the later one.
        """
        try:
            versions = [OpenShiftVersion.parse(text) for text in (source, target)]
        except ValueError as error:
            raise CatalogError(f"invalid version of OpenShift: {error}", hint="pass versions such as v4.20") from error
        if versions[1] <= versions[0]:
            raise CatalogError(f"OpenShift {versions[1]} is not later than {versions[0]}", hint="swap both versions")
        return cls(versions[0], versions[1])


def promote_operators(path: Path, request: PromotionRequest) -> PromotedRepository:
    """Promote the operators of a repository, or one of them; an operator that fails does not stop the others.

    The catalog files and ``ci.yaml`` of an operator are written after both were checked. Existing catalogs of the
    later version are not changed.

    Args:
        path: The repository, or the directory of an operator in it.
        request: The operators.

    Raises:
        CatalogError: The path has no catalogs of the first version, or an operator has none.
    """
    repository, names = _find_repository(path, request)
    operators = (_Promotion(repository, name, request).run() for name in names)
    return PromotedRepository(request.source, request.target, tuple(operators))


def _find_repository(path: Path, request: PromotionRequest) -> tuple[Path, list[str]]:
    """Return the root of the repository and the names of the operators to promote."""
    root, wanted = path, list(request.operators)
    with disk_errors(path):
        absolute = Path(os.path.abspath(path))  # noqa: PTH100 - a link in the repository must not lead out of it
        if absolute.parent.name == OPERATORS and not (path / CATALOGS).is_dir():
            root, wanted = absolute.parent.parent, [absolute.name]
        catalogs = root / CATALOGS / f"v{request.source}"
        refuse_links(root, catalogs)
        if not catalogs.is_dir():
            hint = f"pass a repository with the directories {OPERATORS} and {CATALOGS}, or an operator in it"
            raise CatalogError(f"{catalogs}: no such directory", hint=hint)
        found = sorted(each.name for each in catalogs.iterdir() if each.is_dir() and is_safe_name(each.name))
    for name in wanted:
        if name not in found:
            message = f"operator {name!r} has no catalog in {catalogs}"
            raise CatalogError(message, hint=suggest_names("operators", name, found))
    return root, sorted(set(wanted)) or found


class _Promotion(Struct, frozen=True):
    """The promotion of an operator."""

    repository: Path
    name: str
    request: PromotionRequest

    def run(self) -> PromotedOperator:
        """Promote the operator, unless its strategy or an error prevents it; other promotions wait."""
        operator = PromotedOperator(self.name, PromotionStatus.FAILED)
        try:
            with locked_directory(self.repository):
                return self._run(operator)
        except OpmkitError as error:
            problem = f"{error.message}: {error.hint}" if error.hint else error.message
            return replace(operator, status=PromotionStatus.FAILED, problems=(problem,))

    def _run(self, operator: PromotedOperator) -> PromotedOperator:
        path = self.repository / OPERATORS / self.name / CI_FILE
        refuse_links(self.repository, path)
        config = _CiConfig.read(path)
        operator = replace(operator, strategy=config.strategy or PromotionStrategy.NEVER)
        if config.strategy not in self.request.strategies:
            problems = () if config.strategy else (f"unknown version_promotion_strategy {config.strategy_text!r}",)
            return replace(operator, status=PromotionStatus.EXCLUDED, problems=problems)
        return self._promote(operator, config)

    def _promote(self, operator: PromotedOperator, config: _CiConfig) -> PromotedOperator:
        source, target = (f"v{version}" for version in (self.request.source, self.request.target))
        old, new = (self.repository / CATALOGS / version / self.name for version in (source, target))
        refuse_links(self.repository, old)
        refuse_links(self.repository, new)
        before, existing = _read_files(old), _read_files(new) if new.exists() else {}
        if not before:
            raise CatalogError(f"{old}: the directory has no files", hint="render the catalog")
        after = {**before, **existing}
        added = {new / name: content for name, content in before.items() if name not in existing}
        edited, unmapped = config.with_catalog(source, target)
        plan, findings = self._plan(_read_blobs(before, old), _read_blobs(after, new))
        files = {**added, **({config.path: edited} if edited is not None else {})}
        if files and not self.request.dry_run:
            paths = {str(path): path for path in files}
            expected = {str(config.path): config.raw}
            change_files(paths, lambda current: _new_contents(current, files, expected))
        return replace(
            operator,
            status=PromotionStatus.PROMOTED if files else PromotionStatus.UNCHANGED,
            files=tuple(sorted(path.relative_to(self.repository).as_posix() for path in files)),
            problems=(*filter(None, (unmapped,)), *findings),
            plan=plan,
        )

    def _plan(self, before: Blobs, after: Blobs) -> tuple[PlatformPlan, list[str]]:
        """Return what installed heads do on both versions, and what is wrong with the catalog on the later one."""
        old, new = Catalog.from_blobs(before), Catalog.from_blobs(after)
        request = self.request
        platforms = [
            PlatformCatalog(request.source, old, before.others),
            PlatformCatalog(request.target, new, after.others),
        ]
        heads = [head for package in old.packages.values() for head in package.channels[package.default_channel].heads]
        plan = plan_platforms(platforms, heads)
        found: dict[str, list[str]] = {}
        for finding in check_policy(after, CatalogPolicy(request.target)):
            found.setdefault(finding.rule, []).append(f"{finding.bundle}: {finding.message}")
        problems = [problem.message for problem in plan.problems() if problem.kind != _UNRESOLVABLE]
        for messages in found.values():
            more = f" (and {len(messages) - 1} more)" if len(messages) > 1 else ""
            problems.append(f"{messages[0]}{more}")
        return plan, problems


def _new_contents(
    current: Mapping[str, bytes], files: Mapping[Path, bytes], expected: Mapping[str, bytes]
) -> Mapping[str, bytes]:
    """Return the new contents of files, none of which may have been written by another program in the meantime."""
    for name, content in current.items():
        if content != expected.get(name, b""):
            raise CatalogError(f"{name}: another program changes the file", hint="run the command again")
    return {str(path): content for path, content in files.items()}


def _read_files(directory: Path) -> dict[str, bytes]:
    """Return the files below a directory by relative path.

    Raises:
        CatalogError: There is a symbolic link, which could lead out of the repository, or a special file.
    """
    files: dict[str, bytes] = {}
    with disk_errors(directory):
        for parent, directories, names in os.walk(directory):
            for name in (*directories, *names):
                path = Path(parent, name)
                if path.is_symlink() or not (path.is_dir() or path.is_file()):
                    hint = "replace it by a regular file"
                    raise CatalogError(f"{path}: refusing to copy a link or special file", hint=hint)
            for name in names:
                path = Path(parent, name)
                files[path.relative_to(directory).as_posix()] = read_template(path)
    return files


def _read_blobs(files: Mapping[str, bytes], directory: Path) -> Blobs:
    """Return the blobs of catalog files; raises InvalidCatalog if documents are invalid."""
    loaded = load_files((str(directory / name), content) for name, content in sorted(files.items()))
    raise_findings(loaded.errors)
    return loaded.blobs


class _CiConfig(Struct, frozen=True):
    """The file ``ci.yaml`` of an operator; ``strategy`` is None for an unknown one."""

    path: Path
    raw: bytes
    text: SourceText
    strategy: PromotionStrategy | None
    strategy_text: str = ""

    @classmethod
    def read(cls, path: Path) -> _CiConfig:
        """Read the file.

        Raises:
            CatalogError: It does not exist, or is not a mapping in YAML.
            DiskError: It cannot be read.
        """
        if not path.is_file():
            raise CatalogError(f"{path}: no such file", hint="add the configuration of the operator")
        raw = read_template(path)
        body = raw.removeprefix(_BYTE_ORDER_MARK)
        documents: list[Document] = []
        for document in read_documents(body):
            if isinstance(document, InvalidDocument):
                raise CatalogError(document.located(str(path)), hint="correct the syntax")
            documents.append(document)
        if len(documents) != 1 or not isinstance(documents[0].value, dict):
            raise CatalogError(f"{path}: not a single mapping", hint="correct the file")
        value = mapping(documents[0].value.get("fbc")).get("version_promotion_strategy")
        known = PromotionStrategy.REVIEW_NEEDED if value is None else None
        if value in tuple(PromotionStrategy):
            known = PromotionStrategy(value)
        text = SourceText.from_document(str(path), body, documents[0], is_json=body.lstrip().startswith(b"{"))
        return cls(path, raw, text, known, str(value))

    def with_catalog(self, source: str, target: str) -> tuple[bytes | None, str]:
        """Return the file with a catalog next to another one, None if nothing changes, and what to do by hand.

        Raises:
            UneditableText: The list cannot be changed without changing other values.
        """
        templates = items(mapping(mapping(self.text.value).get("fbc")).get("catalog_mapping"))
        named = [items(mapping(template).get("catalog_names")) for template in templates]
        if any(target in names for names in named):
            return None, ""
        for number, names in enumerate(named):
            if source in names:
                path = ("fbc", "catalog_mapping", number, "catalog_names")
                edited = self.text.insert(path, len(names), target)
                prefix = self.raw[: len(self.raw) - len(self.raw.removeprefix(_BYTE_ORDER_MARK))]
                return prefix + edited.text.encode(), ""
        return None, f"{self.path}: no template has the catalog {source}: add {target} to its catalog_names"
