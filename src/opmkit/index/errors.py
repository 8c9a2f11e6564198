"""The errors of catalogs: index databases, update graphs and what is done to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.imagetools.errors import AdvisedError
from opmkit.imagetools.hints import Hint, Setting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.imagetools.reference import ImageReference


class CatalogError(AdvisedError):
    """Base of everything that goes wrong with a catalog.

    ``exit_code`` is the status with which a command that ends in this error leaves.
    """

    exit_code = 1


class InvalidDatabase(CatalogError):
    """A file that is no index database, is damaged, or has a schema that can't be worked with."""


class DatabaseUnavailable(CatalogError):
    """A database that can't be read, written or locked just now, though nothing is wrong with its content."""


class InvalidCatalog(CatalogError):
    """A catalog whose packages, channels or bundles contradict the rules; the message has each fault on a line."""


class UnknownPackage(CatalogError):
    """A package that the catalog does not have."""


class PackageNotRemoved(UnknownPackage):
    """A package to remove that the database does not have; programs that run opm search for its message."""


class BundleExists(CatalogError):
    """A bundle whose name is taken in the index or among the bundles added."""


class BundleImageExists(CatalogError):
    """A bundle image that the index holds already."""

    exit_code = 2


class BundleVersionExists(CatalogError):
    """A bundle name that a channel of the package holds already."""

    exit_code = 3


class IndexMoved(CatalogError):
    """A tag that another writer has moved, so that an update would be lost; ``reference`` is its name."""

    exit_code = 4

    def __init__(self, reference: ImageReference, problem: str) -> None:
        """Name the tag."""
        super().__init__(
            f"{reference}: {problem}",
            hint=Hint.any_of(
                "run the command again", Hint("retry automatically with {}", Setting.ON_CONFLICT.with_value("rebase"))
            ),
        )
        self.reference = reference


class GraphError(CatalogError):
    """An update graph that does not come out: no head, no default channel, a missing edge, a cycle, a pruned bundle."""


class SeveralErrors(CatalogError):
    """Several things went wrong at once; ``errors`` has each."""

    def __init__(self, errors: Sequence[CatalogError]) -> None:
        """Join the messages and the distinct advice; leave with the first exit code that says more than 1."""
        first, *others = (line for error in errors for line in error.lines)
        super().__init__(
            first,
            details=others,
            hint=Hint.all_of(*(error.hint for error in errors)),
        )
        self.errors = tuple(errors)
        self.exit_code = next((error.exit_code for error in errors if error.exit_code != 1), 1)


class AdditionRefused(SeveralErrors):
    """Bundles that can't be added to this index, whatever graph they would give; none of them is."""


def combined(errors: Sequence[CatalogError]) -> CatalogError:
    """One error for a non-empty list of them."""
    return errors[0] if len(errors) == 1 else SeveralErrors(errors)
