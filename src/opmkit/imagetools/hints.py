"""Hints: suggestions in errors that refer to settings and operations by value, so that a front end can name them.

The library itself writes ``Setting.PLAIN_HTTP`` as ``plain_http``; the command line, as the flag for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Setting(StrEnum):
    """A setting that a hint refers to; the value is its name in the library's own texts."""

    AUTHFILE = "authfile"
    CA_FILE = "ca_file"
    CERT_DIR = "cert_dir"
    CONTAINER_TOOL = "container_tool"
    IMAGE_FORMAT = "image_format"
    PLAIN_HTTP = "plain_http"
    PLATFORM = "platform"
    SIGNATURES = "signatures"
    SKIP_TLS_VERIFY = "skip_tls_verify"

    BASE = "base"
    BASE_CSV = "base_csv"
    BINARY_IMAGE = "binary_image"
    CHANNELS = "channels"
    CONTEXT = "context"
    CONTINUE = "continue"
    DATA_LIMIT = "data_limit"
    GZIP = "gzip"
    FAIL_ON = "fail_on"
    FROM = "from"
    FROM_CHANNEL = "from_channel"
    TO_CHANNEL = "to_channel"
    KUBECONFIG = "kubeconfig"
    NAMESPACE = "namespace"
    OVERWRITE = "overwrite"
    PACKAGE = "package"
    EXCLUDE = "exclude"
    EXCLUDE_TAGS = "exclude_tags"
    TAGS = "tags"

    AFTER = "after"
    ALLOW_PACKAGE_REMOVAL = "allow_package_removal"
    ALLOW_PROGRAMS = "allow_programs"
    BEFORE = "before"
    BUILD_ARG = "build_arg"
    BUILD_TOOL = "build_tool"
    BUNDLES = "bundles"
    BY_VERSION = "by_version"
    CACHE_DIR = "cache_dir"
    CACHE_ENFORCE_INTEGRITY = "cache_enforce_integrity"
    CACHE_ONLY = "cache_only"
    CHANNEL = "channel"
    CREATE_CHANNEL = "create_channel"
    DEFAULT_CHANNEL = "default_channel"
    ENABLE_ALPHA = "enable_alpha"
    FROZEN = "frozen"
    HTTP_PORT = "http_port"
    IDENTITY_TOKEN = "identity_token"  # noqa: S105 - the name of a setting
    MIGRATE_LEVEL = "migrate_level"
    NO_VALIDATE = "no_validate"
    OFFLINE = "offline"
    ON_CONFLICT = "on_conflict"
    OVERWRITE_LATEST = "overwrite_latest"
    PORT = "port"
    PREFER = "prefer"
    REPLACES = "replaces"
    SKIP_PRESENT = "skip_present"
    SKIPS = "skips"
    SKIP_RANGE = "skip_range"
    TAG = "tag"
    TARGET_CATALOG = "target_catalog"
    TLS_CERT = "tls_cert"
    TLS_KEY = "tls_key"
    TRUSTED_ROOT = "trusted_root"
    TO_CATALOG = "to_catalog"

    INDEX_IMAGE = "index_image"
    INSTALL_MODE = "install_mode"
    PULL_SECRET = "pull_secret"  # noqa: S105 - the name of a setting
    SECURITY_CONTEXT = "security_context"
    TIMEOUT = "timeout"
    VERSION = "version"

    def with_value(self, value: str) -> SettingValue:
        """Return the setting with a value to suggest."""
        return SettingValue(self, value)


