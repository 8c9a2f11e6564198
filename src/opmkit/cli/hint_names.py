"""Names of settings and operations on the command line: flags, and commands of opm."""

from __future__ import annotations

from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from opmkit.bundle.hint_terms import BundleOperation, BundleSetting
from opmkit.cli.annexes import is_installed
from opmkit.cli.hint_terms import CliOperation, CliSetting
from opmkit.core.hints import CoreOperation
from opmkit.imagetools.hint_terms import ImageOperation, ImageSetting
from opmkit.index.hint_terms import IndexOperation, IndexSetting
from opmkit.kube.hint_terms import ClusterSetting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opmkit.core.hints import Operation, Setting

_SETTINGS: Sequence[Setting] = (*ImageSetting, *ClusterSetting, *BundleSetting, *IndexSetting, *CliSetting)
_FLAGS: Mapping[Setting, tuple[str, ...]] = MappingProxyType(
    {
        IndexSetting.BUILD_TOOL: ("--build-tool", "--container-tool"),
        BundleSetting.DATA_LIMIT: ("--datalimit",),
        ImageSetting.IMAGE_FORMAT: ("--format",),
        ImageSetting.PLAIN_HTTP: ("--use-http",),
        ImageSetting.SEARCH: ("--no-search",),
        ImageSetting.SIGNATURES: ("--no-signatures",),
        IndexSetting.TO_CATALOG: ("--to-fbc",),
    }
)
_COMMANDS: Mapping[Operation, str] = MappingProxyType(
    {
        ImageOperation.ATTEST_IMAGE: "opm image attest",
        BundleOperation.BUILD_BUNDLE: "opm bundle build --directory",
        IndexOperation.BUILD_CACHE: "opm serve --cache-only",
        ImageOperation.COPY_IMAGE: "opm image copy",
        IndexOperation.DEPRECATE: "opm index deprecate",
        CliOperation.GENERATE_BASE: "opm generate kustomize manifests",
        BundleOperation.GENERATE_BUNDLE: "opm alpha bundle generate",
        BundleOperation.LIST_INDEX_BUNDLES: "opm alpha list bundles",
        BundleOperation.LIST_PACKAGES: "opm alpha list packages",
        BundleOperation.LIST_RULES: "opm bundle rules",
        IndexOperation.LIST_SERVED_BUNDLES: "opm catalog list bundles",
        IndexOperation.LIST_SERVED_CATALOG: "opm catalog list",
        ImageOperation.LIST_STORED_IMAGES: "opm image ls",
        IndexOperation.MIGRATE_INDEX: "opm migrate",
        CliOperation.PIN_BUNDLE: "opm bundle pin",
        CoreOperation.PRUNE_STORE: "opm image prune",
        IndexOperation.PRUNE_STRANDED: "opm registry prune-stranded",
        ImageOperation.REMOVE_STORED_IMAGE: "opm image rm",
        IndexOperation.RENDER_TEMPLATE: "opm alpha render-template",
        ImageOperation.SIGN_IMAGE: "opm image sign",
        IndexOperation.VALIDATE_BUNDLE: "opm bundle validate",
        IndexOperation.VALIDATE_CATALOG: "opm validate",
        BundleOperation.VALIDATE_INDEX: "opm validate",
        BundleOperation.VALIDATE_SHARD: "opm bundle validate --shard",
        BundleOperation.WRITE_BASELINE: "opm bundle validate --write-baseline",
    }
)


@cache
def flag_names() -> Mapping[Setting, tuple[str, ...]]:
    """Return the flags of each setting; a hint names the first that the command has."""
    settings, differing = _SETTINGS, _FLAGS
    if is_installed("author"):
        from opmkit.cli.commands.author import hints

        settings, differing = (*settings, *hints.SETTINGS), {**differing, **hints.FLAGS}
    return {**{setting: (f"--{setting.replace('_', '-')}",) for setting in settings}, **differing}


@cache
def command_names() -> Mapping[Operation, str]:
    """Return the command of each operation."""
    if not is_installed("author"):
        return _COMMANDS
    from opmkit.cli.commands.author import hints

    return {**_COMMANDS, **hints.COMMANDS}
