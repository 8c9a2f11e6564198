"""Hints in terms of the command line: the flags of the running command, and commands of opm."""

from __future__ import annotations

from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING

from opmkit.author.run.hint_terms import OlmOperation, OlmSetting
from opmkit.bundle.hint_terms import BundleOperation, BundleSetting
from opmkit.cli.hint_terms import CliOperation, CliSetting
from opmkit.core.hints import CoreOperation, Hint, Operation, Setting, as_hint
from opmkit.imagetools.hint_terms import ImageOperation, ImageSetting
from opmkit.index.hint_terms import IndexOperation, IndexSetting
from opmkit.kube.hint_terms import ClusterSetting

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

SETTINGS: Sequence[Setting] = (*ImageSetting, *ClusterSetting, *BundleSetting, *IndexSetting, *OlmSetting, *CliSetting)
"""All settings that hints refer to."""
FLAGS: Mapping[Setting, tuple[str, ...]] = MappingProxyType(
    {
        **{setting: (f"--{setting.replace('_', '-')}",) for setting in SETTINGS},
        IndexSetting.BUILD_TOOL: ("--build-tool", "--container-tool"),
        BundleSetting.DATA_LIMIT: ("--datalimit",),
        ImageSetting.IMAGE_FORMAT: ("--format",),
        ImageSetting.PLAIN_HTTP: ("--use-http",),
        OlmSetting.PULL_SECRET: ("--pull-secret-name",),
        ImageSetting.SIGNATURES: ("--no-signatures",),
        OlmSetting.SECURITY_CONTEXT: ("--security-context-config",),
        IndexSetting.TO_CATALOG: ("--to-fbc",),
    }
)
"""The flags of each setting; a hint names the first that the command has."""
COMMANDS: Mapping[Operation, str] = MappingProxyType(
    {
        ImageOperation.ATTEST_IMAGE: "opm image attest",
        IndexOperation.BUILD_CACHE: "opm serve --cache-only",
        OlmOperation.CLEAN_UP: "opm cleanup",
        ImageOperation.COPY_IMAGE: "opm image copy",
        IndexOperation.DEPRECATE: "opm index deprecate",
        CliOperation.GENERATE_BASE: "opm generate kustomize manifests",
        BundleOperation.GENERATE_BUNDLE: "opm alpha bundle generate",
        OlmOperation.INSTALL_OLM: "opm olm install",
        BundleOperation.LIST_INDEX_BUNDLES: "opm alpha list bundles",
        BundleOperation.LIST_RULES: "opm bundle rules",
        IndexOperation.LIST_SERVED_BUNDLES: "opm catalog list bundles",
        IndexOperation.LIST_SERVED_CATALOG: "opm catalog list",
        ImageOperation.LIST_STORED_IMAGES: "opm image ls",
        IndexOperation.MIGRATE_INDEX: "opm migrate",
        OlmOperation.OLM_STATUS: "opm olm status",
        CliOperation.PIN_BUNDLE: "opm bundle pin",
        CoreOperation.PRUNE_STORE: "opm image prune",
        IndexOperation.PRUNE_STRANDED: "opm registry prune-stranded",
        ImageOperation.REMOVE_STORED_IMAGE: "opm image rm",
        IndexOperation.RENDER_TEMPLATE: "opm alpha render-template",
        OlmOperation.RUN_BUNDLE: "opm run bundle",
        ImageOperation.SIGN_IMAGE: "opm image sign",
        OlmOperation.UNINSTALL_OLM: "opm olm uninstall",
        OlmOperation.UPGRADE_OPERATOR: "opm run bundle-upgrade",
        IndexOperation.VALIDATE_BUNDLE: "opm bundle validate",
        IndexOperation.VALIDATE_CATALOG: "opm validate",
        BundleOperation.WRITE_BASELINE: "opm bundle validate --write-baseline",
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
