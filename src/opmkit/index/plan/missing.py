"""Subscriptions that no entry of a catalog matches: what is missing, and what is probably meant."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from opmkit.index.suggestions import did_you_mean, join_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.index.plan.candidate import CatalogEntry


class WantedEntry(NamedTuple):
    """What a Subscription asks for: its name, and names of a catalog, a package, a channel and a bundle, or ""."""

    subscription: str
    catalog: str
    package: str
    channel: str
    starting_csv: str


def explain_missing(wanted: WantedEntry, entries: Sequence[CatalogEntry], missing: str) -> tuple[str, str]:
    """Return why no entry of a catalog is what a Subscription asks for, and what to change.

    Args:
        wanted: What it asks for.
        entries: The entries of the catalog, none if the namespace does not see it.
        missing: Why it does not, or "" if that is unknown.
    """
    name, package, channel = f"Subscription {wanted.subscription}", wanted.package, wanted.channel
    if not entries:
        return missing or f"catalog {wanted.catalog} has no bundles", f"correct or delete {name}"
    members = [entry for entry in entries if package in entry.packages]
    if not members:
        if any(entry.channel == package and channel in entry.packages for entry in entries):
            return (
                f"catalog {wanted.catalog} has no package {package}, but a package {channel} with a channel "
                f"{package}: its name and channel are swapped",
                f"let {name} have name {channel} and channel {package}",
            )
        known = sorted({entry.package for entry in entries})
        return f"catalog {wanted.catalog} has no package {package}", _correction(name, package, known)
    channels = sorted({entry.channel for entry in members})
    if channel and channel not in channels:
        text = f"package {package} has no channel {channel}, only {join_names(channels)}"
        return text, _correction(name, channel, channels)
    names = [entry.name for entry in members if channel in ("", entry.channel)]
    text = f"channel {channel} of package {package} has no entry {wanted.starting_csv}"
    return text, _correction(name, wanted.starting_csv, names)


def _correction(subscription: str, name: str, known: Sequence[str]) -> str:
    similar = did_you_mean(name, known)
    return f"correct {subscription}: {similar}" if similar else f"correct or delete {subscription}"
