"""Errors of adding bundles to an index of either kind."""

from __future__ import annotations

from opmkit.bundle.labels import PACKAGE
from opmkit.imagetools.hints import Hint, Setting
from opmkit.index.errors import CatalogError

PRESENT_HINT = Hint.any_of("omit it", Hint("skip bundles that the index contains with {}", Setting.SKIP_PRESENT))
"""Hint for a bundle that the index contains already."""


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
            Hint("enable this alpha feature with {}", Setting.ENABLE_ALPHA),
            "remove the annotation olm.substitutesFor from its ClusterServiceVersion",
        ),
    )
