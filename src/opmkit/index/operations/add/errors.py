"""Errors of adding bundles to an index of either kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle.labels import PACKAGE
from opmkit.core.hints import Hint
from opmkit.index.diff.differences import STRANDING
from opmkit.index.errors import CatalogError
from opmkit.index.hint_terms import IndexSetting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.index.diff.differences import Difference

PRESENT_HINT = Hint.any_of("omit it", Hint("skip bundles that the index contains with {}", IndexSetting.SKIP_PRESENT))
"""Hint for a bundle that the index contains already."""


class UnwantedDifference(CatalogError):
    """Adding the bundles would make differences of kinds that are not allowed; nothing was changed.

    Attributes:
        differences: The unwanted differences.
    """

    def __init__(self, differences: Sequence[Difference], losses: Sequence[str], kinds: Sequence[str]) -> None:
        """Create the error, with the losses of users as details, else with each difference."""
        others = [str(each) for each in differences if each.kind not in STRANDING]
        is_stranding = len(others) < len(differences)
        noun = "difference" if len(differences) == 1 else "differences"
        super().__init__(
            f"refusing to change the index: {len(differences)} {noun} of the kind{'s' * (len(kinds) != 1)} "
            f"{', '.join(kinds)}",
            details=[*(losses if is_stranding else ()), *others],
            hint=Hint.any_of(
                "name the version that each new head updates in its spec.replaces or spec.skips",
                Hint("omit {}", IndexSetting.FAIL_ON),
            )
            if is_stranding
            else Hint("omit {}", IndexSetting.FAIL_ON),
        )
        self.differences = tuple(differences)


def missing_package_error(label: str) -> CatalogError:
    """Return the error for a bundle whose annotations name no package."""
    return CatalogError(
        f"{label}: cannot be added: the annotation {PACKAGE} is missing or empty",
        hint="set it to the package's name in metadata/annotations.yaml, then build and push the bundle again",
    )


def substitutes_error(label: str, substituted: str) -> CatalogError:
    """Return the error for a bundle with olm.substitutesFor while alpha features are disabled."""
    return CatalogError(
        f"{label}: cannot be added: it substitutes {substituted}",
        hint=Hint.any_of(
            Hint("enable this alpha feature with {}", IndexSetting.ENABLE_ALPHA),
            "remove the annotation olm.substitutesFor from its ClusterServiceVersion",
        ),
    )
