"""Hints: suggestions in errors that refer to settings and operations by value, so that a front end can name them.

The command line writes ``Setting.PLAIN_HTTP`` as ``--use-http``; the library itself as ``plain_http``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Mapping


class Setting(StrEnum):
    """A setting that a hint refers to; the value is its name in the library's own texts."""

    AUTHFILE = "authfile"
    CA_FILE = "ca_file"
    CERT_DIR = "cert_dir"
    CONTAINER_TOOL = "container_tool"
    IMAGE_FORMAT = "image_format"
    PLAIN_HTTP = "plain_http"
    PLATFORM = "platform"
    SKIP_TLS_VERIFY = "skip_tls_verify"

    CHANNELS = "channels"
    DATA_LIMIT = "data_limit"
    GZIP = "gzip"
    KUBECONFIG = "kubeconfig"
    OVERWRITE = "overwrite"
    PACKAGE = "package"
    EXCLUDE_TAGS = "exclude_tags"
    TAGS = "tags"

    def with_value(self, value: str) -> SettingValue:
        """Return the setting with a value to suggest."""
        return SettingValue(self, value)


class Operation(StrEnum):
    """An operation that a hint refers to; the value is its name in the library's own texts."""

    COPY_IMAGE = "copy_image"
    GENERATE_BUNDLE = "generate_bundle"
    LIST_INDEX_BUNDLES = "list_index_bundles"
    LIST_RULES = "list_rules"
    LIST_STORED_IMAGES = "list_stored_images"
    PRUNE_STORE = "prune_store"
    REMOVE_STORED_IMAGE = "remove_stored_image"
    WRITE_BASELINE = "write_baseline"


@dataclass(frozen=True, slots=True)
class SettingValue:
    """A setting with the value to give it."""

    setting: Setting
    value: str


Term = Setting | Operation | SettingValue | str


@dataclass(frozen=True, slots=True)
class Alternative:
    """One of the suggestions of a hint: a template with a ``{}`` for each of its terms."""

    template: str
    terms: tuple[Term, ...] = ()

    def render(self, names: Mapping[str, str], assign: str) -> str | None:
        """Return the text, or None if ``names`` lacks a setting or an operation."""
        if not self.terms:
            return self.template
        words = [_render_term(term, names, assign) for term in self.terms]
        return None if None in words else self.template.format(*words)


@dataclass(frozen=True, slots=True, init=False)
class Hint:
    """A suggestion how to solve a problem: one imperative sentence, or several alternatives; empty by default."""

    alternatives: tuple[Alternative, ...]

    def __init__(self, template: str = "", *terms: Term) -> None:
        """Create a hint with one alternative; each ``{}`` of ``template`` is replaced by a term, if there are any."""
        object.__setattr__(self, "alternatives", (Alternative(template, terms),) if template else ())

    @classmethod
    def any_of(cls, *hints: Hint | str) -> Self:
        """Return a hint with the alternatives of all ``hints``, each once."""
        found = [alternative for hint in hints for alternative in as_hint(hint).alternatives]
        joined = cls()
        object.__setattr__(joined, "alternatives", tuple(dict.fromkeys(found)))
        return joined

    def render(self, names: Mapping[str, str], *, assign: str = " ") -> str:
        """Return the hint as one sentence, without the alternatives that refer to something not in ``names``.

        Args:
            names: names of settings and operations.
            assign: text between the name of a setting and its value.
        """
        texts = [alternative.render(names, assign) for alternative in self.alternatives]
        *others, last = [text for text in texts if text is not None] or [""]
        return f"{', '.join(others)}, or {last}" if others else last

    def __str__(self) -> str:
        """Return the hint with the library's own names."""
        return self.render(_OWN_NAMES, assign="=")

    def __bool__(self) -> bool:
        """Return whether there is a hint."""
        return bool(self.alternatives)


def as_hint(hint: Hint | str) -> Hint:
    """Return a hint for a plain text."""
    return hint if isinstance(hint, Hint) else Hint(hint)


def _render_term(term: Term, names: Mapping[str, str], assign: str) -> str | None:
    if isinstance(term, SettingValue):
        name = names.get(term.setting)
        return None if name is None else f"{name}{assign}{term.value}"
    return names.get(term) if isinstance(term, Setting | Operation) else term


_OWN_NAMES = {str(name): str(name) for name in (*Setting, *Operation)}
