"""The bundles below a deprecated one, and the errors of deprecations that are not possible."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.bundle.hint_terms import BundleOperation
from opmkit.core.hints import Hint
from opmkit.index.errors import CatalogError, GraphError
from opmkit.index.hint_terms import IndexOperation, IndexSetting

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opmkit.index.sqlite.removal import Edge


class DefaultChannelRemoval(GraphError):
    """A deprecation that would remove the head of the default channel. Other deprecations can continue."""


class NodeInfo(Struct, frozen=True):
    """Channel memberships and update edges of one bundle in all channels of its package.

    ``replaces`` is an ordered set of the bundles that it replaces or skips, ``replaced_by`` is the inverse.
    """

    channels: set[str] = set()
    replaces: dict[str, None] = {}
    replaced_by: set[str] = set()


def node_infos(edges: Iterable[Edge]) -> dict[str, NodeInfo]:
    """Return the bundles of a package by name, from the edges of its channels."""
    infos: dict[str, NodeInfo] = {}
    for edge in edges:
        info = infos.setdefault(edge.bundle, NodeInfo())
        info.channels.add(edge.channel)
        if edge.replaces is not None:
            info.replaces[edge.replaces] = None
            infos.setdefault(edge.replaces, NodeInfo()).replaced_by.add(edge.bundle)
    return infos


def tail_of(infos: Mapping[str, NodeInfo], target: str) -> list[str]:
    """Return a bundle and, transitively, all that it replaces or skips in any channel."""
    tail = [target]
    seen = {target}
    for name in tail:  # grows during the iteration
        below = [other for other in infos[name].replaces if other not in seen]
        seen.update(below)
        tail += below
    return tail


def missing_images(images: Sequence[str]) -> CatalogError:
    """Return the error for images that no bundle in a channel has, with the message of operator-registry."""
    return CatalogError(
        f"target bundlepaths for deprecation missing from registry: [{' '.join(images)}]",
        hint=Hint("pass bundle images as {} lists them", BundleOperation.LIST_INDEX_BUNDLES),
    )


def removed_twice(packages: Sequence[str]) -> Iterator[CatalogError]:
    """Yield an error for each package that is removed more than once."""
    for package, times in Counter(packages).items():
        if times > 1:
            yield CatalogError(
                f"error removing package {package}: no package found for packagename {package}: the head "
                "of its default channel was passed twice",
                hint="pass each bundle image once",
            )


def default_channel_removal(target: str, head: str) -> DefaultChannelRemoval:
    """Return the error for a deprecation that would remove the head of the default channel."""
    where = "it is the head" if head == target else f"it leads to {head}, the head"
    return DefaultChannelRemoval(
        f"error deprecating bundle {target}: Bundle deprecation causing default channel removal: {where} of the "
        "default channel",
        hint=Hint.any_of(
            "deprecate bundles below the head of the default channel",
            Hint(
                "deprecate the heads of all channels with {} to remove the package", IndexSetting.ALLOW_PACKAGE_REMOVAL
            ),
        ),
    )


def no_default_channel(target: str) -> GraphError:
    """Return the error for a bundle whose package has no default channel."""
    return GraphError(
        f"error deprecating bundle {target}: it is in no package that has a default channel",
        hint=Hint.any_of(
            "add the head of the default channel first",
            Hint("remove bundles that are in no channel with {}", IndexOperation.PRUNE_STRANDED),
        ),
    )


def remaining_head(package: str, channel: str, image: str) -> GraphError:
    """Return the error for a package that cannot be removed because one of its heads is not deprecated."""
    return GraphError(
        "cannot deprecate default channel head from package without removing all other channel heads in "
        f"package {package}: must deprecate {image}, head of channel {channel}",
        hint="deprecate the heads of all channels of a package to remove it",
    )
