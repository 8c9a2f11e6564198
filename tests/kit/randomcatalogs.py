"""Generate valid file-based catalogs at random."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, TypeAlias

import yaml

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator
    from pathlib import Path

    from opmkit.index.fbc.blobs import Blobs

Document: TypeAlias = dict[str, Any]
Catalog: TypeAlias = list[Document]

ICON = base64.b64encode(b"<svg/>").decode()
CSV = {"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "spec": {"displayName": "Demo"}}


def random_catalog(rng: random.Random, packages: int = 2, bundles: int = 5) -> Catalog:
    """Return a valid catalog with up to that many packages, and bundles per package."""
    documents: Catalog = []
    for number in range(rng.randint(1, packages)):
        documents += _package(rng, f"pack-{number}", rng.randint(1, bundles))
    return documents


def _package(rng: random.Random, package: str, count: int) -> Iterator[Document]:
    names = [f"{package}.v1.{minor}.0" for minor in range(count)]
    channels = ["alpha", *rng.sample(["beta", "stable"], rng.randint(0, 2))]
    icon = {"icon": {"base64data": ICON, "mediatype": "image/svg+xml"}} if rng.random() < 0.3 else {}
    yield {"schema": "olm.package", "name": package, "defaultChannel": rng.choice(channels), **icon}
    for number, channel in enumerate(channels):
        members = names if number == 0 else names[-rng.randint(1, count) :]
        yield {"schema": "olm.channel", "name": channel, "package": package, "entries": _entries(rng, members)}
    for name in names:
        yield _bundle(rng, package, name)
    if rng.random() < 0.3:
        entries = [{"reference": {"schema": "olm.bundle", "name": rng.choice(names)}, "message": "old"}]
        yield {"schema": "olm.deprecations", "package": package, "entries": entries}
    if rng.random() < 0.2:
        yield {"schema": "example.com.notes", "package": package, "name": "notes", "lines": [1, 2.5, None]}


def _entries(rng: random.Random, members: list[str]) -> list[Document]:
    """Return a replaces chain, some of whose bundles are skipped by the next one instead of replaced."""
    entries: list[Document] = []
    replaced, skipped = f"{members[0]}-before", list[str]()
    for name in members:
        entry: Document = {"name": name}
        if replaced and rng.random() < 0.9:
            entry["replaces"] = replaced
            if skipped:
                entry["skips"] = skipped
        elif entries:
            entry["skips"] = [*skipped, *([replaced] if replaced else [])]
        if rng.random() < 0.2:
            entry["skipRange"] = rng.choice([">=1.0.0 <1.2.0", "<1.1.0", "1.x", ">1.0.0 || =0.9.1"])
        entries.append(entry)
        if rng.random() < 0.8:
            replaced, skipped = name, []
        else:
            skipped = [*skipped, name]
    entries[-1]["skips"] = sorted({*entries[-1].get("skips", ()), *_left_behind(entries)})
    rng.shuffle(entries)
    return entries


def _left_behind(entries: list[Document]) -> Iterator[str]:
    """Yield the bundles that the head must skip for a valid graph: all that are not on its replaces chain."""
    by_name = {entry["name"]: entry for entry in entries}
    skipped = {skip for entry in entries for skip in entry.get("skips", ())}
    entry, chain = entries[-1], {entries[-1]["name"]}
    while (replaced := entry.get("replaces")) in by_name and replaced not in skipped:
        entry = by_name[replaced]
        chain.add(replaced)
    yield from by_name.keys() - chain


def _bundle(rng: random.Random, package: str, name: str) -> Document:
    version = name.partition(".v")[2]
    properties: list[Document] = [
        {"type": "olm.package", "value": {"packageName": package, "version": version}},
        {"type": "olm.gvk", "value": {"group": "example.com", "kind": "Demo", "version": "v1"}},
        {"type": "olm.maxOpenShiftVersion", "value": "4.15"},
    ]
    if rng.random() < 0.4:
        data = base64.b64encode(json.dumps(CSV).encode()).decode()
        properties.append({"type": "olm.bundle.object", "value": {"data": data}})
    if rng.random() < 0.3:
        properties.append({"type": "olm.csv.metadata", "value": {"displayName": "Demo", "keywords": ["a"]}})
    return {
        "schema": "olm.bundle",
        "name": name,
        "package": package,
        "image": f"quay.io/example/{package}:{version}",
        "properties": properties,
        "relatedImages": [{"name": "", "image": f"quay.io/example/{package}@sha256:{'ab' * 32}"}],
    }


def requests_for_catalog(blobs: Blobs) -> dict[str, list[dict[str, str]]]:
    """Return requests for all content of a catalog by method, including names that are only replaced or skipped."""
    memberships = [
        {"pkgName": channel.package, "channelName": channel.name, "csvName": name}
        for channel in blobs.channels
        for entry in channel.entries
        for name in dict.fromkeys((entry.name, entry.replaces, *entry.skips))
    ]
    values = [
        value for bundle in blobs.bundles for value in bundle.property_values("olm.gvk") if isinstance(value, dict)
    ]
    keys = {tuple(str(value.get(part, "")) for part in ("group", "version", "kind")) for value in values}
    apis = [dict(zip(("group", "version", "kind"), key, strict=True)) for key in sorted(keys)]
    return {
        "ListPackages": [{}],
        "ListBundles": [{}],
        "GetPackage": [{"name": package.name} for package in blobs.packages],
        "GetBundle": memberships,
        "GetBundleForChannel": [{name: fields[name] for name in ("pkgName", "channelName")} for fields in memberships],
        "GetBundleThatReplaces": memberships,
        "GetChannelEntriesThatReplace": [{"csvName": fields["csvName"]} for fields in memberships],
        "GetChannelEntriesThatProvide": apis,
        "GetLatestChannelEntriesThatProvide": apis,
        "GetDefaultBundleThatProvides": apis,
    }


def write_catalog(rng: random.Random, catalog: Catalog, root: Path) -> None:
    """Write a catalog as a directory of JSON and YAML files with any number of documents each."""
    remaining = list(catalog)
    while remaining:
        count = rng.randint(1, len(remaining))
        part, remaining = remaining[:count], remaining[count:]
        path = root / rng.choice(["", "a", "a/b"]) / f"{len(remaining)}{rng.choice(['.yaml', '.json', ''])}"
        path.parent.mkdir(parents=True, exist_ok=True)
        if rng.random() < 0.5:
            text = "\n".join(json.dumps(document, indent=rng.choice([None, 2, 4])) for document in part)
        else:
            text = yaml.safe_dump_all(part, explicit_start=True)
        path.write_text(text)
    if rng.random() < 0.3:
        (root / ".indexignore").write_text("*.md\nnotes/\n")
        (root / "README.md").write_text("Not a catalog.\n")
