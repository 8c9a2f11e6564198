"""Options of adding bundles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.index.modes import UpdateMode

if TYPE_CHECKING:
    from opmkit.index.fbc.csv_metadata import MigrationLevel


@dataclass(frozen=True, slots=True)
class Placement:
    """Channels and edges of added bundles that override those of the bundles; None overrides nothing.

    Empty values override too: with ``replaces=""`` a bundle replaces nothing.
    """

    channels: tuple[str, ...] | None = None
    replaces: str | None = None
    skips: tuple[str, ...] | None = None
    skip_range: str | None = None
    default_channel: str | None = None


@dataclass(frozen=True, slots=True)
class AddOptions:
    """Options of adding bundles.

    Attributes:
        mode: How to determine the update graph.
        permissive: Report bundles that cannot be added as failures instead of raising an error.
        overwrite_latest: Let a bundle replace one of the same name that nothing replaces or skips (mode replaces).
        enable_alpha: Support the annotation olm.substitutesFor.
        skip_present: Skip a bundle that the index contains from the same image, by name or by digest.
        placement: Override channels and edges, in file-based catalogs only.
        level: Migration level of the bundles in a file-based catalog, by default that of their package.
        fail_on: Kinds of differences that make the change fail, such as ``stranded``; see `KIND_NAMES`.
    """

    mode: UpdateMode = UpdateMode.REPLACES
    permissive: bool = False
    overwrite_latest: bool = False
    enable_alpha: bool = False
    skip_present: bool = False
    placement: Placement | None = None
    level: MigrationLevel | None = None
    fail_on: tuple[str, ...] = ()
