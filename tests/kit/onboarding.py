"""Published catalogs of a repository of operators, and onboarding of its operators by operator-pipelines.

``python -m tests.kit.onboarding CHECKOUT`` onboards all operators of a checkout of community-operators-prod with opmkit
and with operator-pipelines (``OPMKIT_REFERENCE_OPERATOR_PIPELINES``), and prints the results as a table.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from msgspec import structs

from opmkit import Onboarding, OnboardingOptions, Opm
from opmkit.bundle.generate import read_annotations
from opmkit.bundle.validation.openshift import VERSIONS, OpenShiftRange, OpenShiftVersion
from opmkit.bundle.validation.operator_directory import bundle_directories
from opmkit.core.errors import OpmkitError
from opmkit.index.fbc.blobs import BUNDLE_OBJECT, Blobs, BundleBlob, ChannelBlob, EntryBlob, PackageBlob
from opmkit.index.fbc.csv_metadata import bundle_objects
from opmkit.index.fbc.model import version_keys
from opmkit.index.fbc.write import sort_blobs, to_yaml
from opmkit.index.render import ImageTemplate, RenderOptions, render_settled

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from opmkit import OnboardedOperator

REFERENCE = os.environ.get("OPMKIT_REFERENCE_OPERATOR_PIPELINES", "")
"""A Python interpreter that can import operatorcert, of operator-pipelines."""
CHECKOUT = os.environ.get("OPMKIT_OPERATOR_REPOSITORY", "")
"""A checkout of community-operators-prod."""
RELEASES = tuple(OpenShiftVersion(4, minor) for minor in range(12, 23))
IMAGE = ImageTemplate.parse("quay.io/community-operator-pipeline-prod/{{.Package}}:{{.Version}}")
_ANNOTATION = "operators.operatorframework.io.bundle."

DRIVER = """
import json, pathlib, sys, yaml
yaml.SafeLoader = yaml.CSafeLoader  # many times quicker
from operatorcert.entrypoints import fbc_onboarding
from operatorcert.operator_repo import Repo

request = json.load(sys.stdin)
indices = [{"ocp_version": version, "path": f"index:v{version}"} for version in request["versions"]]
fbc_onboarding.get_supported_catalogs = lambda organization, stage: indices
fbc_onboarding.render_fbc_from_template = lambda operator, version: None  # it pulls the images
for name in request["operators"]:
    try:
        repository = Repo(request["repository"])
        fbc_onboarding.onboard_operator_to_fbc(name, repository, str(pathlib.Path(request["caches"], name)), False)
        print(json.dumps({"operator": name, "error": ""}))
    except Exception as error:
        print(json.dumps({"operator": name, "error": repr(error)}))
