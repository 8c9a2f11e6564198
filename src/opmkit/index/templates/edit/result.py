"""The result of editing a template."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opmkit.index.templates.edit.template import unified_diff

if TYPE_CHECKING:
    from opmkit.index.fbc.blobs import EntryBlob
    from opmkit.index.templates.edit.template import EditableTemplate


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
    """

    file: str
    before: bytes
    after: bytes
    changes: tuple[TemplateChange, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def is_changed(self) -> bool:
        """Return whether the content differs."""
        return self.after != self.before

    @property
    def diff(self) -> str:
        """Return the unified diff of the content, in which control characters are escaped."""
        return unified_diff(self.file, self.before, self.after)

    def to_dict(self) -> dict[str, Any]:
        """Return the result in JSON types."""
        return {
            "file": self.file,
            "changed": self.is_changed,
            "changes": [change.as_dict() for change in self.changes],
            "warnings": list(self.warnings),
            "diff": self.diff,
        }


@dataclass(frozen=True, slots=True)
class TemplateEdit:
    """A template with its changes, which may be none, and warnings about them."""

    template: EditableTemplate
    changes: tuple[TemplateChange, ...] = ()
    warnings: tuple[str, ...] = ()


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
