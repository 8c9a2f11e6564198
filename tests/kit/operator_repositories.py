"""Repositories of operators, as those of community operators: written from bundles, and random ones."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING, Any

import yaml

from tests.kit.broken import BASE

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Mapping
    from pathlib import Path

_CSV = "manifests/demo.clusterserviceversion.yaml"
_ANNOTATIONS = "metadata/annotations.yaml"
_PREFIX = "operators.operatorframework.io.bundle"
_OPENSHIFT = "com.redhat.openshift.versions"
DELETED = object()
"""A value that removes the member."""

_ODD: tuple[Any, ...] = (DELETED, None, "", "x", 1, 1.5, True, [], {}, [1], ["x"], {"a": "b"}, "v1", "1.2.3")
_CSV_VALUES: Mapping[str, tuple[Any, ...]] = {
    "metadata.annotations.capabilities": ("Auto Pilot", "auto pilot", "Full Lifecycle"),
    "metadata.annotations.categories": ("Database, Observability", "Drivers and plugins", "Database,", "Storage"),
    "metadata.annotations.containerImage": ("quay.io/a/b", "quay.io/a/b:1", "a:1", "a/b:c/d", "a/b@sha256:00"),
    "metadata.annotations.createdAt": (
        *("2021", "2021-03", "2021-03-01", "20210301", "2021-W01-1", "2021-060", "2021-3-1", "2021-03-01 10:00:00"),
        *("2021-03-01T10:00:00.123456789Z", "2021-03-01T24:00:00Z", "01/02/2021", "2021-13-01", "2021-03-01T10:00+01"),
    ),
    "metadata.annotations.repository": ("example.com/demo", "http://x", "https://"),
    "metadata.annotations.support": ("ab", "abc", "a\nb"),
    "metadata.annotations.description": ("short", "long enough", "a\nb\nc\nd\ne\nf"),
    "metadata.annotations": (None,),
    "spec.displayName": ("ab", "abc", "a" * 60, "a\nbcd"),
    "spec.description": ("short", "long enough for the pipeline"),
    "spec.icon": (
        [],
        [{}],
        [{"base64data": "YQ==", "mediatype": "image/png"}],
        [{"base64data": "a", "mediatype": "x"}],
    ),
    "spec.version": ("1.2", "v1.2.3", "1.2.3-rc.1", "01.2.3"),
    "spec.maintainers": ([], [{"name": "a"}], [{"name": "a", "email": 1}], [{"name": "a", "email": "a@b.c"}]),
    "spec.provider.name": ("ab", "abc"),
    "spec.provider": (None, {}),
    "spec.links": ([], [{"name": "a", "url": "x"}], [{"url": "x"}]),
    "spec.keywords": ([], ["a"], ["a", 1]),
    "spec.minKubeVersion": ("1.22", "1.25.3", "1.31.0", "v1.22.0", " 1.20.0 ", "1.20.0-rc.1", "1.99.0", "1"),
    "spec.skips": (None,),
}
_OPENSHIFT_VALUES: tuple[Any, ...] = (
    *("v4.12", "v4.10-v4.12", "=v4.12", "=v4.19", "v4.19", "v4.5,v4.6", "v4.8,v4.9", "4.12", "v4.12-v4.10", " v4.12 "),
    *(">=v4.12", "v4.12-", "-", ",", "=", "latest", "v4.12.3", "v4", 4.12, 4, "=v4.5,v4.6", "v4.12,", "v4.18-v4.19"),
)
_SKIP_RANGES = (
    *("<1.1.0", ">=1.0.0 <1.2.0", ">=1.0.0  <1.2.0", "<2.0.0", "~1.1", "^1.0.0", "1.x", "1.0.0 - 1.2.0", ">= 1.0.0"),
    *("<1.1.0-rc.1", ">=1.0.0-0 <1.2.0", "*", "", ">=1.0.0 || <0.5.0", "x", "!1.0.0", "<=1.1.0"),
)
_NUMBERS = ("1.0.0", "1.1.0-rc.1", "1.1.0", "1.2.0", "1.10.0", "2.0.0+1", "2.0.0", "1.2", "v2")
_TEMPLATE = {"template_name": "a.yaml", "type": "olm.semver", "catalog_names": ["v4.17"]}
_TEMPLATES: tuple[Any, ...] = (
    *([_TEMPLATE], [_TEMPLATE, _TEMPLATE], [_TEMPLATE, {**_TEMPLATE, "template_name": "b.yaml"}], [], None, {}, [1]),
    [{**_TEMPLATE, "type": "olm.template.basic", "catalog_names": ["v4.17", "v4.18"]}],
    *(
        [{**_TEMPLATE, "catalog_names": ["v4.17", "v4.17"]}],
        [{**_TEMPLATE, "type": "x"}],
        [{"template_name": "a.yaml"}],
    ),
)
_FBC: tuple[Any, ...] = (
    *({"enabled": True}, {"enabled": False}, {"enabled": "yes"}, {"enabled": 1}, {}, {"enable": True}, None, True, []),
    {"enabled": True, "version_promotion_strategy": "always"},
    *({"enabled": True, "catalog_mapping": templates} for templates in _TEMPLATES),
)
_GRAPHS: tuple[Any, ...] = ("semver", None, "", 1, [])
_REVIEWERS: tuple[Any, ...] = ([], ["a"], ["a", "a"], [1], "a", None)
_BUNDLE_TEMPLATES: tuple[Any, ...] = ([], None, {}, [{}], [{"template_name": "a.yaml"}])
_CONFIGS: tuple[Any, ...] = (
    *({"updateGraph": "replaces-mode"},) * 12,
    *({"updateGraph": "semver-mode"},) * 2,
    *({"updateGraph": graph} for graph in _GRAPHS),
    *({"updateGraph": "replaces-mode", "reviewers": reviewers} for reviewers in _REVIEWERS),
    *({"updateGraph": "replaces-mode", "merge": value} for value in (True, "true", None)),
    *({"updateGraph": "replaces-mode", "cert_project_id": value} for value in ("1", 1)),
    *({"updateGraph": "replaces-mode", "fbc": value} for value in _FBC),
    *({"fbc": {"enabled": True, "catalog_mapping": templates}} for templates in _TEMPLATES),
    *(DELETED, None, {}, [], "text", [1]),
)
_CHANNELS: tuple[Any, ...] = ("stable", "stable,beta", "stable, beta", "stable,", "", 4.5, None, DELETED)
_RELEASE: tuple[Any, ...] = (
    *({"catalog_templates": [{"template_name": "a.yaml", "channels": [channel]}]} for channel in ("Stable", "alpha")),
    *({"catalog_templates": [{"template_name": name, "channels": ["Fast"]}]} for name in ("b.yaml", "", 1)),
    *({"catalog_templates": templates} for templates in _BUNDLE_TEMPLATES),
    *({"merge": True}, {}, [], None, "x", [1], {"catalog_templates": [], "more": 1}),
)


def write_files(files: Mapping[str, bytes], root: Path) -> None:
    """Write files below a directory."""
    for path, raw in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(raw)


def copy_operators(operators: Iterable[Path], repository: Path, versions: int = 0) -> Path:
    """Copy operators into a new repository, with all or the last versions, and return it."""
    for operator in operators:
        copy = repository / "operators" / operator.name
        copy.mkdir(parents=True)
        bundles = sorted((path for path in operator.iterdir() if path.is_dir()), key=_natural_key)
        bundles = [path for path in bundles if (path / "manifests").is_dir()]
        for bundle in bundles[-versions:]:
            shutil.copytree(bundle, copy / bundle.name, symlinks=True)
        for config in operator.glob("ci.y*ml"):
            shutil.copy(config, copy)
    return repository


def _natural_key(path: Path) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", path.name)]


def random_operator(rng: random.Random) -> dict[str, bytes]:
    """Return the files of an operator ``demo`` whose bundles and configuration have random defects."""
    files: dict[str, bytes] = {}
    config = rng.choice(_CONFIGS)
    if config is not DELETED:
        files["ci.yaml"] = _dump(config)
    numbers = rng.sample(_NUMBERS[: rng.choice((4, 5, 9))], rng.randint(1, 4))
    for number in sorted(numbers):
        directory = number if rng.random() < 0.95 else f"v{number}"
        bundle = _random_bundle(rng, number, numbers)
        files |= {f"{directory}/{path}": raw for path, raw in bundle.items()}
    return files


def _random_bundle(rng: random.Random, number: str, numbers: list[str]) -> dict[str, bytes]:
    csv, annotations = yaml.safe_load(BASE[_CSV]), yaml.safe_load(BASE[_ANNOTATIONS])
    name = rng.choice(("demo",) * 12 + ("other", "demo.x"))
    _set(csv, "metadata.name", rng.choice((f"{name}.v{number}",) * 25 + (f"{name}.{number}", name, 1)))
    _set(csv, "spec.version", number)
    others = [f"demo.v{other}" for other in numbers]
    some = (
        DELETED,
        *others * 4,
        "demo.v9.9.9",
        f"other.v{number}",
        "demo.1.0.0",
        "a.b.v1.0.0",
        rng.choice(("none", "")),
    )
    _set(csv, "spec.replaces", rng.choice(some))
    _set(csv, "spec.skips", rng.choice((DELETED,) * 9 + ([], ["none"], *(rng.sample(others, 1) for _ in range(4)))))
    _set(
        csv, "metadata.annotations.olm.skipRange", rng.choice((DELETED,) * 12 + _SKIP_RANGES), at="metadata.annotations"
    )
    labels = annotations["annotations"]
    _put(labels, f"{_PREFIX}.package.v1", rng.choice(("demo",) * 12 + ("other", "", DELETED)))
    _put(labels, f"{_PREFIX}.channels.v1", rng.choice(("stable", "stable,beta") * 10 + _CHANNELS))
    _put(labels, f"{_PREFIX}.channel.default.v1", rng.choice(("stable", "beta", DELETED)))
    _put(labels, _OPENSHIFT, rng.choice(("v4.14",) * 10 + (DELETED,) + _OPENSHIFT_VALUES))
    for _ in range(rng.choice((0, 0, 1, 1, 2, 3))):
        path = rng.choice(list(_CSV_VALUES))
        _set(csv, path, rng.choice(_CSV_VALUES[path] if rng.random() < 0.85 else _ODD))
    files = {**BASE, _CSV: _dump(csv), _ANNOTATIONS: _dump(annotations)}
    if rng.random() < 0.15:
        files["release-config.yaml"] = _dump(rng.choice(_RELEASE))
    _add_files(rng, files)
    return files


def _add_files(rng: random.Random, files: dict[str, bytes]) -> None:
    """Add files that the pipelines reject, or rename the ClusterServiceVersion, in a few bundles."""
    policy = b"apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: demo}\n"
    service = b"apiVersion: v1\nkind: Service\nmetadata: {name: demo}\n"
    added = {
        "manifests/policy.yaml": (
            policy,
            policy.replace(b"/v1", b"/v1beta1"),
            policy.replace(b"networking", b"policy"),
        ),
        "manifests/policy.json": (b'{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy"}',),
        "manifests/service.yml": (
            service,
            service + b"---\n",
            service + b"---\n" + service,
            b"---\n" + service,
            b"a: [",
        ),
    }
    if rng.random() < 0.15:
        path = rng.choice(list(added))
        files[path] = rng.choice(added[path])
    if rng.random() < 0.02:
        files["manifests/csv.yaml"] = files.pop(_CSV)


def _set(root: Any, path: str, value: Any, at: str = "") -> None:
    """Set or remove a member; of a path below ``at``, the rest is one key."""
    *parents, key = [*at.split("."), path.removeprefix(f"{at}.")] if at else path.split(".")
    for parent in parents:
        root = root.get(parent) if isinstance(root, dict) else None
    if isinstance(root, dict):
        _put(root, key, value)


def _put(members: dict[str, Any], key: str, value: Any) -> None:
    if value is DELETED:
        members.pop(key, None)
    else:
        members[key] = value


def _dump(value: Any) -> bytes:
    return yaml.safe_dump(value, sort_keys=False).encode()