"""


@dataclass(frozen=True)
class PublishedBundle:
    """A bundle of an operator, without manifests, and what its catalogs need to know."""

    blob: BundleBlob
    spec: Mapping[str, Any]
    skip_range: str
    annotations: Mapping[str, str]

    @property
    def channels(self) -> list[str]:
        listed = self.annotations.get(f"{_ANNOTATION}channels.v1", "").split(",")
        return [name.strip() for name in listed if name.strip()]

    def is_released_for(self, version: OpenShiftVersion) -> bool:
        try:
            return VERSIONS not in self.annotations or version in OpenShiftRange.parse(self.annotations[VERSIONS])
        except ValueError:
            return False


def read_bundles(operator: Path) -> list[PublishedBundle]:
    """Return the valid bundles of an operator directory, lowest version first."""
    directories = {str(path): path for path in bundle_directories(operator)}
    tool: Any = lambda: None  # noqa: E731 (no image is read)
    bundles = []
    for name, result in render_settled(tool, list(directories), RenderOptions(image_template=IMAGE)):
        with contextlib.suppress(OpmkitError, ValueError):
            if isinstance(result, OpmkitError):
                continue
            (blob,) = result.bundles
            csvs = [value for value in bundle_objects(blob) if isinstance(value, dict) and value["kind"] == _CSV]
            csv: dict[str, Any] = csvs[0]
            annotations = csv["metadata"].get("annotations") or {}
            small = replace(blob, properties=tuple(item for item in blob.properties if item.type != BUNDLE_OBJECT))
            bundles.append(
                PublishedBundle(
                    replace(small, related_images=()),
                    csv["spec"],
                    annotations.get("olm.skipRange", ""),
                    read_annotations(directories[name] / "metadata" / "annotations.yaml") or {},
                )
            )
    keys = version_keys([bundle.blob for bundle in bundles])
    return sorted(bundles, key=lambda bundle: keys[bundle.blob.name])


_CSV = "ClusterServiceVersion"


def build_catalog(bundles: Sequence[PublishedBundle], *, by_version: bool) -> Blobs:
    """Return the catalog of bundles of one package, with channels by version or by what bundles replace."""
    channels: dict[str, list[EntryBlob]] = {}
    for bundle in bundles:
        for name in bundle.channels:
            entries = channels.setdefault(name, [])
            entry = EntryBlob(bundle.blob.name, skip_range=bundle.skip_range)
            if by_version:
                entry = structs.replace(entry, replaces=entries[-1].name if entries else "")
            else:
                skips = tuple(map(str, bundle.spec.get("skips") or ()))
                entry = structs.replace(entry, replaces=str(bundle.spec.get("replaces") or ""), skips=skips)
            entries.append(entry)
    head = bundles[-1]
    default = head.annotations.get(f"{_ANNOTATION}channel.default.v1") or (head.channels or [""])[0]
    package = PackageBlob(head.blob.package, default, None, str(head.spec.get("description") or ""))
    blobs = tuple(ChannelBlob(name, package.name, tuple(entries)) for name, entries in channels.items())
    return Blobs((package,), blobs, tuple(bundle.blob for bundle in bundles))


@dataclass(frozen=True)
class PublishedRepository:
    """A copy of a repository, with what is published of each operator by OpenShift version.

    Attributes:
        checkout: The repository.
        directory: The directory of copy and catalogs.
    """

    checkout: Path
    directory: Path

    @property
    def catalogs(self) -> Path:
        return self.directory / "published"

    def copy_operator(self, name: str, root: str) -> Path:
        """Copy the files of an operator that onboarding reads: ``ci.yaml``, and the metadata of bundles."""
        source, target = self.checkout / "operators" / name, self.directory / root / "operators" / name
        for path in [*source.glob("ci.y*ml"), *source.glob("*/metadata/annotations.y*ml"), *source.glob("Makefile")]:
            copy = target / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
        for bundle in source.glob("*/manifests"):
            shutil.copytree(bundle, target / bundle.relative_to(source), dirs_exist_ok=True)
        config = self.checkout / "config.yaml"
        if config.exists():
            shutil.copyfile(config, self.directory / root / "config.yaml")
        return target

    def publish(self, name: str) -> None:
        """Write what is published of an operator: its real catalogs, if any, otherwise those of its bundles."""
        real = sorted(self.checkout.glob(f"catalogs/v*/{name}/catalog.yaml"))
        if real:
            for path in real:
                documents = yaml.load_all(path.read_bytes(), yaml.CSafeLoader)
                small = [_without_manifests(document) for document in documents if document]
                self._write(
                    name, path.parent.parent.name, path.read_bytes(), yaml.dump_all(small, Dumper=yaml.CSafeDumper)
                )
            return
        operator = self.checkout / "operators" / name
        config = next(iter(operator.glob("ci.y*ml")), None)
        settings = yaml.load(config.read_bytes(), yaml.CSafeLoader) if config else {}
        by_version = (settings or {}).get("updateGraph") == "semver-mode"
        bundles = read_bundles(operator)
        for version in RELEASES:
            if released := [bundle for bundle in bundles if bundle.is_released_for(version)]:
                blobs = build_catalog(released, by_version=by_version)
                self._write(name, f"v{version}", to_yaml(sort_blobs(blobs)))

    def _write(self, name: str, catalog: str, content: bytes, cache_text: str = "") -> None:
        path = self.catalogs / catalog / name / "catalog.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        cache = self.directory / "caches" / name / f"{catalog.removeprefix('v')}.yaml"
        cache.parent.mkdir(parents=True, exist_ok=True)
        cache.write_bytes(cache_text.encode() or content)

    def run_ours(self, root: str, *, per_version: bool) -> Onboarding:
        """Onboard the operators of a copy with opmkit."""
        catalogs = tuple(str(path) for path in sorted(self.catalogs.iterdir()))
        options = OnboardingOptions(catalogs, per_version=per_version, force=True)
        return Opm().onboard_operators(self.directory / root / "operators", options)

    def run_theirs(self, root: str, operators: Sequence[str]) -> dict[str, str]:
        """Onboard operators of a copy with operator-pipelines; return the errors by operator, "" for none."""
        versions = [path.name.removeprefix("v") for path in sorted(self.catalogs.iterdir())]
        for operator in operators:
            for version in versions:  # without a cache, an image would be rendered
                cache = self.directory / "caches" / operator / f"{version}.yaml"
                cache.parent.mkdir(parents=True, exist_ok=True)
                cache.touch()
        request = {
            "repository": str(self.directory / root),
            "caches": str(self.directory / "caches"),
            "versions": versions,
            "operators": list(operators),
        }
        done = subprocess.run(
            [REFERENCE, "-c", DRIVER], input=json.dumps(request), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        results = map(json.loads, done.stdout.splitlines())
        return {result["operator"]: result["error"] for result in results}


def _without_manifests(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document without the large properties of bundles, which templates do not contain."""
    if document.get("schema") != "olm.bundle":
        return document
    small = [item for item in document.get("properties", ()) if item["type"] == "olm.package"]
    return {**document, "properties": small, "relatedImages": []}


