"""Bundles to measure with: those of a corpus, and generated ones."""

from __future__ import annotations

import json
import random
import re
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from pathlib import Path


def corpus_packages(bundles: Path) -> list[Path]:
    """Return the package directories of a corpus without its synthetic packages, sorted by name."""
    return sorted(path for path in bundles.iterdir() if path.is_dir() and not path.name.startswith("syn-"))


def package_versions(package: Path) -> list[Path]:
    """Return the bundle directories of a package, the lowest version first."""

    def key(path: Path) -> list[tuple[int, int | str]]:
        return [(0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"[.+-]", path.name)]

    return sorted((path for path in package.iterdir() if (path / "manifests").is_dir()), key=key)


def write_small_package(package: Path, count: int) -> Path:
    """Write ``count`` small versions, each of which replaces the previous one."""
    for version in range(count):
        csv, crd = _csv(package.name, version, ["Thing"]), _crd("Thing")
        _write_bundle(package, version, {"manifests/csv.yaml": json.dumps(csv), "manifests/crd.yaml": json.dumps(crd)})
    return package


def write_large_package(package: Path, count: int, crds: int = 12) -> Path:
    """Write ``count`` versions of 1.3 MB with large CRDs, a third of which change from one version to the next."""
    rng = random.Random(1)  # noqa: S311 - the same bundles each time
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(3, 10))) for _ in range(800)]

    def schema(depth: int) -> dict[str, object]:
        described = {"description": " ".join(rng.choices(words, k=rng.randint(6, 30)))}
        if not depth:
            return {"type": rng.choice(["string", "integer", "boolean"]), **described}
        names = ["".join(rng.sample(words, 2)) for _ in range(5)]
        properties = {name: schema(depth - 1 if rng.random() < 0.75 else 0) for name in names}
        return {"type": "object", **described, "properties": properties}

    def crd_text(number: int) -> str:
        crd = _crd(f"Kind{number}")
        crd["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": schema(4)}
        return yaml.dump(crd, Dumper=yaml.CSafeDumper)

    texts = {number: crd_text(number) for number in range(crds)}
    for version in range(count):
        texts |= {number: crd_text(number) for number in rng.sample(range(crds), crds // 3)}
        csv = _csv(package.name, version, [f"Kind{number}" for number in texts])
        csv["spec"]["description"] = " ".join(rng.choices(words, k=1500))
        files = {f"manifests/kind{number}.yaml": text for number, text in texts.items()}
        _write_bundle(package, version, files | {"manifests/csv.yaml": yaml.dump(csv, Dumper=yaml.CSafeDumper)})
    return package


def _crd(kind: str) -> dict[str, Any]:
    names = {"kind": kind, "plural": f"{kind.lower()}s"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names['plural']}.example.com"},
        "spec": {
            "group": "example.com",
            "names": names,
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": True, "storage": True}],
        },
    }


def _csv(package: str, version: int, kinds: list[str]) -> dict[str, Any]:
    """Return the ClusterServiceVersion of 1.0.VERSION, which replaces the previous one."""
    owned = [{"name": f"{kind.lower()}s.example.com", "version": "v1", "kind": kind} for kind in kinds]
    spec: dict[str, Any] = {"version": f"1.0.{version}", "customresourcedefinitions": {"owned": owned}}
    if version:
        spec["replaces"] = f"{package}.v1.0.{version - 1}"
    return {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {"name": f"{package}.v1.0.{version}"},
        "spec": spec,
    }


def _write_bundle(package: Path, version: int, files: dict[str, str]) -> None:
    prefix = "operators.operatorframework.io.bundle"
    annotations = {f"{prefix}.package.v1": package.name, f"{prefix}.channels.v1": "stable"}
    for name, text in {**files, "metadata/annotations.yaml": json.dumps({"annotations": annotations})}.items():
        path = package / f"1.0.{version}" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
