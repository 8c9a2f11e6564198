"""Hints in terms of the command line: the flags of the running command, and commands of opm."""

from __future__ import annotations

from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING

from opmkit.imagetools.hints import Hint, Operation, Setting, as_hint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FLAGS: Mapping[Setting, tuple[str, ...]] = MappingProxyType(
    {
        **{setting: (f"--{setting.replace('_', '-')}",) for setting in Setting},
        Setting.BUILD_TOOL: ("--build-tool", "--container-tool"),
        Setting.DATA_LIMIT: ("--datalimit",),
        Setting.IMAGE_FORMAT: ("--format",),
        Setting.PLAIN_HTTP: ("--use-http",),
        Setting.PULL_SECRET: ("--pull-secret-name",),
        Setting.SIGNATURES: ("--no-signatures",),
        Setting.SECURITY_CONTEXT: ("--security-context-config",),
        Setting.TO_CATALOG: ("--to-fbc",),
    }
)
"""The flags of each setting; a hint names the first that the command has."""
COMMANDS: Mapping[Operation, str] = MappingProxyType(
    {
        Operation.ATTEST_IMAGE: "opm image attest",
        Operation.BUILD_CACHE: "opm serve --cache-only",
        Operation.CLEAN_UP: "opm cleanup",
        Operation.COPY_IMAGE: "opm image copy",
        Operation.DEPRECATE: "opm index deprecate",
        Operation.GENERATE_BASE: "opm generate kustomize manifests",
        Operation.GENERATE_BUNDLE: "opm alpha bundle generate",
        Operation.INSTALL_OLM: "opm olm install",
        Operation.LIST_INDEX_BUNDLES: "opm alpha list bundles",
        Operation.LIST_RULES: "opm bundle rules",
        Operation.LIST_SERVED_BUNDLES: "opm catalog list bundles",
        Operation.LIST_SERVED_CATALOG: "opm catalog list",
        Operation.LIST_STORED_IMAGES: "opm image ls",
        Operation.MIGRATE_INDEX: "opm migrate",
        Operation.OLM_STATUS: "opm olm status",
        Operation.PIN_BUNDLE: "opm bundle pin",
        Operation.PRUNE_STORE: "opm image prune",
        Operation.PRUNE_STRANDED: "opm registry prune-stranded",
        Operation.REMOVE_STORED_IMAGE: "opm image rm",
        Operation.RENDER_TEMPLATE: "opm alpha render-template",
        Operation.RUN_BUNDLE: "opm run bundle",
        Operation.SIGN_IMAGE: "opm image sign",
        Operation.UNINSTALL_OLM: "opm olm uninstall",
        Operation.UPGRADE_OPERATOR: "opm run bundle-upgrade",
        Operation.VALIDATE_BUNDLE: "opm bundle validate",
        Operation.VALIDATE_CATALOG: "opm validate",
        Operation.WRITE_BASELINE: "opm bundle validate --write-baseline",
    }
)

_flags: ContextVar[frozenset[str]] = ContextVar("flags", default=frozenset())


def set_command_flags(flags: Iterable[str]) -> None:
    """Set the flags of the running command, which hints may name."""
    _flags.set(frozenset(flags))


def format_hint(hint: Hint | str) -> str:
    """Return a hint as a clause: without a capital letter and a full stop, and only with flags of the command."""
    names = {str(operation): f"'{command}'" for operation, command in COMMANDS.items()}
    for setting, flags in FLAGS.items():
        names |= {str(setting): flag for flag in flags[::-1] if flag in _flags.get()}
    return _as_clause(as_hint(hint).render(names))


def _as_clause(text: str) -> str:
    is_sentence = text[1:2].islower() or text[1:2] == " "
    text = (text[:1].lower() if is_sentence else text[:1]) + text[1:]
    return text if text.endswith("...") else text.removesuffix(".")
