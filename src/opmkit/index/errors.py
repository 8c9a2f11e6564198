"""Errors of index databases, file-based catalogs, update graphs and the operations on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.core.errors import OpmkitError
from opmkit.core.hints import Hint
from opmkit.index.hint_terms import IndexSetting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.imagetools.reference import ImageReference


class CatalogError(OpmkitError):
    """Base class of the errors of indexes.

    Attributes:
        exit_code: Exit status of a command that fails with this error.
    """

    exit_code = 1


class InvalidDatabase(CatalogError):
    """The file is not an index database, is damaged, or has an unsupported schema."""


class DatabaseUnavailable(CatalogError):
    """The database cannot be read, written or locked; its content may be valid."""


class InvalidCatalog(CatalogError):
    """Packages, channels or bundles of a catalog are invalid; the message has a line for each finding."""


class UnknownPackage(CatalogError):
    """The index does not have the package."""


class PackageNotRemoved(UnknownPackage):
    """A database does not have the package to remove; scripts match the message of operator-registry."""


class BundleExists(CatalogError):
    """The index or another added bundle has the name of a bundle."""


class BundleImageExists(CatalogError):
    """The index has the bundle image already."""

    exit_code = 2


class BundleVersionExists(CatalogError):
    """A channel of the package has a bundle of that name already."""

    exit_code = 3


class IndexMoved(CatalogError):
    """Another writer moved the tag; an update would discard its changes.

    Attributes:
        reference: The tag.
    """

    exit_code = 4

    def __init__(self, reference: ImageReference, problem: str) -> None:
        """Create the error for a tag."""
        super().__init__(
            f"{reference}: {problem}",
            hint=Hint.any_of(
                "run the command again",
                Hint("retry automatically with {}", IndexSetting.ON_CONFLICT.with_value("rebase")),
            ),
        )
        self.reference = reference


class GraphError(CatalogError):
    """The update graph is invalid: no head, no default channel, a missing edge, a cycle or a pruned bundle."""


class MultipleErrors(CatalogError):
    """Several errors of one operation.

    Attributes:
        errors: The errors.
    """

    def __init__(self, errors: Sequence[CatalogError]) -> None:
        """Join the messages and hints; use the first exit code other than 1."""
        first, *others = (line for error in errors for line in error.lines)
        super().__init__(
            first,
            details=others,
            hint=Hint.all_of(*(error.hint for error in errors)),
        )
        self.errors = tuple(errors)
        self.exit_code = next((error.exit_code for error in errors if error.exit_code != 1), 1)


class AddRejected(MultipleErrors):
    """Bundles conflict with the index; none of them was added."""


def combine_errors(errors: Sequence[CatalogError]) -> CatalogError:
    """Return the only error of a non-empty list, or a MultipleErrors."""
    return errors[0] if len(errors) == 1 else MultipleErrors(errors)
