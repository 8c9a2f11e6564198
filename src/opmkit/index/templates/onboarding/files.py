"""The files of an onboarded operator: templates, ``ci.yaml`` and ``Makefile``; all of them are written, or none."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.bundle.validation.operator_directory import OPERATORS
from opmkit.core.files import disk_errors, read_limited, refuse_links, write_files
from opmkit.core.hints import Hint
from opmkit.documents.document_stream import BOM, is_json
from opmkit.documents.text_edits import SourceText
from opmkit.index.errors import CatalogError
from opmkit.index.hint_terms import IndexSetting
from opmkit.index.templates.ci_config import CI_FILE, TEMPLATES
from opmkit.index.templates.document import MAX_TEMPLATE, TemplateFile
from opmkit.index.templates.edit.template import unified_diff
from opmkit.index.templates.onboarding.derive import SCHEMA_BY_TYPE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opmkit.documents.json_value import JsonValue
    from opmkit.index.templates.onboarding.derive import PlannedTemplate

MAKEFILE = "Makefile"
_MAKEFILES = ("GNUmakefile", "makefile", MAKEFILE)
"""Names of makefiles, in the order in which make looks for them."""
_TARGET = re.compile(rb"^catalogs\s*::?(?!=)", re.MULTILINE)
_UPDATE_GRAPH = "updateGraph"
_GRAPH_COMMENT = "(?:replaces|semver)-mode"
"""Pattern of the comments about the update graph, which is removed."""
_TARGETS = b"""\
# The catalogs that ci.yaml maps to the templates in catalog-templates, rendered and validated with opmkit.
OPM ?= opm
CATALOGS ?= ../../catalogs

.PHONY: catalogs
catalogs:
	$(OPM) template render . --output-dir "$(CATALOGS)" --no-lock

.PHONY: validate-catalogs
validate-catalogs:
	@for catalog in "$(CATALOGS)"/*/"$${PWD##*/}"; do \\
		$(OPM) validate "$$catalog" || exit 1; \\
	done