@dataclass
class Comparison:
    """The results of both tools for one operator."""

    name: str
    ours: OnboardedOperator
    reasons: list[str] = field(default_factory=list)
    templates: int = 0
    equal: int = 0
    files: int = 0
    """Templates that opmkit writes by default."""


def compare(checkout: Path, operators: Sequence[str], directory: Path) -> list[Comparison]:
    """Onboard operators with both tools, and compare their templates, one per version, and configurations."""
    repository = PublishedRepository(checkout, directory)
    for name in operators:
        for root in ("ours", "shared", "theirs"):
            repository.copy_operator(name, root)
        repository.publish(name)
    single = {each.directory.name: each for each in repository.run_ours("ours", per_version=True).operators}
    shared = {each.directory.name: each for each in repository.run_ours("shared", per_version=False).operators}
    errors = repository.run_theirs("theirs", operators)
    comparisons = []
    for name in operators:
        if name not in single:
            continue
        comparison = Comparison(name, shared[name], files=len(shared[name].templates))
        ours, theirs = (directory / root / "operators" / name for root in ("ours", "theirs"))
        comparison.reasons += _compare_results(comparison, ours, theirs, errors[name])
        comparisons.append(comparison)
    return comparisons


def _compare_results(comparison: Comparison, ours: Path, theirs: Path, error: str) -> Iterator[str]:
    templates = sorted({path.name for root in (ours, theirs) for path in root.glob("catalog-templates/*.yaml")})
    if comparison.ours.status == "failed" and not templates:
        yield f"not onboarded by opmkit: {comparison.ours.problems[0]}"
        if theirs.joinpath("ci.yaml").exists() and not error:
            yield "operator-pipelines writes an empty catalog_mapping"
        return
    if error:
        yield f"operator-pipelines fails: {error}"
        return
    comparison.templates = len(templates)
    for name in templates:
        first, second = (_load(root / "catalog-templates" / name) for root in (ours, theirs))
        comparison.equal += first == second
        if first != second:
            yield _template_reason(name, first, second)
    first, second = _load(ours / "ci.yaml"), _load(theirs / "ci.yaml")
    if _without_types(first) != _without_types(second):
        kept = first["fbc"].keys() - second["fbc"].keys()
        rest = {**first, "fbc": {key: value for key, value in first["fbc"].items() if key not in kept}}
        same = _without_types(rest) == _without_types(second)
        yield f"opmkit retains other keys of fbc: {', '.join(sorted(kept))}" if same else "ci.yaml differs"