class Operation(StrEnum):
    """An operation that a hint refers to; the value is its name in the library's own texts."""

    ATTEST_IMAGE = "attest_image"
    BUILD_CACHE = "build_cache"
    CLEAN_UP = "clean_up"
    COPY_IMAGE = "copy_image"
    DEPRECATE = "deprecate"
    GENERATE_BASE = "generate_base"
    GENERATE_BUNDLE = "generate_bundle"
    INSTALL_OLM = "install_olm"
    LIST_INDEX_BUNDLES = "list_index_bundles"
    LIST_RULES = "list_rules"
    LIST_SERVED_BUNDLES = "list_served_bundles"
    LIST_SERVED_CATALOG = "list_served_catalog"
    LIST_STORED_IMAGES = "list_stored_images"
    MIGRATE_INDEX = "migrate_index"
    OLM_STATUS = "olm_status"
    PIN_BUNDLE = "pin_bundle"
    PRUNE_STORE = "prune_store"
    PRUNE_STRANDED = "prune_stranded"
    REMOVE_STORED_IMAGE = "remove_stored_image"
    RENDER_TEMPLATE = "render_template"
    RUN_BUNDLE = "run_bundle"
    SIGN_IMAGE = "sign_image"
    UNINSTALL_OLM = "uninstall_olm"
    UPGRADE_OPERATOR = "upgrade_operator"
    VALIDATE_BUNDLE = "validate_bundle"
    VALIDATE_CATALOG = "validate_catalog"
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
    """A suggestion how to solve a problem: an imperative sentence, or alternatives; empty by default.

    Attributes:
        alternatives: suggestions of which one is enough.
        further: hints to follow as well.
    """

    alternatives: tuple[Alternative, ...]
    further: tuple[Hint, ...]

    def __init__(self, template: str = "", *terms: Term) -> None:
        """Create a hint with one alternative; if there are terms, each ``{}`` of ``template`` stands for one."""
        self._set((Alternative(template, terms),) if template else (), ())

    def _set(self, alternatives: Iterable[Alternative], further: Iterable[Hint]) -> None:
        object.__setattr__(self, "alternatives", tuple(dict.fromkeys(alternatives)))
        object.__setattr__(self, "further", tuple(dict.fromkeys(further)))

    @classmethod
    def any_of(cls, *hints: Hint | str) -> Self:
        """Return a hint with the alternatives of all ``hints``, each once."""
        parts = [as_hint(hint) for hint in hints]
        joined = cls()
        joined._set(chain(*(part.alternatives for part in parts)), chain(*(part.further for part in parts)))
        return joined

    @classmethod
    def all_of(cls, *hints: Hint | str) -> Self:
        """Return a hint that consists of all ``hints``, each once."""
        joined = cls()
        joined._set((), filter(None, map(as_hint, hints)))
        return joined

    def render(self, names: Mapping[str, str], *, assign: str = " ") -> str:
        """Return the text of the hint without the alternatives that refer to something not in ``names``.

        Args:
            names: names of settings and operations.
            assign: text between the name of a setting and its value.
        """
        texts = [alternative.render(names, assign) for alternative in self.alternatives]
        *others, last = [text for text in texts if text is not None] or [""]
        text = f"{', '.join(others)}, or {last}" if others else last
        for hint in self.further:
            sentence = hint.render(names, assign=assign)
            separator = " " if text.endswith((".", "?")) else "; "
            text = f"{text}{separator}{sentence}" if text and sentence else text or sentence
        return text

    def __str__(self) -> str:
        """Return the hint with the library's own names."""
        return self.render(_OWN_NAMES, assign="=")

    def __bool__(self) -> bool:
        """Return whether there is a suggestion."""
        return bool(self.alternatives or self.further)


def as_hint(hint: Hint | str) -> Hint:
    """Return a hint for a plain text."""
    return hint if isinstance(hint, Hint) else Hint(hint)


def _render_term(term: Term, names: Mapping[str, str], assign: str) -> str | None:
    if isinstance(term, SettingValue):
        name = names.get(term.setting)
        return None if name is None else f"{name}{assign}{term.value}"
    return names.get(term) if isinstance(term, Setting | Operation) else term


_OWN_NAMES = {str(name): str(name) for name in (*Setting, *Operation)}


def install_extra(name: str) -> str:
    """Return the hint to install an extra of the package, which is not on a package index yet."""
    return f"install the extra in a checkout of opmkit: pip install '.[{name}]'"
