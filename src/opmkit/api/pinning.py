"""Operations that pin images."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.api.session import Session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.author.pin.targets import PinTargets


class PinOperations(Session):
    """Operations that pin images."""

    def open_pin_targets(self, targets: Sequence[str]) -> PinTargets:
        """Find bundles, catalogs and templates whose images are to be pinned, with the methods of the result.

        Args:
            targets: Images, directories and files.

        Raises:
            CatalogError: A path does not exist, or a reference is invalid.
            ImageToolsError: An image does not exist, or its registry cannot be asked.
        """
        from opmkit.author.pin.targets import PinTargets

        return PinTargets.resolve(targets, self._registry_tool)
