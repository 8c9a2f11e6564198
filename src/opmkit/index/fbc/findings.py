"""What is wrong with a catalog: each fault with its location, gathered so that all are told at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from opmkit.imagetools.hints import Hint, Operation
from opmkit.index.errors import InvalidCatalog

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opmkit.index.fbc.blobs import SourceLocation


@dataclass(frozen=True, slots=True)
class Subject:
    """What a fault is about: a package, a channel of it, a bundle of it or in its channel; nothing for the file."""

    package: str = ""
    channel: str = ""
    bundle: str = ""

    def __str__(self) -> str:
        """The subject in words: ``package "a", channel "b"``."""
        named = (("package", self.package), ("channel", self.channel), ("bundle", self.bundle))
        return ", ".join(f'{kind} "{name}"' for kind, name in named if name)


class Issue(NamedTuple):
    """What breaks a rule, what to do, and the release of the reference that the rule came with, "" for an older one."""

    message: str
    advice: str
    since: str = ""


@dataclass(frozen=True, slots=True)
class CatalogFinding:
    """One thing that is wrong, what it is about, and what to do."""

    location: SourceLocation
    message: str
    subject: Subject = Subject()
    advice: Hint | str = ""
    since: str = ""
    """The release of the reference that the rule came with, "" for an older one."""

    def __str__(self) -> str:
        """The fault in one line."""
        return ": ".join(filter(None, (str(self.location), str(self.subject), self.message)))


def raise_findings(faults: Iterable[CatalogFinding]) -> None:
    """Raise InvalidCatalog with all faults, if there are any."""
    found = list(faults)
    if found:
        advice = next((fault.advice for fault in found if fault.advice), "")
        first, *others = map(str, found)
        hint = advice or Hint("list all findings with {}", Operation.VALIDATE_CATALOG)
        raise InvalidCatalog(first, details=others, hint=hint)
