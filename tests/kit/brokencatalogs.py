"""Break the rules of file-based catalogs at random."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from tests.kit.randomcatalogs import Catalog, Document


def break_catalog(rng: random.Random, catalog: Catalog) -> str:
    """Change a catalog, usually into an invalid one, and return the name of the change."""
    breakage = rng.choice(BREAKAGES)
    others = [document for document in catalog if not isinstance(document, dict)]  # from an earlier change
    catalog[:] = [document for document in catalog if isinstance(document, dict)]
    breakage(rng, catalog)
    catalog += others
    return breakage.__name__.strip("_")


def _random_blob(rng: random.Random, catalog: Catalog, schema: str) -> Document:
    return rng.choice([blob for blob in catalog if blob.get("schema") == schema] or [{}])


def _random_entry(rng: random.Random, catalog: Catalog) -> Document:
    entries: list[Document] = _random_blob(rng, catalog, "olm.channel").get("entries") or [{}]
    chosen = rng.choice(entries)
    return chosen if isinstance(chosen, dict) else {}


def _property_values(rng: random.Random, catalog: Catalog, kind: str) -> list[Document]:
    """Return the values of the properties of a type in a random bundle."""
    properties = _random_blob(rng, catalog, "olm.bundle").get("properties")
    valid = [prop for prop in properties if isinstance(prop, dict)] if isinstance(properties, list) else []
    return [prop["value"] for prop in valid if prop.get("type") == kind and isinstance(prop.get("value"), dict)]


def _remove_document(rng: random.Random, catalog: Catalog) -> None:
    catalog.remove(rng.choice(catalog))


def _duplicate_document(rng: random.Random, catalog: Catalog) -> None:
    catalog.append(json.loads(json.dumps(rng.choice(catalog))))


def _remove_field(rng: random.Random, catalog: Catalog) -> None:
    document = rng.choice(catalog)
    document.pop(rng.choice(sorted(document)))


def _replace_field(rng: random.Random, catalog: Catalog) -> None:
    document = rng.choice(catalog)
    document[rng.choice(sorted(document))] = rng.choice([None, 1, 1.5, True, "text", [], ["text"], {}, {"a": "b"}])


def _replace_value(rng: random.Random, catalog: Catalog) -> None:
    """Replace a value at any depth."""
    value: Any = rng.choice(catalog)
    while True:
        key = rng.choice(sorted(value) if isinstance(value, dict) else range(len(value)))
        if not (isinstance(value[key], dict | list) and value[key]) or rng.random() < 0.1:
            value[key] = rng.choice([None, 1, 1.5, True, "text", "", [], {}])
            return
        value = value[key]


def _duplicate_field(rng: random.Random, catalog: Catalog) -> None:
    document = rng.choice(catalog)
    key = rng.choice(sorted(document))
    document[rng.choice([key.upper(), key.capitalize()])] = document[key]


def _rename_package(rng: random.Random, catalog: Catalog) -> None:
    name = rng.choice(["Pack", "pack.one", "-pack", "p" * 64, "p" * 63, "pack_one", ""])
    old = catalog[0].get("name")
    for document in catalog:
        if document.get("schema") == "olm.package" and document.get("name") == old:
            document["name"] = name
        if document.get("package") == old:
            document["package"] = name
        for prop in document.get("properties") or ():
            if isinstance(prop, dict) and isinstance(prop.get("value"), dict) and "packageName" in prop["value"]:
                prop["value"]["packageName"] = name


def _change_default_channel(rng: random.Random, catalog: Catalog) -> None:
    _random_blob(rng, catalog, "olm.package")["defaultChannel"] = rng.choice(["", "gone", "alpha"])


def _change_icon(rng: random.Random, catalog: Catalog) -> None:
    data = rng.choice(["", "!!", "YQ", "YQ==", "YQ==\n", "Y Q==", "YR==", "YWI=YQ==", None])
    _random_blob(rng, catalog, "olm.package")["icon"] = {"base64data": data, "mediatype": ""}


def _add_edge(rng: random.Random, catalog: Catalog) -> None:
    channel = _random_blob(rng, catalog, "olm.channel")
    names = [entry["name"] for entry in channel.get("entries") or () if isinstance(entry, dict) and "name" in entry]
    entry = _random_entry(rng, [channel])
    edge = rng.choice(["replaces", "skips"])
    if edge == "replaces":
        entry["replaces"] = rng.choice([*names, "gone", ""])
    else:
        entry["skips"] = [*(entry.get("skips") or ()), rng.choice([*names, "gone", ""])]


def _remove_edge(rng: random.Random, catalog: Catalog) -> None:
    _random_entry(rng, catalog).pop(rng.choice(["replaces", "skips"]), None)


def _add_entry(rng: random.Random, catalog: Catalog) -> None:
    channel = _random_blob(rng, catalog, "olm.channel")
    channel["entries"] = [*(channel.get("entries") or ()), {"name": rng.choice(["gone", "pack-0.v1.0.0"])}]


def _remove_entry(rng: random.Random, catalog: Catalog) -> None:
    channel = _random_blob(rng, catalog, "olm.channel")
    channel["entries"] = (channel.get("entries") or [])[1:]


def _change_skip_range(rng: random.Random, catalog: Catalog) -> None:
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
    _random_entry(rng, catalog)["skipRange"] = rng.choice(ranges)


def _change_version(rng: random.Random, catalog: Catalog) -> None:
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
    for value in _property_values(rng, catalog, "olm.package"):
        value["version"] = rng.choice(versions)


def _add_release(rng: random.Random, catalog: Catalog) -> None:
    bundle = _random_blob(rng, catalog, "olm.bundle")
    release = rng.choice(["1", "rc.2", "a+b", "01", "a..b", "", "x" * 20, "x" * 21, "-", "1_0", "99999999999999999999"])
    for value in _property_values(rng, [bundle], "olm.package"):
        value["release"] = release
        if rng.random() < 0.7:
            _rename(catalog, bundle, f"{bundle.get('package')}-v{value.get('version')}-{release}")


def _rename(catalog: Catalog, bundle: Document, name: str) -> None:
    old, bundle["name"] = bundle.get("name"), name
    for document in catalog:
        for entry in document.get("entries") or () if document.get("schema") == "olm.channel" else ():
            if isinstance(entry, dict):
                entry.update({key: name for key in ("name", "replaces") if entry.get(key) == old})
                if isinstance(entry.get("skips"), list):
                    entry["skips"] = [name if skip == old else skip for skip in entry["skips"]]


def _add_property(rng: random.Random, catalog: Catalog) -> None:
    more: list[Any] = [
        {"type": "olm.package", "value": {"packageName": "pack-0", "version": "1.0.0"}},
        {"type": "olm.gvk", "value": "text"},
        {"type": "olm.gvk", "value": None},
        {"type": "olm.gvk", "value": {"group": 1}},
        {"type": "olm.gvk"},
        {"type": "olm.channel", "value": {"channelName": "alpha", "priority": rng.choice([1, "1", 1.5, 1.0])}},
        {"type": "olm.package.required", "value": {"packageName": "other", "versionRange": rng.choice(["x", 1])}},
        {"type": "olm.constraint", "value": [1]},
        {"type": "olm.csv.metadata", "value": rng.choice([{}, [], {"keywords": "a"}, {"nativeAPIs": [{"group": 1}]}])},
        {"type": "olm.csv.metadata", "value": {"crdDescriptions": {"owned": [{"resources": [{"kind": 1}]}]}}},
        {"type": "olm.csv.metadata", "value": {"annotations": {"a": rng.choice(["b", None, True])}, "provider": []}},
        {"type": "olm.csv.metadata", "value": {"installModes": [{"type": "OwnNamespace", "supported": "yes"}]}},
        {"type": 1, "value": 1},
        {"value": 1},
        "text",
        None,
    ]
    bundle = _random_blob(rng, catalog, "olm.bundle")
    bundle["properties"] = [*(bundle.get("properties") or ()), rng.choice(more)]


def _add_bundle_object(rng: random.Random, catalog: Catalog) -> None:
    plain = rng.choice(
        [b"{}", b"a: b\n", b"a: [", b"", b"text", b"a: b\na: c\n", b"\xff\xfe", b"--- \na: b\n---\n", b"\ta: b"]
    )
    data = rng.choice([base64.b64encode(plain).decode(), "!!", "YQ", 1, None, "e30\n="])
    bundle = _random_blob(rng, catalog, "olm.bundle")
    added = {"type": "olm.bundle.object", "value": rng.choice([{"data": data}, {"ref": "file.yaml"}, None, "text"])}
    bundle["properties"] = [*(bundle.get("properties") or ()), added]
    if rng.random() < 0.3:
        bundle["image"] = ""


def _change_image(rng: random.Random, catalog: Catalog) -> None:
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
    bundle = _random_blob(rng, catalog, "olm.bundle")
    if rng.random() < 0.5:
        bundle["image"] = rng.choice(images)
    else:
        bundle["relatedImages"] = [{"name": "one", "image": rng.choice(images)}]


def _add_deprecations(rng: random.Random, catalog: Catalog) -> None:
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
    chosen = [rng.choice(entries) for _ in range(rng.randint(1, 2))]
    package = rng.choice(["pack-0", "pack-0", "pack-0", "gone", ""])
    catalog.append({"schema": "olm.deprecations", "package": package, "entries": chosen})


def _add_invalid_document(rng: random.Random, catalog: Catalog) -> None:
    documents: list[Any] = ["text", [], {}, {"schema": ""}, {"schema": "other"}, {"schema": "other", "name": None}]
    documents += [
        {"schema": "other", "name": 1},
        {"name": "a"},
        {"schema": 1},
        1,
        None,
        {"schema": "other", "PACKAGE": "a"},
    ]
    catalog.append(rng.choice(documents))


BREAKAGES: tuple[Callable[[random.Random, Catalog], None], ...] = (
    _remove_document,
    _duplicate_document,
    _remove_field,
    _replace_field,
    _replace_value,
    _duplicate_field,
    _rename_package,
    _change_default_channel,
    _change_icon,
    _add_edge,
    _remove_edge,
    _add_entry,
    _remove_entry,
    _change_skip_range,
    _change_version,
    _add_release,
    _add_property,
    _add_bundle_object,
    _change_image,
    _add_deprecations,
    _add_invalid_document,
)
