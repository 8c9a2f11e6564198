"""Random catalogs with dependencies, and namespaces that subscribe to them, for comparisons with OLM's resolver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

PACKAGES = ("ant", "bee", "cat", "dog", "eel")
APIS = ("Alpha", "Beta", "Gamma")
LABELS = ("fast", "safe")
RANGES = ("<1.1.0", "1.0.0", ">=1.0.0", ">=1.1.0 <1.3.0", ">1.2.0", ">=9.0.0", "1.x", "!1.1.0")


def random_catalog(rng: random.Random) -> list[dict[str, Any]]:
    """Return the documents of a catalog with some of the packages."""
    documents: list[dict[str, Any]] = []
    for package in rng.sample(PACKAGES, rng.randint(2, len(PACKAGES))):
        documents += _package(rng, package)
    return documents


def _package(rng: random.Random, package: str) -> Iterator[dict[str, Any]]:
    names = [f"{package}.v1.{minor}.0" for minor in range(rng.randint(1, 5))]
    channels = rng.sample(("alpha", "beta", "stable"), rng.randint(1, 3))
    yield {"schema": "olm.package", "name": package, "defaultChannel": rng.choice(channels)}
    used: set[str] = set()
    for channel in channels:
        members = names[rng.randint(0, len(names) - 1) :] if rng.random() < 0.5 else names
        used |= set(members)
        yield {"schema": "olm.channel", "name": channel, "package": package, "entries": _entries(rng, package, members)}
    for name in names:
        if name in used:
            yield _bundle(rng, package, name)
    if rng.random() < 0.2:
        references = [{"schema": "olm.package"}, {"schema": "olm.bundle", "name": rng.choice(sorted(used))}]
        entries = [{"reference": rng.choice(references), "message": "old"}]
        yield {"schema": "olm.deprecations", "package": package, "entries": entries}


def _entries(rng: random.Random, package: str, members: list[str]) -> list[dict[str, Any]]:
    """Return a chain of replacements to the last member; some entries are skipped instead of replaced."""
    entries: list[dict[str, Any]] = []
    previous = rng.choice(("", f"{package}.v0.9.0"))
    skipped: list[str] = []
    for name in members:
        entry: dict[str, Any] = {"name": name}
        if previous:
            entry["replaces"] = previous
        if skipped or rng.random() < 0.2:
            entry["skips"] = [*skipped, *rng.sample(members, rng.randint(0, 1) if name == members[-1] else 0)]
            entry["skips"] = [skip for skip in entry["skips"] if skip != name]
        if rng.random() < 0.3:
            below = name.partition(".v")[2]  # a range with newer versions leads in circles
            entry["skipRange"] = rng.choice((f"<{below}", f">=1.1.0 <{below}", "<1.0.0", f"<1.1.0 || >1.2.0 <{below}"))
        entries.append(entry)
        if name != members[-1] and rng.random() < 0.2:
            skipped.append(name)
        else:
            previous, skipped = name, []
    return entries


def _bundle(rng: random.Random, package: str, name: str) -> dict[str, Any]:
    version = name.partition(".v")[2]
    properties = [{"type": "olm.package", "value": {"packageName": package, "version": version}}]
    properties += [
        {"type": "olm.gvk", "value": {"group": "demo.com", "version": "v1", "kind": kind}}
        for kind in APIS
        if rng.random() < 0.15
    ]
    properties += [{"type": "olm.label", "value": {"label": label}} for label in LABELS if rng.random() < 0.2]
    while rng.random() < 0.35:
        properties.append(_requirement(rng, package))
    if rng.random() < 0.05:
        properties.append({"type": "olm.deprecated", "value": {}})
    return {
        "schema": "olm.bundle",
        "name": name,
        "package": package,
        "image": f"quay.io/demo/{package}:{version}",
        "properties": properties,
    }


def _requirement(rng: random.Random, package: str) -> dict[str, Any]:
    kind = rng.choice(("package", "package", "gvk", "label", "constraint", "constraint"))
    others = [each for each in PACKAGES if each != package]
    if kind == "package":
        value: object = {"packageName": rng.choice(others), "versionRange": rng.choice(RANGES)}
        return {"type": "olm.package.required", "value": value}
    if kind == "gvk":
        return {"type": "olm.gvk.required", "value": _api(rng)}
    if kind == "label":
        return {"type": "olm.label.required", "value": {"label": rng.choice(LABELS)}}
    return {"type": "olm.constraint", "value": {"failureMessage": "not met", **_constraint(rng, others)}}


def _constraint(rng: random.Random, packages: list[str], depth: int = 0) -> dict[str, Any]:
    forms = ["gvk", "package", "cel"] if depth > 1 else ["gvk", "package", "cel", "all", "any", "all not"]
    form = rng.choice(forms)
    if form == "gvk":
        return {"gvk": _api(rng)}
    if form == "package":
        return {"package": {"packageName": rng.choice(packages), "versionRange": rng.choice(RANGES)}}
    if form == "cel":
        return {"cel": {"rule": _rule(rng, rng.choice(packages))}}
    parts = [_constraint(rng, packages, depth + 1) for _ in range(rng.randint(1, 3))]
    if form == "all not":
        parts.append({"not": {"constraints": [_constraint(rng, packages, depth + 1)]}})
        form = "all"
    return {form: {"constraints": parts}}


def _rule(rng: random.Random, package: str) -> str:
    return rng.choice(
        (
            f"properties.exists(p, p.type == 'olm.package' && p.value.packageName == '{package}')",
            f"properties.exists(p, p.type == 'olm.package' && p.value.packageName == '{package}'"
            " && semver_compare(p.value.version, '1.1.0') >= 0)",
            "properties.exists(p, p.type == 'olm.label' && p.value.label == 'safe')",
            "properties[1].type == 'olm.gvk'",
        )
    )


def _api(rng: random.Random) -> dict[str, str]:
    return {"group": "demo.com", "version": "v1", "kind": rng.choice(APIS)}


def random_namespace(rng: random.Random, catalogs: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Return a case for resolve-ref, without the addresses of the catalogs, from catalogs by name."""
    chosen = rng.sample(sorted(catalogs), rng.choice((1, 1, 2, 3)))
    case: dict[str, Any] = {
        "namespace": "ns",
        "catalogs": [
            {"name": name, "namespace": rng.choice(("ns", "global")), "priority": rng.choice((0, 0, 0, 1, -1))}
            for name in chosen
        ],
        "installed": [],
        "subscriptions": [],
        "repeat": True,
    }
    packages: set[str] = set()
    for number in range(rng.choice((1, 1, 1, 2, 2, 3))):
        catalog = rng.choice(chosen)
        channels = [item for item in catalogs[catalog] if item["schema"] == "olm.channel"]
        channel = rng.choice(channels)
        if channel["package"] in packages:
            continue
        packages.add(channel["package"])
        names = [entry["name"] for entry in channel["entries"]]
        subscription = {
            "name": f"s{number}",
            "package": channel["package"],
            "channel": channel["name"] if rng.random() < 0.9 else rng.choice(("", "none")),
            "catalog": catalog,
            "startingCSV": rng.choice(names) if rng.random() < 0.15 else "",
            "installedCSV": "",
        }
        if rng.random() < 0.02:
            subscription["package"] = "zebra"
        elif rng.random() < 0.6:
            subscription["installedCSV"] = rng.choice(names)
            case["installed"].append({"name": subscription["installedCSV"], "catalog": catalog})
        case["subscriptions"].append(subscription)
    if rng.random() < 0.15:
        catalog = rng.choice(chosen)
        bundle = rng.choice([item for item in catalogs[catalog] if item["schema"] == "olm.bundle"])
        if bundle["package"] not in packages:
            case["installed"].append({"name": bundle["name"], "catalog": catalog})
    return case


