"""Hints in terms of the command line: the flags of the running command, and commands of opm."""

from __future__ import annotations

from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING

from opmkit.imagetools.hints import Hint, Operation, Setting, as_hint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FLAGS: Mapping[Setting, str] = MappingProxyType(
    {
        Setting.AUTHFILE: "--authfile",
        Setting.CA_FILE: "--ca-file",
        Setting.CERT_DIR: "--cert-dir",
        Setting.CHANNELS: "--channels",
        Setting.CONTAINER_TOOL: "--container-tool",
        Setting.DATA_LIMIT: "--datalimit",
        Setting.EXCLUDE_TAGS: "--exclude-tags",
        Setting.GZIP: "--gzip",
        Setting.IMAGE_FORMAT: "--format",
        Setting.KUBECONFIG: "--kubeconfig",
        Setting.OVERWRITE: "--overwrite",
        Setting.PACKAGE: "--package",
        Setting.PLAIN_HTTP: "--use-http",
        Setting.PLATFORM: "--platform",
        Setting.SKIP_TLS_VERIFY: "--skip-tls-verify",
        Setting.TAGS: "--tags",
    }
)
COMMANDS: Mapping[Operation, str] = MappingProxyType(
    {
        Operation.COPY_IMAGE: "opm image copy",
        Operation.GENERATE_BUNDLE: "opm alpha bundle generate",
        Operation.LIST_INDEX_BUNDLES: "opm alpha list bundles",
        Operation.LIST_RULES: "opm bundle rules",
        Operation.LIST_STORED_IMAGES: "opm image ls",
        Operation.PRUNE_STORE: "opm image prune",
        Operation.REMOVE_STORED_IMAGE: "opm image rm",
        Operation.WRITE_BASELINE: "opm bundle validate --write-baseline",
    }
)

_flags: ContextVar[frozenset[str]] = ContextVar("flags", default=frozenset())


def set_command_flags(flags: Iterable[str]) -> None:
    """Set the flags of the running command, which hints may name."""
    _flags.set(frozenset(flags))


def format_hint(hint: Hint | str) -> str:
    """Return a hint as a clause: without a capital letter and a full stop, and only with flags of the command."""
    available = {str(setting): flag for setting, flag in FLAGS.items() if flag in _flags.get()}
    commands = {str(operation): f"'{command}'" for operation, command in COMMANDS.items()}
    return _as_clause(as_hint(hint).render(available | commands))


def _as_clause(text: str) -> str:
    starts_a_sentence = text[1:2].islower() or text[1:2] == " "
    return (text[:1].lower() if starts_a_sentence else text[:1]) + text[1:].rstrip(".")
