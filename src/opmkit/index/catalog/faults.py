"""What is wrong with a catalog: each fault with its place, gathered so that all are told at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.index.errors import InvalidCatalog

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opmkit.index.catalog.blobs import Place


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong, what it is about (``package "a", channel "b"``, "" for the file), and what to do."""

    place: Place
    message: str
    subject: str = ""
    advice: str = ""

    def __str__(self) -> str:
        """The fault in one line."""
        return ": ".join(filter(None, (str(self.place), self.subject, self.message)))


def refuse(faults: Iterable[Fault]) -> None:
    """Raise InvalidCatalog with all faults, if there are any."""
    found = list(faults)
    if found:
        advice = next((fault.advice for fault in found if fault.advice), "")
        told = "\n".join(map(str, found))
        raise InvalidCatalog(told, advice=advice or "'opm validate' tells all that is wrong with a catalog.")
