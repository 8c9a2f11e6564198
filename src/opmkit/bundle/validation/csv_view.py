"""ClusterServiceVersions as rules look at them: their fields by name and type, whatever the file says."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from opmkit.bundle.api_types.decode import decode_csv
from opmkit.bundle.validation.bundle_view import mapping, members
from opmkit.bundle.validation.gvk import Gvk, crd_group
from opmkit.bundle.validation.rule import Dialect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from opmkit.bundle.api_types.decode import Decoded
    from opmkit.bundle.api_types.scalars import DecodeMode
    from opmkit.bundle.content import Content
    from opmkit.bundle.validation.bundle_view import BundleView
    from opmkit.bundle.validation.rule import Check, Fault, Path

    Entry: TypeAlias = tuple[Path, Mapping[str, Any]]

OWNED_CRDS: Path = ("spec", "customresourcedefinitions", "owned")
OWNED_SERVICES: Path = ("spec", "apiservicedefinitions", "owned")
DEPLOYMENTS: Path = ("spec", "install", "spec", "deployments")
POD: Path = ("spec", "template", "spec")


@dataclass(frozen=True)
class Csv:
    """One ClusterServiceVersion. Its values have the types that they should have, and are absent otherwise.

    ``reading`` is how it was read; None is the way of the dialect's loader.
    """

    content: Content
    decoded: Decoded
    dialect: Dialect
    reading: DecodeMode | None = None

    @classmethod
    def from_bundle(cls, bundle: BundleView) -> Csv | None:
        """The first of a bundle; in the references' dialects only if all its types are right, for else they stop."""
        if cls not in bundle.memo:
            bundle.memo[cls] = cls._read(bundle)
        return cast("Csv | None", bundle.memo[cls])

    @classmethod
    def _read(cls, bundle: BundleView) -> Csv | None:
        if bundle.csv is None:
            return None
        content, reading = bundle.csv.content, bundle.csv_decode_mode
        typed = decode_csv(content, bundle.dialect, reading)
        stops = typed.mismatches and bundle.dialect is not Dialect.OPMKIT
        return None if stops else cls(content, typed, bundle.dialect, None if typed.plain else reading)

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Its metadata."""
        return mapping(self.decoded.value.get("metadata"))

    @property
    def name(self) -> str:
        """Its name, "" if it has none."""
        return str(self.metadata.get("name", ""))

    @property
    def annotations(self) -> Mapping[str, str]:
        """Its annotations."""
        return mapping(self.metadata.get("annotations"))

    @property
    def spec(self) -> Mapping[str, Any]:
        """Its spec."""
        return mapping(self.decoded.value.get("spec"))

    def is_unset(self, *path: str) -> bool:
        """Tell whether there is nothing but a zero value, and no value of a wrong type, at a path."""
        return self.at(path) is None and not any(
            self.decoded.has_mismatch(*path[:end]) for end in range(1, len(path) + 1)
        )

    def is_well_typed(self, path: Path) -> bool:
        """Tell whether no value at a path, above or below it has a wrong type."""
        return not any(path[: len(at)] == at[: len(path)] for at in (fault.path for fault in self.decoded.mismatches))

    def at(self, path: Path) -> Any:
        """What is there, None if nothing is."""
        value: Any = self.decoded.value
        for step in path:
            value = mapping(value).get(cast("str", step))
        return value

    def entries(self, path: Path) -> Iterator[Entry]:
        """The mappings of the list there, with their paths."""
        return members(self.at(path), path)

    @property
    def owned_crds(self) -> Iterator[tuple[Path, Gvk | None, str]]:
        """The CRDs that it owns: path, API (None if the name is without a group), and name."""
        for path, entry in self.entries(OWNED_CRDS):
            name = entry.get("name", "")
            group = crd_group(name)
            known = None if group is None else Gvk(group, entry.get("version", ""), entry.get("kind", ""))
            yield path, known, name

    @property
    def owned_services(self) -> Iterator[tuple[Path, Gvk]]:
        """The APIs that it owns and serves itself."""
        for path, entry in self.entries(OWNED_SERVICES):
            yield path, Gvk(*(entry.get(name, "") for name in ("group", "version", "kind")))


def csv_check(judge: Callable[[Csv], Iterable[Fault]]) -> Check:
    """Make a check of a function that judges the ClusterServiceVersion of a bundle, by its content and dialect alone.

    The function leaves the ``file`` of its faults open.
    """

    @wraps(judge)
    def check(bundle: BundleView) -> Iterator[Fault]:
        csv = Csv.from_bundle(bundle)
        if csv is None or bundle.csv is None:
            return
        key = (judge, bundle.dialect, csv.reading)
        faults = csv.content.memo.get(key)
        if faults is None:
            faults = csv.content.memo[key] = tuple(judge(csv))
        for fault in cast("tuple[Fault, ...]", faults):
            yield replace(fault, file=bundle.csv.path)

    return cast("Check", check)