RELEASES = ("+1", "+2", "+01", "+r1.2", "-rc1", "+a.b", "+12345678901234567890123")
CONSTRAINTS = ("", "", ">=1.0.0", "<1.2", "1.x", "~1.1", ">1.0.0-0", "1.1.0 || 1.3.0", "^1.2.0 !=1.3.0", ">=1.1.0-0,<2")


def random_releases(rng: random.Random, documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a catalog in which fewer bundles have dependencies, and some versions a release or prerelease."""
    for document in documents:
        if document["schema"] == "olm.bundle":
            kept = ("olm.package", "olm.gvk")
            properties = [item for item in document["properties"] if item["type"] in kept or rng.random() < 0.3]
            if rng.random() < 0.25:
                properties[0]["value"]["version"] += rng.choice(RELEASES)
            document["properties"] = properties
    return documents


def random_extension(rng: random.Random, catalogs: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Return a case of a ClusterExtension that selects a package of some of the catalogs."""
    names = sorted(rng.sample(sorted(catalogs), rng.choice((1, 1, 2, 3))))
    package = rng.choice([item["name"] for item in catalogs[names[0]] if item["schema"] == "olm.package"])
    installed = None
    if rng.random() < 0.6:
        bundles = [item for name in names for item in catalogs[name] if item["schema"] == "olm.bundle"]
        bundle = rng.choice([item for item in bundles if item["package"] == package])
        installed = {"name": bundle["name"], "version": bundle["properties"][0]["value"]["version"]}
        if rng.random() < 0.15:
            installed = {"name": f"{package}.v0.9.0", "version": "0.9.0"}
    return {
        "package": package,
        "version": rng.choice(CONSTRAINTS),
        "channels": rng.choice(([], [], ["alpha"], ["beta", "stable"])),
        "selfCertified": rng.random() < 0.2,
        "installed": installed,
        "catalogs": [{"name": name, "priority": rng.choice((0, 0, 0, 1))} for name in names],
    }