"""


class OnboardingFile(Struct, frozen=True):
    """A file of an operator that onboarding writes.

    Attributes:
        path: The path relative to the operator directory.
        before: The present content, None if the file does not exist.
        after: The new content.
    """

    path: str
    before: bytes | None
    after: bytes

    @property
    def is_changed(self) -> bool:
        """Return whether the content differs."""
        return self.before != self.after

    def diff(self, directory: Path) -> str:
        """Return the unified diff of the content, in which control characters are escaped."""
        return unified_diff(str(directory / self.path), self.before or b"", self.after)


def plan_files(
    directory: Path, templates: Sequence[PlannedTemplate], *, force: bool = False
) -> tuple[OnboardingFile, ...]:
    """Return the files of an operator in the order in which they are written; ``ci.yaml`` is the last.

    Templates without a mapping in ``ci.yaml`` have no effect, so an interrupted run leaves a repository that works as
    before, and can be repeated.

    Args:
        directory: The operator directory.
        templates: The templates to write.
        force: Whether to replace templates with other content, and the mapping in ``ci.yaml``.

    Raises:
        CatalogError: A template exists with other content, a file is a symbolic link, or ``ci.yaml`` cannot be edited.
        InvalidCatalog: ``ci.yaml`` is invalid; the error lists all findings.
        DiskError: A file cannot be read.
    """
    files = [
        OnboardingFile(path, read_existing(directory, path), template.content)
        for template in templates
        for path in (f"{TEMPLATES}/{template.name}",)
    ]
    other = [file.path for file in files if file.before is not None and file.is_changed]
    if other and not force:
        raise CatalogError(
            f"{', '.join(other)}: already exists with other content",
            hint=Hint("compare the files, then replace them with {}", IndexSetting.FORCE),
        )
    return (*files, *_plan_makefile(directory), _plan_config(directory, templates))


def _plan_makefile(directory: Path) -> Iterator[OnboardingFile]:
    """Yield the makefile, unless it has the target ``catalogs``."""
    name = next((name for name in _MAKEFILES if (directory / name).exists()), MAKEFILE)
    with disk_errors(directory / name):
        if (directory / name).is_file() and _TARGET.search(read_limited(directory / name, regular=True)):
            return
    before = read_existing(directory, name)
    yield OnboardingFile(name, before, _TARGETS if before is None else b"%s\n\n%s" % (before.rstrip(), _TARGETS))


def _plan_config(directory: Path, templates: Sequence[PlannedTemplate]) -> OnboardingFile:
    name = config_name(directory)
    before = read_existing(directory, name)
    mapping: list[JsonValue] = [
        {
            "template_name": template.name,
            "catalog_names": list(template.catalogs),
            "type": SCHEMA_BY_TYPE[template.type],
        }
        for template in templates
    ]
    return OnboardingFile(name, before, edit_config(before or b"", str(directory / name), mapping))


def config_name(directory: Path) -> str:
    """Return the name of the configuration of an operator, which need not exist."""
    return "ci.yml" if not (directory / CI_FILE).exists() and (directory / "ci.yml").exists() else CI_FILE


def edit_config(raw: bytes, name: str, mapping: Sequence[JsonValue]) -> bytes:
    """Return the configuration of an operator with file-based catalogs; comments and other keys are retained.

    The key ``updateGraph`` is removed, because the pipelines reject it together with file-based catalogs.

    Args:
        raw: The content of ``ci.yaml``, empty if it does not exist.
        name: The name of the file for messages.
        mapping: The entries of ``fbc.catalog_mapping``.

    Raises:
        InvalidCatalog: The file is invalid; the error lists all findings.
        UneditableText: The file cannot be changed without changing other values as well.
    """

    file = TemplateFile.read(io.BytesIO(raw), name)
    fbc: JsonValue = {"enabled": True, "catalog_mapping": list(mapping)}
    if not file.documents or file.documents[0].value is None:
        return _append(raw, fbc)
    file.mapping("Write a mapping, such as reviewers: [name].")
    file.raise_findings()
    body = raw.removeprefix(BOM)
    text = SourceText.from_document(name, body, file.documents[0], is_json=is_json(body))
    text = _set_catalogs(text, fbc, mapping)
    if isinstance(text.value, dict) and _UPDATE_GRAPH in text.value:
        text = text.remove((_UPDATE_GRAPH,), comments=_GRAPH_COMMENT)
    start = file.documents[0].start
    prefix = raw[: len(raw) - len(body)] + body[:start]
    return prefix + text.text.encode() + body[file.documents[0].end :]


def _append(raw: bytes, fbc: JsonValue) -> bytes:
    """Return a configuration without values, which can have comments, with the only key ``fbc``."""
    from opmkit.documents.yaml_writer import dump_yaml

    before = raw.rstrip()
    return (before or b"---") + b"\n" + dump_yaml({"fbc": fbc})


def _set_catalogs(text: SourceText, fbc: JsonValue, mapping: Sequence[JsonValue]) -> SourceText:
    present = text.value.get("fbc") if isinstance(text.value, dict) else None
    if not isinstance(present, dict) or not present:
        return text.set(("fbc",), fbc)
    if present.get("enabled") is not True:
        text = text.set(("fbc", "enabled"), value=True)
    if present.get("catalog_mapping") == list(mapping):
        return text
    if present.get("catalog_mapping"):
        text = text.remove(("fbc", "catalog_mapping"))
    return text.set(("fbc", "catalog_mapping"), list(mapping))


def read_existing(directory: Path, path: str) -> bytes | None:
    """Return the content of a file that is to be replaced, None if it does not exist.

    Raises:
        LimitExceeded: The file is too large.
        DiskError: The file cannot be read, or a symbolic link leads to it.
    """
    file = directory / path
    with disk_errors(file):
        refuse_links(*_in_repository(directory, path))
        return read_limited(file, MAX_TEMPLATE, regular=True) if file.exists() else None


def _in_repository(directory: Path, path: str) -> tuple[Path, Path]:
    """Return the repository of an operator, or else its directory, and the absolute path of a file of the operator."""
    operator = Path(os.path.abspath(directory))  # noqa: PTH100 - the directory may be a link out of the repository
    repository = operator.parent.parent if operator.parent.name == OPERATORS else operator
    return repository, operator / path


def write_onboarding(directory: Path, files: Sequence[OnboardingFile]) -> None:
    """Write the changed files of an operator, in their order, all of them or none; the caller locks the directory.

    Raises:
        CatalogError: Another program has changed a file since it was read. Nothing is written.
        DiskError: A file cannot be written. Nothing is written.
    """
    changed = [file for file in files if file.is_changed]
    for file in files:
        if read_existing(directory, file.path) != file.before:
            raise CatalogError(f"{directory / file.path}: changed by another program", hint="run the command again")
    if changed:
        write_files(directory, {file.path: file.after for file in changed})
