"""ClusterServiceVersions as rules see them: decoded into their API type."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from opmkit.bundle.validation.compat import Compat
from opmkit.bundle.validation.gvk import Gvk, crd_group
from opmkit.bundle.validation.loading import decode_csv
from opmkit.documents.lenient import mapping, members

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from opmkit.bundle.api_types.decode import Decoded, DecodeMode
    from opmkit.bundle.finding import Finding
    from opmkit.bundle.validation.bundle_view import BundleView
    from opmkit.bundle.validation.rule import Check
    from opmkit.documents.content import Content
    from opmkit.documents.fields import FieldPath

    Entry: TypeAlias = tuple[FieldPath, Mapping[str, Any]]
    """A mapping in a list of the ClusterServiceVersion, with its path."""

OWNED_CRDS: FieldPath = ("spec", "customresourcedefinitions", "owned")
OWNED_SERVICES: FieldPath = ("spec", "apiservicedefinitions", "owned")
DEPLOYMENTS: FieldPath = ("spec", "install", "spec", "deployments")
RELATED_IMAGES: FieldPath = ("spec", "relatedImages")
POD: FieldPath = ("spec", "template", "spec")
"""The path of the pod in a deployment."""


@dataclass(frozen=True)
class Csv:
    """A ClusterServiceVersion. Values have the type of their field; those of the wrong type are absent.

    ``mode`` is the mode in which it was decoded, None for the default of the compatibility mode.
    """

    content: Content
    decoded: Decoded
    compat: Compat
    mode: DecodeMode | None = None

    @classmethod
    def from_bundle(cls, bundle: BundleView) -> Csv | None:
        """Return the first ClusterServiceVersion of a bundle, or None.

        The Go validators stop at a value of the wrong type, so in their compatibility modes the result is None too.
        """
        if cls not in bundle.memo:
            bundle.memo[cls] = cls._decode(bundle)
        return cast("Csv | None", bundle.memo[cls])

    @classmethod
    def _decode(cls, bundle: BundleView) -> Csv | None:
        if bundle.csv is None:
            return None
        content, mode = bundle.csv.content, bundle.csv_decode_mode
        decoded = decode_csv(content, bundle.compat, mode)
        if decoded.mismatches and bundle.compat is not Compat.OPMKIT:
            return None
        return cls(content, decoded, bundle.compat, None if decoded.same_in_all_modes else mode)

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Its metadata."""
        return mapping(self.decoded.value.get("metadata"))

    @property
    def name(self) -> str:
        """Its name, or "" if it has none."""
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
        """Return True if the value at a path is absent or zero, and not of the wrong type."""
        ends = range(1, len(path) + 1)
        return self.at(path) is None and not any(self.decoded.has_mismatch(*path[:end]) for end in ends)

    def is_well_typed(self, path: FieldPath) -> bool:
        """Return True if no value at, above or below a path has the wrong type."""
        return not any(path[: len(at)] == at[: len(path)] for at in (one.path for one in self.decoded.mismatches))

    def at(self, path: FieldPath) -> Any:
        """Return the value at a path of field names, None if it is absent."""
        value: Any = self.decoded.value
        for step in path:
            value = mapping(value).get(cast("str", step))
        return value

    def entries(self, path: FieldPath) -> Iterator[Entry]:
        """Return the mappings in the list at a path, with their paths."""
        return members(self.at(path), path)

    @property
    def pods(self) -> Iterator[tuple[str, FieldPath, Mapping[str, Any]]]:
        """The name of each deployment, and the path and value of its pod spec."""
        for path, deployment in self.entries(DEPLOYMENTS):
            pod: object = deployment
            for step in POD:
                pod = mapping(pod).get(str(step))
            yield deployment.get("name", ""), (*path, *POD), mapping(pod)

    @property
    def owned_crds(self) -> Iterator[tuple[FieldPath, Gvk | None, str]]:
        """The path, API and name of each owned CRD; the API is None if the name has no group."""
        for path, entry in self.entries(OWNED_CRDS):
            name = entry.get("name", "")
            group = crd_group(name)
            api = None if group is None else Gvk(group, entry.get("version", ""), entry.get("kind", ""))
            yield path, api, name

    @property
    def owned_services(self) -> Iterator[tuple[FieldPath, Gvk]]:
        """The path and API of each owned API service."""
        for path, entry in self.entries(OWNED_SERVICES):
            yield path, Gvk(*(entry.get(name, "") for name in ("group", "version", "kind")))


def csv_check(check_csv: Callable[[Csv], Iterable[Finding]]) -> Check:
    """Turn a check of a ClusterServiceVersion into a check of the bundle. Results are stored with the content.

    The result must depend only on the content and the compatibility mode. ``file`` of the findings is set here.
    """

    @wraps(check_csv)
    def check(bundle: BundleView) -> Iterator[Finding]:
        csv = Csv.from_bundle(bundle)
        if csv is None or bundle.csv is None:
            return
        key = (check_csv, bundle.compat, csv.mode)
        findings = csv.content.memo.get(key)
        if findings is None:
            findings = csv.content.memo[key] = tuple(check_csv(csv))
        for finding in cast("tuple[Finding, ...]", findings):
            yield replace(finding, file=bundle.csv.path)

    return cast("Check", check)
