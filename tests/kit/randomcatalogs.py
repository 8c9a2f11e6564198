"""File-based catalogs made up from a seed: sound ones, and ones with something broken in them."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, TypeAlias

import yaml

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from opmkit.index.fbc.blobs import Blobs

Document: TypeAlias = dict[str, Any]
Catalog: TypeAlias = list[Document]

ICON = base64.b64encode(b"<svg/>").decode()
CSV = {"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "spec": {"displayName": "Demo"}}


def random_catalog(dice: random.Random, packages: int = 2, bundles: int = 5) -> Catalog:
    """A catalog that keeps all rules, with up to that many packages, and bundles in each."""
    documents: Catalog = []
    for number in range(dice.randint(1, packages)):
        documents += _package(dice, f"pack-{number}", dice.randint(1, bundles))
    return documents


def _package(dice: random.Random, package: str, count: int) -> Iterator[Document]:
    names = [f"{package}.v1.{minor}.0" for minor in range(count)]
    channels = ["alpha", *dice.sample(["beta", "stable"], dice.randint(0, 2))]
    icon = {"icon": {"base64data": ICON, "mediatype": "image/svg+xml"}} if dice.random() < 0.3 else {}
    yield {"schema": "olm.package", "name": package, "defaultChannel": dice.choice(channels), **icon}
    for number, channel in enumerate(channels):
        members = names if number == 0 else names[-dice.randint(1, count) :]
        yield {"schema": "olm.channel", "name": channel, "package": package, "entries": _entries(dice, members)}
    for name in names:
        yield _bundle(dice, package, name)
    if dice.random() < 0.3:
        told = [{"reference": {"schema": "olm.bundle", "name": dice.choice(names)}, "message": "old"}]
        yield {"schema": "olm.deprecations", "package": package, "entries": told}
    if dice.random() < 0.2:
        yield {"schema": "example.com.notes", "package": package, "name": "notes", "lines": [1, 2.5, None]}


def _entries(dice: random.Random, members: list[str]) -> list[Document]:
    """A chain, of which some are skipped by the one after them instead of being replaced."""
    entries: list[Document] = []
    replaced, skipped = f"{members[0]}-before", list[str]()
    for name in members:
        entry: Document = {"name": name}
        if replaced and dice.random() < 0.9:
            entry["replaces"] = replaced
            if skipped:
                entry["skips"] = skipped
        elif entries:
            entry["skips"] = [*skipped, *([replaced] if replaced else [])]
        if dice.random() < 0.2:
            entry["skipRange"] = dice.choice([">=1.0.0 <1.2.0", "<1.1.0", "1.x", ">1.0.0 || =0.9.1"])
        entries.append(entry)
        if dice.random() < 0.8:
            replaced, skipped = name, []
        else:
            skipped = [*skipped, name]
    entries[-1]["skips"] = sorted({*entries[-1].get("skips", ()), *_left_behind(entries)})
    dice.shuffle(entries)
    return entries


def _left_behind(entries: list[Document]) -> Iterator[str]:
    """What the last entry has to skip for the graph to be sound: all that is not replaced from the top."""
    by_name = {entry["name"]: entry for entry in entries}
    skipped = {skip for entry in entries for skip in entry.get("skips", ())}
    at, chain = entries[-1], {entries[-1]["name"]}
    while (below := at.get("replaces")) in by_name and below not in skipped:
        at = by_name[below]
        chain.add(below)
    yield from by_name.keys() - chain


def _bundle(dice: random.Random, package: str, name: str) -> Document:
    version = name.partition(".v")[2]
    properties: list[Document] = [
        {"type": "olm.package", "value": {"packageName": package, "version": version}},
        {"type": "olm.gvk", "value": {"group": "example.com", "kind": "Demo", "version": "v1"}},
        {"type": "olm.maxOpenShiftVersion", "value": "4.15"},
    ]
    if dice.random() < 0.4:
        data = base64.b64encode(json.dumps(CSV).encode()).decode()
        properties.append({"type": "olm.bundle.object", "value": {"data": data}})
    if dice.random() < 0.3:
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
    """Requests to each method, for everything that is in a catalog, also for what is only replaced or skipped."""
    places = [
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
        "GetBundle": places,
        "GetBundleForChannel": [{name: one[name] for name in ("pkgName", "channelName")} for one in places],
        "GetBundleThatReplaces": places,
        "GetChannelEntriesThatReplace": [{"csvName": one["csvName"]} for one in places],
        "GetChannelEntriesThatProvide": apis,
        "GetLatestChannelEntriesThatProvide": apis,
        "GetDefaultBundleThatProvides": apis,
    }


def break_catalog(dice: random.Random, catalog: Catalog) -> str:
    """Change something in it, and tell what; as a rule, but not always, it breaks one."""
    breakage = dice.choice(BREAKAGES)
    strange = [one for one in catalog if not isinstance(one, dict)]  # what was broken before is left as it is
    catalog[:] = [one for one in catalog if isinstance(one, dict)]
    breakage(dice, catalog)
    catalog += strange
    return breakage.__name__.strip("_")


def write_catalog(dice: random.Random, catalog: Catalog, root: Path) -> None:
    """Write it as a directory of files with any number of documents, in JSON and YAML."""
    waiting = list(catalog)
    while waiting:
        count = dice.randint(1, len(waiting))
        part, waiting = waiting[:count], waiting[count:]
        path = root / dice.choice(["", "a", "a/b"]) / f"{len(waiting)}{dice.choice(['.yaml', '.json', ''])}"
        path.parent.mkdir(parents=True, exist_ok=True)
        if dice.random() < 0.5:
            text = "\n".join(json.dumps(one, indent=dice.choice([None, 2, 4])) for one in part)
        else:
            text = yaml.safe_dump_all(part, explicit_start=True)
        path.write_text(text)
    if dice.random() < 0.3:
        (root / ".indexignore").write_text("*.md\nnotes/\n")
        (root / "README.md").write_text("Not a catalog.\n")


def _of(dice: random.Random, catalog: Catalog, schema: str) -> Document:
    return dice.choice([one for one in catalog if one.get("schema") == schema] or [{}])


def _entry(dice: random.Random, catalog: Catalog) -> Document:
    entries: list[Document] = _of(dice, catalog, "olm.channel").get("entries") or [{}]
    chosen = dice.choice(entries)
    return chosen if isinstance(chosen, dict) else {}


def _values(dice: random.Random, catalog: Catalog, kind: str) -> list[Document]:
    """The values of the properties of a type in one of the bundles."""
    properties = _of(dice, catalog, "olm.bundle").get("properties")
    found = [one for one in properties if isinstance(one, dict)] if isinstance(properties, list) else []
    return [one["value"] for one in found if one.get("type") == kind and isinstance(one.get("value"), dict)]


def _no_document(dice: random.Random, catalog: Catalog) -> None:
    catalog.remove(dice.choice(catalog))


def _document_twice(dice: random.Random, catalog: Catalog) -> None:
    catalog.append(json.loads(json.dumps(dice.choice(catalog))))


def _no_field(dice: random.Random, catalog: Catalog) -> None:
    document = dice.choice(catalog)
    document.pop(dice.choice(sorted(document)))


def _other_type(dice: random.Random, catalog: Catalog) -> None:
    document = dice.choice(catalog)
    document[dice.choice(sorted(document))] = dice.choice([None, 1, 1.5, True, "text", [], ["text"], {}, {"a": "b"}])


def _other_type_within(dice: random.Random, catalog: Catalog) -> None:
    """Change any value, however deep."""
    value: Any = dice.choice(catalog)
    while True:
        key = dice.choice(sorted(value) if isinstance(value, dict) else range(len(value)))
        if not (isinstance(value[key], dict | list) and value[key]) or dice.random() < 0.1:
            value[key] = dice.choice([None, 1, 1.5, True, "text", "", [], {}])
            return
        value = value[key]


def _field_twice(dice: random.Random, catalog: Catalog) -> None:
    document = dice.choice(catalog)
    key = dice.choice(sorted(document))
    document[dice.choice([key.upper(), key.capitalize()])] = document[key]


def _package_name(dice: random.Random, catalog: Catalog) -> None:
    name = dice.choice(["Pack", "pack.one", "-pack", "p" * 64, "p" * 63, "pack_one", ""])
    old = catalog[0].get("name")
    for document in catalog:
        if document.get("schema") == "olm.package" and document.get("name") == old:
            document["name"] = name
        if document.get("package") == old:
            document["package"] = name
        for each in document.get("properties") or ():
            if isinstance(each, dict) and isinstance(each.get("value"), dict) and "packageName" in each["value"]:
                each["value"]["packageName"] = name


def _default_channel(dice: random.Random, catalog: Catalog) -> None:
    _of(dice, catalog, "olm.package")["defaultChannel"] = dice.choice(["", "gone", "alpha"])


def _icon(dice: random.Random, catalog: Catalog) -> None:
    data = dice.choice(["", "!!", "YQ", "YQ==", "YQ==\n", "Y Q==", "YR==", "YWI=YQ==", None])
    _of(dice, catalog, "olm.package")["icon"] = {"base64data": data, "mediatype": ""}


def _edge(dice: random.Random, catalog: Catalog) -> None:
    channel = _of(dice, catalog, "olm.channel")
    names = [entry["name"] for entry in channel.get("entries") or () if isinstance(entry, dict) and "name" in entry]
    entry = _entry(dice, [channel])
    edge = dice.choice(["replaces", "skips"])
    if edge == "replaces":
        entry["replaces"] = dice.choice([*names, "gone", ""])
    else:
        entry["skips"] = [*(entry.get("skips") or ()), dice.choice([*names, "gone", ""])]


def _no_edge(dice: random.Random, catalog: Catalog) -> None:
    _entry(dice, catalog).pop(dice.choice(["replaces", "skips"]), None)


def _more_entries(dice: random.Random, catalog: Catalog) -> None:
    channel = _of(dice, catalog, "olm.channel")
    channel["entries"] = [*(channel.get("entries") or ()), {"name": dice.choice(["gone", "pack-0.v1.0.0"])}]


def _fewer_entries(dice: random.Random, catalog: Catalog) -> None:
    channel = _of(dice, catalog, "olm.channel")
    channel["entries"] = (channel.get("entries") or [])[1:]


def _skip_range(dice: random.Random, catalog: Catalog) -> None:
    ranges = [
        "<1.0",
        ">=1.0.0 -<2.0.0",
        "1.0.0 ||",
        "text",
        "",
        "<1.x",
        "x",
        ">=1.0.0,<2.0.0",
        "~1.0.0",
        "<01.0.0",
        "-1.0.0",
    ]
    _entry(dice, catalog)["skipRange"] = dice.choice(ranges)


def _version(dice: random.Random, catalog: Catalog) -> None:
    versions = [
        "1.0",
        "v1.0.0",
        "",
        "1.0.0-rc.1",
        "1.0.0+1",
        "01.0.0",
        "1.0.0-01",
        "1.1.0",
        "99999999999999999999.0.0",
        None,
    ]
    for value in _values(dice, catalog, "olm.package"):
        value["version"] = dice.choice(versions)


def _release(dice: random.Random, catalog: Catalog) -> None:
    bundle = _of(dice, catalog, "olm.bundle")
    release = dice.choice(
        ["1", "rc.2", "a+b", "01", "a..b", "", "x" * 20, "x" * 21, "-", "1_0", "99999999999999999999"]
    )
    for value in _values(dice, [bundle], "olm.package"):
        value["release"] = release
        if dice.random() < 0.7:
            _rename(catalog, bundle, f"{bundle.get('package')}-v{value.get('version')}-{release}")


def _rename(catalog: Catalog, bundle: Document, name: str) -> None:
    old, bundle["name"] = bundle.get("name"), name
    for document in catalog:
        for entry in document.get("entries") or () if document.get("schema") == "olm.channel" else ():
            if isinstance(entry, dict):
                entry.update({key: name for key in ("name", "replaces") if entry.get(key) == old})
                if isinstance(entry.get("skips"), list):
                    entry["skips"] = [name if skip == old else skip for skip in entry["skips"]]


def _property(dice: random.Random, catalog: Catalog) -> None:
    more: list[Any] = [
        {"type": "olm.package", "value": {"packageName": "pack-0", "version": "1.0.0"}},
        {"type": "olm.gvk", "value": "text"},
        {"type": "olm.gvk", "value": None},
        {"type": "olm.gvk", "value": {"group": 1}},
        {"type": "olm.gvk"},
        {"type": "olm.channel", "value": {"channelName": "alpha", "priority": dice.choice([1, "1", 1.5, 1.0])}},
        {"type": "olm.package.required", "value": {"packageName": "other", "versionRange": dice.choice(["x", 1])}},
        {"type": "olm.constraint", "value": [1]},
        {"type": "olm.csv.metadata", "value": dice.choice([{}, [], {"keywords": "a"}, {"nativeAPIs": [{"group": 1}]}])},
        {"type": "olm.csv.metadata", "value": {"crdDescriptions": {"owned": [{"resources": [{"kind": 1}]}]}}},
        {"type": "olm.csv.metadata", "value": {"annotations": {"a": dice.choice(["b", None, True])}, "provider": []}},
        {"type": "olm.csv.metadata", "value": {"installModes": [{"type": "OwnNamespace", "supported": "yes"}]}},
        {"type": 1, "value": 1},
        {"value": 1},
        "text",
        None,
    ]
    bundle = _of(dice, catalog, "olm.bundle")
    bundle["properties"] = [*(bundle.get("properties") or ()), dice.choice(more)]


def _object(dice: random.Random, catalog: Catalog) -> None:
    plain = dice.choice(
        [b"{}", b"a: b\n", b"a: [", b"", b"text", b"a: b\na: c\n", b"\xff\xfe", b"--- \na: b\n---\n", b"\ta: b"]
    )
    data = dice.choice([base64.b64encode(plain).decode(), "!!", "YQ", 1, None, "e30\n="])
    bundle = _of(dice, catalog, "olm.bundle")
    added = {"type": "olm.bundle.object", "value": dice.choice([{"data": data}, {"ref": "file.yaml"}, None, "text"])}
    bundle["properties"] = [*(bundle.get("properties") or ()), added]
    if dice.random() < 0.3:
        bundle["image"] = ""


def _image(dice: random.Random, catalog: Catalog) -> None:
    images = ["", "demo", "Demo", "quay.io/Example/demo:1", "quay.io/example/demo:", "docker://quay.io/example/demo:1"]
    images += [
        "https://quay.io/example/demo",
        "a" * 64,
        "quay.io/example/demo@sha256:12",
        "localhost:5000/demo:1",
        "x:y:z",
    ]
    images += [
        "quay.io/example/demo:1@sha256:" + "ab" * 32,
        "quay.io/example/demo@sha512:" + "ab" * 64,
        "[::1]:5000/demo",
    ]
    images += ["oci:demo", "demo@md5:" + "ab" * 16, "quay.io/" + "a" * 300, " quay.io/example/demo", "quay.io//demo"]
    bundle = _of(dice, catalog, "olm.bundle")
    if dice.random() < 0.5:
        bundle["image"] = dice.choice(images)
    else:
        bundle["relatedImages"] = [{"name": "one", "image": dice.choice(images)}]


def _deprecation(dice: random.Random, catalog: Catalog) -> None:
    entries = [
        {"reference": {"schema": "olm.package"}, "message": "old"},
        {"reference": {"schema": "olm.package", "name": "pack-0"}, "message": "old"},
        {"reference": {"schema": "olm.channel", "name": "alpha"}, "message": "old"},
        {"reference": {"schema": "olm.channel", "name": "gone"}, "message": "old"},
        {"reference": {"schema": "olm.bundle", "name": "pack-0.v1.0.0"}, "message": ""},
        {"reference": {"schema": "olm.bundle", "name": "gone"}, "message": "old"},
        {"reference": {"schema": "olm.other", "name": "gone"}, "message": "old"},
        {"reference": {}, "message": "old"},
        {"message": "old"},
    ]
    chosen = [dice.choice(entries) for _ in range(dice.randint(1, 2))]
    package = dice.choice(["pack-0", "pack-0", "pack-0", "gone", ""])
    catalog.append({"schema": "olm.deprecations", "package": package, "entries": chosen})


def _strange_document(dice: random.Random, catalog: Catalog) -> None:
    documents: list[Any] = ["text", [], {}, {"schema": ""}, {"schema": "other"}, {"schema": "other", "name": None}]
    documents += [
        {"schema": "other", "name": 1},
        {"name": "a"},
        {"schema": 1},
        1,
        None,
        {"schema": "other", "PACKAGE": "a"},
    ]
    catalog.append(dice.choice(documents))


BREAKAGES: tuple[Callable[[random.Random, Catalog], None], ...] = (
    _no_document,
    _document_twice,
    _no_field,
    _other_type,
    _other_type_within,
    _field_twice,
    _package_name,
    _default_channel,
    _icon,
    _edge,
    _no_edge,
    _more_entries,
    _fewer_entries,
    _skip_range,
    _version,
    _release,
    _property,
    _object,
    _image,
    _deprecation,
    _strange_document,
)