def _load(path: Path) -> Any:
    return yaml.load(path.read_bytes(), yaml.CSafeLoader) if path.exists() else None


def _template_reason(name: str, ours: Any, theirs: Any) -> str:
    if ours is None or theirs is None:
        return f"{name} is only written by {'operator-pipelines' if ours is None else 'opmkit'}"
    if ours["schema"] == "olm.semver":
        return "a semver template is smaller"
    packages = {entry["name"] for entry in ours["entries"] if entry["schema"] == "olm.package"}
    foreign = [
        entry for entry in theirs["entries"] if entry not in ours["entries"] and entry.get("package") not in packages
    ]
    rest = [entry for entry in theirs["entries"] if entry not in foreign]
    if foreign and rest == ours["entries"]:
        return "operator-pipelines adds documents of other packages"
    key = json.dumps
    if sorted(map(key, rest)) == sorted(map(key, ours["entries"])):
        return "the entries have another order than in rendered catalogs"
    if _without_empty(theirs) == _without_empty(ours):
        return "operator-pipelines retains empty fields, which rendered catalogs do not have"
    return f"{name} differs"


def _without_empty(value: Any) -> Any:
    """Return a value without empty members of mappings."""
    if isinstance(value, dict):
        return {key: _without_empty(item) for key, item in value.items() if item not in ([], {}, "", None)}
    return [_without_empty(item) for item in value] if isinstance(value, list) else value


def _without_types(config: Any) -> Any:
    """Return a configuration without the types of templates, and without an order of the mapping."""
    mapping = [
        {key: value for key, value in entry.items() if key != "type"} for entry in config["fbc"]["catalog_mapping"]
    ]
    return {**config, "fbc": {**config["fbc"], "catalog_mapping": sorted(mapping, key=str)}}


def main() -> None:
    """Print a table of all operators of a checkout, and the counts."""
    checkout = Path(sys.argv[1])
    operators = sorted(path.name for path in (checkout / "operators").iterdir() if path.is_dir())
    with tempfile.TemporaryDirectory() as directory:
        comparisons = compare(checkout, operators, Path(directory))
    print("| Operator | Status | Template | Files | Versions | Templates equal | Reasons, or what needs a person |")
    print("|---|---|---|---|---|---|---|")
    for each in comparisons:
        types = ", ".join(sorted({template.type for template in each.ours.templates}))
        reasons = "; ".join(dict.fromkeys([*each.reasons, *each.ours.problems]))
        cells = (each.name, each.ours.status, types, each.files, each.ours.versions, f"{each.equal}/{each.templates}")
        print("|", " | ".join(map(str, cells)), "|", reasons.replace("|", "\\|"), "|")
    print()
    for count, text in summarize(comparisons):
        print(f"{count:5} {text}")


def summarize(comparisons: Sequence[Comparison]) -> Iterator[tuple[int, str]]:
    """Yield counts with their descriptions."""
    yield len(comparisons), "operators"
    yield from ((count, f"{status} by opmkit") for status, count in Counter(c.ours.status for c in comparisons).items())
    yield sum(not c.reasons for c in comparisons), "operators with equal templates and configuration"
    yield sum(c.equal for c in comparisons), f"of {sum(c.templates for c in comparisons)} templates equal"
    yield sum(c.files for c in comparisons), "template files that opmkit writes by default"
    reasons = Counter(reason.partition(": ")[0] for c in comparisons for reason in dict.fromkeys(c.reasons))
    yield from ((count, reason) for reason, count in reasons.most_common())


if __name__ == "__main__":
    main()
