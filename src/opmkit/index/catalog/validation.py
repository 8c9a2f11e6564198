"""The rules that a catalog must keep to be listed, served or rendered."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.index.catalog.graphcheck import graph_fault
from opmkit.index.errors import GraphError, InvalidCatalog
from opmkit.index.graph import precedence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.index.catalog.model import Catalog, CatalogBundle, Channel, Package

_PACKAGE_PROPERTY = "olm.package"


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong, or a thing in which something is: then ``causes`` says what."""

    text: str
    causes: tuple[Problem, ...] = ()

    def render(self) -> str:
        """The problem and its causes as a tree of lines."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{self.text}:" if self.causes else self.text
        for cause in self.causes:
            branch, stem = ("└── ", "    ") if cause is self.causes[-1] else ("├── ", "│   ")
            first, *rest = cause._lines()
            yield branch + first
            yield from (stem + line for line in rest)


def check_catalog(catalog: Catalog) -> None:
    """Check every rule.

    Raises:
        InvalidCatalog: the message shows, as a tree, all that is wrong.
    """
    problems = [_package_problem(package) for package in catalog.packages.values()]
    if found := tuple(problem for problem in problems if problem.causes):
        raise InvalidCatalog(
            Problem("invalid index", found).render(),
            advice="Build the index again without the bundles at fault, or with corrected ones.",
        )


def _package_problem(package: Package) -> Problem:
    causes: list[Problem] = []
    if not package.name:
        causes.append(Problem("package name must not be empty"))
    if package.default_channel not in package.channels:
        causes.append(Problem("default channel must be set"))
    if not package.channels:
        causes.append(Problem("package must contain at least one channel"))
    channels = (_channel_problem(package, channel) for channel in package.channels.values())
    causes += [problem for problem in channels if problem.causes]
    return Problem(f'invalid package "{package.name}"', tuple(causes))


def _channel_problem(package: Package, channel: Channel) -> Problem:
    causes = [Problem(text) for text in _channel_faults(channel)]
    for name, entry in channel.entries.items():
        faults = [f"skip[{index}] is empty" for index, skip in enumerate(entry.skips) if not skip]
        faults += _bundle_faults(package, package.bundles[name])  # type: ignore[arg-type]
        if faults:
            causes.append(Problem(f'invalid bundle "{name}"', tuple(Problem(fault) for fault in faults)))
    return Problem(f'invalid channel "{channel.name}"', tuple(causes))


def _channel_faults(channel: Channel) -> Iterator[str]:
    """The rules of an update graph: one head, no cycle, and every entry on the head's replaces chain or skipped."""
    if not channel.name:
        yield "channel name must not be empty"
    if not channel.entries:
        yield "channel must contain at least one bundle"
    elif fault := graph_fault(list(channel.entries.values()), stop_at_skipped=False):
        yield fault.problem


def _bundle_faults(package: Package, bundle: CatalogBundle) -> Iterator[str]:
    if not bundle.name:
        yield "name must be set"
    if not (bundle.image or bundle.has_manifests):
        yield "bundle image must be set"
    values: list[object] = []
    for index, bundle_property in enumerate(bundle.properties):
        try:
            value = json.loads(bundle_property.value)
        except ValueError as error:
            yield f'parse property[{index}] of type "{bundle_property.type}": {error}'
            return
        if bundle_property.type == _PACKAGE_PROPERTY:
            values.append(value)
    if len(values) != 1:
        yield f'must be exactly one property with type "{_PACKAGE_PROPERTY}"'
    else:
        yield from _package_property_faults(package, values[0])


def _package_property_faults(package: Package, value: object) -> Iterator[str]:
    fields = value if isinstance(value, dict) else {}
    name, version = fields.get("packageName", ""), fields.get("version", "")
    if name != package.name:
        yield f'package "{package.name}" does not match "{_PACKAGE_PROPERTY}" property "{name}"'
    try:
        precedence(version if isinstance(version, str) and version else "none")
    except GraphError:
        yield f'"{_PACKAGE_PROPERTY}" property has version "{version}", which is not a semantic version'
