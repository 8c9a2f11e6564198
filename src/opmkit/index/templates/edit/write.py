"""Results of edits of templates, and their files: all of them are written, or none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from opmkit.core.files import disk_errors, read_limited, resolve_named, write_trees
from opmkit.core.locks import locked_directory
from opmkit.index.errors import CatalogError
from opmkit.index.templates.document import MAX_TEMPLATE
from opmkit.index.templates.edit.template import EditableTemplate, unified_diff

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from opmkit.index.fbc.blobs import EntryBlob
    from opmkit.index.plan.result import UpdatePlan


@dataclass(frozen=True, slots=True)
class TemplateChange:
    """A change of a template.

    Attributes:
        action: The kind of the change, such as ``add``.
        subject: What changes.
        text: How it changes, for people.
        values: How it changes, in JSON types.
    """

    action: str
    subject: str
    text: str
    values: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        """Return the change in one line."""
        return f"{self.subject}: {self.text}"

    def as_dict(self) -> dict[str, Any]:
        """Return the change in JSON types."""
        return {"action": self.action, **{key: value for key, value in self.values if value}}


@dataclass(frozen=True, slots=True)
class EditedTemplate:
    """A template file that was edited, or would be.

    Attributes:
        file: The path of the file.
        before: Its content before the edit, empty if it did not exist.
        after: Its content after the edit.
        changes: The changes, none if the content is the same.
        warnings: Warnings about the changes.
        plan: What clusters do with the rendered catalog, if that was asked for.
    """

    file: str
    before: bytes
    after: bytes
    changes: tuple[TemplateChange, ...] = ()
    warnings: tuple[str, ...] = ()
    plan: UpdatePlan | None = None

    @property
    def is_changed(self) -> bool:
        """Return whether the content differs."""
        return self.after != self.before

    @property
    def diff(self) -> str:
        """Return the unified diff of the content, in which control characters are escaped."""
        return unified_diff(self.file, self.before, self.after)

    def to_dict(self) -> dict[str, Any]:
        """Return the result in JSON types; ``plan`` is missing if none was asked for."""
        return {
            "file": self.file,
            "changed": self.is_changed,
            "changes": [change.as_dict() for change in self.changes],
            "warnings": list(self.warnings),
            "diff": self.diff,
            **({"plan": self.plan.to_dict()} if self.plan else {}),
        }


class TemplateEdit(Struct, frozen=True):
    """A template with its changes, which may be none, warnings about them, and the plan of updates if asked for."""

    template: EditableTemplate
    changes: tuple[TemplateChange, ...] = ()
    warnings: tuple[str, ...] = ()
    plan: UpdatePlan | None = None


def entry_change(action: str, channel: str, entry: EntryBlob) -> TemplateChange:
    """Return the change that adds an entry to a channel."""
    edges = [f"replaces {entry.replaces}"] if entry.replaces else []
    edges += [f"skips {', '.join(entry.skips)}"] if entry.skips else []
    edges += [f"skipRange {entry.skip_range}"] if entry.skip_range else []
    values = (
        ("channel", channel),
        ("bundle", entry.name),
        ("replaces", entry.replaces),
        ("skips", list(entry.skips)),
        ("skipRange", entry.skip_range),
    )
    text = f"{entry.name} added" + (f" ({'; '.join(edges)})" if edges else "")
    return TemplateChange(action, f"channel {channel}", text, values)


MAX_ATTEMPTS = 10
"""Attempts to edit files that other programs keep changing."""

EditTemplate: TypeAlias = Callable[[str, bytes], TemplateEdit]
"""Edits a template, given by its name and content."""


def require_template(path: Path) -> None:
    """Raise CatalogError if a template file does not exist."""
    if not path.is_file():
        kind = "is a directory" if path.is_dir() else "no such file or directory"
        raise CatalogError(f"{path}: {kind}", hint="pass a template file")


def edit_template(
    path: Path, edit: Callable[[EditableTemplate], TemplateEdit], *, dry_run: bool = False
) -> tuple[EditedTemplate, ...]:
    """Edit a template file, or return only what would change; see `edit_templates`."""
    return edit_templates(
        {str(path): path}, lambda name, content: edit(EditableTemplate.parse(content, name)), dry_run=dry_run
    )


def edit_templates(
    paths: Mapping[str, Path], edit: EditTemplate, *, dry_run: bool = False
) -> tuple[EditedTemplate, ...]:
    """Edit template files, all of them or none, or return only what would change; see `change_files`.

    Raises:
        CatalogError: A template cannot be edited, or its file keeps changing.
        DiskError: A file cannot be read or written.
    """
    edited: dict[str, EditedTemplate] = {}

    def edit_all(contents: Mapping[str, bytes]) -> Mapping[str, bytes]:
        for name, content in contents.items():
            result = edit(name, content)
            edited[name] = EditedTemplate(
                name, content, result.template.raw, result.changes, result.warnings, result.plan
            )
        return {name: template.after for name, template in edited.items()}

    if dry_run:
        edit_all({name: read_template(resolve_named(path)) for name, path in paths.items()})
    else:
        change_files(paths, edit_all)
    return tuple(edited.values())


def change_files(paths: Mapping[str, Path], edit: Callable[[Mapping[str, bytes]], Mapping[str, bytes]]) -> None:
    """Edit files while other commands wait; if another program changes one in the meantime, edit them again.

    Args:
        paths: The files by their names in messages. A file need not exist; its content is empty then.
        edit: Returns the new content of the files by name; those that it omits do not change.

    Raises:
        CatalogError: The files keep changing.
        DiskError: A file cannot be read or written.
    """
    paths = {name: resolve_named(path) for name, path in paths.items()}
    with _locked(paths.values()):
        for _ in range(MAX_ATTEMPTS):
            before = {name: read_template(path) for name, path in paths.items()}
            after = {name: content for name, content in edit(before).items() if content != before[name]}
            if not after or _replace(paths, before, after):
                return
    raise files_keep_changing(paths)


def files_keep_changing(names: Iterable[str]) -> CatalogError:
    """Return the error for files that other programs change whenever they are about to be written."""
    return CatalogError(f"{', '.join(names)}: other programs keep changing it", hint="wait for the other programs")


def read_template(path: Path) -> bytes:
    """Return the content of a template, b"" if it does not exist.

    Raises:
        LimitExceeded: The file is too large.
        DiskError: The file cannot be read.
    """
    with disk_errors(path):
        if not path.exists():
            return b""
        return read_limited(path, MAX_TEMPLATE, regular=True)


def _replace(paths: Mapping[str, Path], before: Mapping[str, bytes], after: Mapping[str, bytes]) -> bool:
    """Write files unless one has changed; return whether they are written."""
    trees: dict[Path, dict[str, bytes | Path]] = {}
    for name, content in after.items():
        directory = _existing_parent(paths[name])
        trees.setdefault(directory, {})[str(paths[name].relative_to(directory))] = content
    if any(read_template(paths[name]) != content for name, content in before.items()):
        return False
    write_trees(trees)
    return True


@contextmanager
def _locked(paths: Iterable[Path]) -> Iterator[None]:
    """Lock the directories of files within the block; without locks, the comparison before the write remains."""
    with ExitStack() as stack:
        for directory in sorted({_existing_parent(path) for path in paths}):
            stack.enter_context(locked_directory(directory))
        yield


def _existing_parent(path: Path) -> Path:
    return next(parent for parent in path.parents if parent.is_dir())
