"""The position and the update edges of a bundle in a channel of a template."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct, structs

from opmkit.core.hints import Hint, Setting
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.blobs import EntryBlob
from opmkit.index.fbc.check.graph import channel_heads
from opmkit.index.hint_terms import IndexSetting
from opmkit.index.suggestions import suggest_names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from opmkit.bundle.versions import VersionKey

GetVersion: TypeAlias = Callable[[str], "VersionKey | None"]
"""Returns the version of a bundle by its name, None if it is unknown."""


class PlacementError(CatalogError):
    """A bundle cannot be added to a channel; the message lacks the file and the channel."""


@dataclass(frozen=True, slots=True)
class EdgeOptions:
    """Edges that the user asks for; None and "" leave them to the versions of the bundles.

    Attributes:
        replaces: The bundle that the new one replaces, or "" if there is none.
        skips: The bundles that the new one skips.
        skip_range: The range of versions that the new one skips.
        after: The bundle after which to insert the new one; entries that replace that bundle replace the new one.
        before: The bundle before which to insert the new one, which that bundle then replaces.
        by_version: Whether to insert a bundle that is not the newest at the position of its version.
    """

    replaces: str | None = None
    skips: tuple[str, ...] | None = None
    skip_range: str | None = None
    after: str = ""
    before: str = ""
    by_version: bool = False


NO_EDGES = EdgeOptions()


class PlacedEntry(Struct, frozen=True):
    """An entry to insert.

    Attributes:
        entry: The entry.
        index: Its index in the list of entries.
        rewired: Names of other entries that replace it from then on.
    """

    entry: EntryBlob
    index: int
    rewired: tuple[str, ...] = ()


def place_entry(
    entries: Sequence[EntryBlob], name: str, options: EdgeOptions, version: GetVersion
) -> PlacedEntry | None:
    """Return where and with which edges to insert a bundle into a channel; None if it is there with these edges.

    By default the bundle replaces the head of the channel, whose version must be lower. A bundle that an entry replaces
    or skips already is inserted at the position of its version, without changes to other entries.

    Raises:
        PlacementError: A named bundle is not in the channel, the bundle is not the newest, its position is not given,
            or it is in the channel with other edges.
    """
    present = next((entry for entry in entries if entry.name == name), None)
    if present:
        _check_present(entries, present, options)
        return None
    for setting, other in ((IndexSetting.AFTER, options.after), (IndexSetting.BEFORE, options.before)):
        _check_known(entries, setting, other)
    if options.after:
        return _after(entries, _new_entry(name, options.after, options), options.after, version)
    if options.before:
        return _before(entries, _new_entry(name, "", options), options.before)
    if options.replaces is not None or not entries:
        if entries:
            _check_known(entries, IndexSetting.REPLACES, options.replaces or "")
        return _newest(entries, _new_entry(name, options.replaces or "", options))
    head = _only_head(entries)
    order = _compare(name, head, version)
    if order > 0:
        return _newest(entries, _new_entry(name, _unskipped(entries, head, options.skips or ()), options))
    if any(name in (entry.replaces, *entry.skips) for entry in entries):
        return _below_updater(entries, _new_entry(name, "", options), head, version)
    if options.by_version:
        return _by_version(entries, _new_entry(name, "", options), head, version)
    raise _not_newest(entries, name, head, version)


def chain_below(entries: Sequence[EntryBlob], name: str) -> Iterator[str]:
    """Yield the names that a bundle replaces, directly or through others, up to one that is not in the channel."""
    by_name = {entry.name: entry for entry in entries}
    seen = {name}
    entry = by_name.get(name)
    while entry and entry.replaces and entry.replaces not in seen:
        yield entry.replaces
        seen.add(entry.replaces)
        entry = by_name.get(entry.replaces)


def promoted_edges(
    source: Sequence[EntryBlob],
    entry: EntryBlob,
    target: Sequence[EntryBlob],
    options: EdgeOptions,
    version: GetVersion,
) -> EdgeOptions:
    """Return the edges of a bundle of one channel in another one, as far as ``options`` leaves them open.

    In an empty channel the bundle has the same edges. Otherwise it skips what it skips in its channel, and what is
    between it and the head of the target in that channel, except for the bundles that the target has.
    """
    skip_range = entry.skip_range if options.skip_range is None else options.skip_range
    if not target:
        replaces = entry.replaces if options.replaces is None else options.replaces
        skips = entry.skips if options.skips is None else options.skips
        return replace(options, replaces=replaces, skips=skips, skip_range=skip_range)
    known = {other.name for other in target}
    between = takewhile(_above(target, known, version), chain_below(source, entry.name))
    skips = tuple(name for name in dict.fromkeys([*entry.skips, *between]) if name not in known)
    return replace(options, skips=skips if options.skips is None else options.skips, skip_range=skip_range)


def _above(target: Sequence[EntryBlob], known: Collection[str], version: GetVersion) -> Callable[[str], bool]:
    """Return whether a bundle is not in a channel, and newer than its head."""
    floor = max((key for head in channel_heads(target) if (key := version(head))), default=None)

    def is_above(name: str) -> bool:
        key = version(name)
        return name not in known and key is not None and floor is not None and key > floor

    return is_above


def _new_entry(name: str, replaces: str, options: EdgeOptions) -> EntryBlob:
    skips = tuple(skip for skip in dict.fromkeys(options.skips or ()) if skip != replaces)
    if name in (replaces, *skips):
        raise PlacementError(f"{name} would replace or skip itself", hint="name another bundle")
    return EntryBlob(name, replaces, skips, options.skip_range or "")


def _check_present(entries: Sequence[EntryBlob], entry: EntryBlob, options: EdgeOptions) -> None:
    """Raise PlacementError if the bundle has other edges than those that are asked for."""
    replaces = options.after or options.replaces
    updater = next((other for other in entries if other.name == options.before), None)
    differences = {
        "replaces": replaces is not None and replaces != entry.replaces,
        "skips": options.skips is not None and {*options.skips} - {entry.replaces} != {*entry.skips},
        "skipRange": options.skip_range is not None and options.skip_range != entry.skip_range,
        "position": bool(options.before) and (updater is None or updater.replaces != entry.name),
    }
    if names := [name for name, differs in differences.items() if differs]:
        raise PlacementError(
            f"{entry.name} is already in the channel, with a different {' and '.join(names)}",
            hint="edit its entry, or omit the edges",
        )


def _check_known(entries: Sequence[EntryBlob], setting: Setting, name: str) -> None:
    known = sorted(entry.name for entry in entries)
    if name and name not in known:
        hint = Hint.any_of(suggest_names("bundles of the channel", name, known), Hint("omit {}", setting))
        raise PlacementError(f"{name} is not in the channel", hint=hint)


def _only_head(entries: Sequence[EntryBlob]) -> str:
    heads = channel_heads(entries)
    if len(heads) == 1:
        return heads[0]
    message = f"the channel has {len(heads)} heads instead of one" + f": {', '.join(heads)}" * bool(heads)
    hint = Hint(
        "correct its entries, or pass {} and {} so that one head remains", IndexSetting.REPLACES, IndexSetting.SKIPS
    )
    raise PlacementError(message, hint=hint)


def _compare(name: str, other: str, version: GetVersion) -> int:
    """Return 1 if the version of a bundle is higher than that of another one, -1 if it is lower, otherwise 0."""
    first, second = version(name), version(other)
    if first is None or second is None:
        unknown = name if first is None else other
        raise PlacementError(
            f"the version of {unknown} is unknown, because the template does not list its image",
            hint=Hint("pass {}", IndexSetting.REPLACES.with_value(other)),
        )
    return (first > second) - (first < second)


def _unskipped(entries: Sequence[EntryBlob], head: str, skips: Sequence[str]) -> str:
    """Return the first bundle from the head down its chain that is not skipped."""
    return next((name for name in (head, *chain_below(entries, head)) if name not in skips), "")


def _newest_first(entries: Sequence[EntryBlob]) -> bool:
    return len(entries) > 1 and channel_heads(entries) == (entries[0].name,)


def _newest(entries: Sequence[EntryBlob], entry: EntryBlob) -> PlacedEntry:
    return PlacedEntry(entry, 0 if _newest_first(entries) else len(entries))


def _index(entries: Sequence[EntryBlob], name: str) -> int:
    return next(index for index, entry in enumerate(entries) if entry.name == name)


def _after(entries: Sequence[EntryBlob], entry: EntryBlob, other: str, version: GetVersion) -> PlacedEntry:
    """Insert an entry after another one: newer entries that replace the other one replace the new one."""
    key = version(entry.name)

    def is_newer(name: str) -> bool:
        other_key = version(name)
        return key is None or other_key is None or other_key > key

    rewired = tuple(updater.name for updater in entries if updater.replaces == other and is_newer(updater.name))
    return PlacedEntry(entry, _index(entries, other) + (not _newest_first(entries)), rewired)


def _before(entries: Sequence[EntryBlob], entry: EntryBlob, other: str) -> PlacedEntry:
    index = _index(entries, other)
    updater = entries[index]
    replaces = updater.replaces if updater.replaces not in entry.skips else ""
    return PlacedEntry(structs.replace(entry, replaces=replaces), index + _newest_first(entries), (other,))


def _by_version(entries: Sequence[EntryBlob], entry: EntryBlob, head: str, version: GetVersion) -> PlacedEntry:
    known = {other.name for other in entries}
    chain = [name for name in (head, *chain_below(entries, head)) if name in known]
    for name in chain:
        order = _compare(entry.name, name, version)
        if order == 0:
            raise _same_version(entry.name, name)
        if order > 0:
            return _after(entries, structs.replace(entry, replaces=name), name, version)
    return _before(entries, entry, chain[-1])


def _below_updater(entries: Sequence[EntryBlob], entry: EntryBlob, head: str, version: GetVersion) -> PlacedEntry:
    """Insert an entry that another one replaces or skips, with the next older bundle of the chain below it."""
    known = {other.name for other in entries}
    chain = [name for name in (head, *chain_below(entries, head)) if name in known]
    lower = next((name for name in chain if _compare(entry.name, name, version) > 0), "")
    if lower:
        index = _index(entries, lower) + (not _newest_first(entries))
        return PlacedEntry(structs.replace(entry, replaces=lower if lower not in entry.skips else ""), index)
    return PlacedEntry(entry, _index(entries, chain[-1]) + _newest_first(entries))


def _same_version(name: str, other: str) -> PlacementError:
    return PlacementError(f"{name} has the same version as {other}", hint="build the bundle with another version")


def _not_newest(entries: Sequence[EntryBlob], name: str, head: str, version: GetVersion) -> PlacementError:
    """Return the error for a bundle that is not the newest, with the ways to add it."""
    if _compare(name, head, version) == 0:
        return _same_version(name, head)
    hints = [Hint("insert it at its position with {}", IndexSetting.BY_VERSION)]
    own, known = version(name), {entry.name for entry in entries}
    chain = [other for other in (head, *chain_below(entries, head)) if other in known]
    lower = [other for other in chain if own and (key := version(other)) and key < own]
    if lower:
        hints.append(Hint("{}", IndexSetting.AFTER.with_value(lower[0])))
    else:
        hints.append(Hint("{}", IndexSetting.BEFORE.with_value(chain[-1])))
    hints.append(Hint("choose another channel with {}", IndexSetting.CHANNEL))
    return PlacementError(f"{name} is not newer than the head of the channel, {head}", hint=Hint.any_of(*hints))
