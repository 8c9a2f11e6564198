"""What goes with a bundle that is deprecated, and what keeps one from being it (index semantics, section 9)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opmkit.imagetools.hints import Hint, Operation, Setting
from opmkit.index.errors import CatalogError, GraphError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opmkit.index.sqlite.deprecation import Edge


class DefaultChannelRemoval(GraphError):
    """A bundle that can't be deprecated, which keeps no other from it."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a bundle stands in the channels of its package, whichever they are."""

    channels: set[str] = field(default_factory=set)
    replaces: dict[str, None] = field(default_factory=dict)
    replaced_by: set[str] = field(default_factory=set)


def standings(edges: Iterable[Edge]) -> dict[str, Standing]:
    """Where each bundle of a package stands, by its name, told by the entries of the package."""
    places: dict[str, Standing] = {}
    for edge in edges:
        place = places.setdefault(edge.bundle, Standing())
        place.channels.add(edge.channel)
        if edge.replaces is not None:
            place.replaces[edge.replaces] = None
            places.setdefault(edge.replaces, Standing()).replaced_by.add(edge.bundle)
    return places


def tail_of(places: Mapping[str, Standing], target: str) -> list[str]:
    """A bundle and all that it leads to by what it replaces or skips, in any channel."""
    tail = [target]
    seen = {target}
    for name in tail:  # grows while it is walked
        below = [other for other in places[name].replaces if other not in seen]
        seen.update(below)
        tail += below
    return tail


def missing_images(images: Sequence[str]) -> CatalogError:
    """The error of images that no bundle in a channel has."""
    return CatalogError(
        f"target bundlepaths for deprecation missing from registry: [{' '.join(images)}]",
        hint=Hint("pass bundle images as {} lists them", Operation.LIST_INDEX_BUNDLES),
    )


def removed_twice(packages: Sequence[str]) -> Iterator[CatalogError]:
    """The errors of packages that are listed more than once as removed."""
    for package, times in Counter(packages).items():
        if times > 1:
            yield CatalogError(
                f"error removing package {package}: no package found for packagename {package}: it went with the "
                "head of its default channel, which is named twice",
                advice="Name each bundle image once.",
            )


def default_channel_removal(target: str, head: str) -> DefaultChannelRemoval:
    """The error of a bundle that can't be deprecated, for the head of its default channel would go."""
    where = "it is the head" if head == target else f"it leads to {head}, the head"
    return DefaultChannelRemoval(
        f"error deprecating bundle {target}: Bundle deprecation causing default channel removal: {where} of the "
        "default channel",
        hint=Hint.any_of(
            "deprecate bundles below the head of the default channel",
            Hint("deprecate the heads of all channels with {} to remove the package", Setting.ALLOW_PACKAGE_REMOVAL),
        ),
    )


def no_default_channel(target: str) -> GraphError:
    """The error of a bundle that can't be deprecated, for its package has no default channel."""
    return GraphError(
        f"error deprecating bundle {target}: it is in no package that has a default channel",
        hint=Hint.any_of(
            "add the head of the default channel first",
            Hint("remove bundles that are in no channel with {}", Operation.PRUNE_STRANDED),
        ),
    )


def head_left(package: str, channel: str, image: str) -> GraphError:
    """The error of a package that can't be removed, for a head is not among the bundles that are deprecated."""
    return GraphError(
        "cannot deprecate default channel head from package without removing all other channel heads in "
        f"package {package}: must deprecate {image}, head of channel {channel}",
        advice="Deprecate the heads of all channels of a package to remove it.",
    )
