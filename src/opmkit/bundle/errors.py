"""The errors of this package."""

from __future__ import annotations

from opmkit.imagetools.errors import OpmkitError


class BundleError(OpmkitError):
    """Base of everything that goes wrong with a bundle: its files, its metadata, its image."""


class InvalidBundle(BundleError):
    """Files that don't make up a bundle, or one that no catalog can hold."""


class NotABundle(BundleError):
    """An image that is something else than a bundle."""


class NoMatchingTag(BundleError):
    """Tag patterns that select no bundle of a repository."""


class InvalidDocument(BundleError):
    """Content that is neither YAML nor JSON as Kubernetes reads them.

    ``line`` and ``column`` count from 1, and are 0 where they are not known.
    """

    def __init__(self, problem: str, *, line: int = 0, column: int = 0) -> None:
        """Keep the place beside the problem, for the file's name is only known further up."""
        super().__init__(problem)
        self.problem = problem
        self.line = line
        self.column = column

    def located(self, file: str) -> str:
        """Say where in ``file`` and what, as compilers do: ``file:line:column: problem``."""
        place = "".join(f":{number}" for number in (self.line, self.column) if number)
        return f"{file}{place}: {self.problem}"
