r"""Texts from catalogs and bundles that deceive terminals, CI systems and readers of reports, in every output."""

from __future__ import annotations

import json
import re
import shutil
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.kit.opm import LAGOON

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.installed import InstalledOpm

TEXTS = (
    "::error::x",
    " ::set-output name=a::b",
    "##[error]x",
    "##vso[task.complete]x",
    "![i](http://e.example/a.png)",
    "[l](http://e.example)",
    "<img src=http://e.example/b.png>",
    "http://e.example/auto",
    "www.e.example",
    "@octocat #1",
    r"\|![i](http://e.example/c.png)",
    "`![i](http://e.example/d.png)`",
    "``` ` ![i](http://e.example)",
    "a\n::error::b",
    "\u202eevil\u2066",
    "\u200b::error::x\u200d\ufeff",
    "\x1b[31mred",
    "https://bob:hunter2@e.example/",
)
INVISIBLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
CODE = re.compile(r"(`+)(?!`)(.*?)(?<!`)\1(?!`)")
LIVE = re.compile(r"https?:|www\.|\]\(|<img|@octocat|#1\b|::|##\[")


def catalog(directory: Path, count: int, package: str = "pool") -> None:
    """Write a catalog with bundles, channels and messages of hostile names; the first ``count`` are in a channel."""
    bundles = [f"{text}.v{number}" for number, text in enumerate(TEXTS)]
    entries = [{"name": name, "skipRange": "<0.0.1"} for name in bundles[:count]]
    for before, entry in zip(bundles, entries[1:], strict=False):
        entry["replaces"] = before
    documents: list[dict[str, Any]] = [
        {"schema": "olm.package", "name": package, "defaultChannel": TEXTS[0], "description": TEXTS[13]},
        *({"schema": "olm.channel", "package": package, "name": text, "entries": entries} for text in TEXTS),
    ]
    for number, name in enumerate(bundles[:count]):
        properties: list[dict[str, Any]] = [
            {"type": "olm.package", "value": {"packageName": package, "version": f"1.{number}.0"}}
        ]
        if number == count - 1:
            needed = {"packageName": TEXTS[4], "versionRange": ">=1.0.0"}
            properties.append({"type": "olm.package.required", "value": needed})
        image = f"quay.io/me/pool@sha256:{number:064x}"
        related = [{"name": TEXTS[2], "image": image}]
        documents.append(
            {"schema": "olm.bundle", "package": package, "name": name, "image": image, "properties": properties}
            | {"relatedImages": related}
        )
    deprecated = [{"reference": {"schema": "olm.bundle", "name": bundles[0]}, "message": "\n".join(TEXTS)}]
    documents.append({"schema": "olm.deprecations", "package": package, "entries": deprecated})
    directory.mkdir()
    (directory / "catalog.json").write_text("".join(f"{json.dumps(document)}\n" for document in documents))


def bundle(directory: Path) -> None:
    """Write a bundle with hostile descriptions, annotations, names and permissions."""
    shutil.copytree(LAGOON / "0.1.0", directory)
    (path,) = (directory / "manifests").glob("*clusterserviceversion*")
    csv = yaml.safe_load(path.read_text())
    del csv["metadata"]["annotations"]["createdAt"]  # a time for PyYAML
    csv["metadata"]["annotations"] |= {f"e.example/{number}": text for number, text in enumerate(TEXTS)}
    csv["spec"] |= {"description": "\n".join(TEXTS), "displayName": TEXTS[13], "keywords": list(TEXTS)}
    csv["spec"]["maturity"] = TEXTS[5]
    for deployment in csv["spec"]["install"]["spec"]["deployments"]:
        (container, *_) = deployment["spec"]["template"]["spec"]["containers"]
        container["env"] = [{"name": f"A{number}", "value": text} for number, text in enumerate(TEXTS)]
    rules = [{"apiGroups": [text], "resources": [text, "*"], "verbs": ["*"]} for text in TEXTS]
    account = csv["spec"]["install"]["spec"].setdefault("clusterPermissions", [])
    account.append({"serviceAccountName": "lagoon", "rules": rules})
    path.write_text(yaml.safe_dump(csv, allow_unicode=True))


@pytest.fixture
def site(newcomer: InstalledOpm) -> InstalledOpm:
    catalog(newcomer.directory / "old", len(TEXTS) - 1)
    catalog(newcomer.directory / "new", 1)
    catalog(newcomer.directory / "bad", 2, "::error::pool [l](http://e.example)")
    bundle(newcomer.directory / "bundle")
    shutil.copytree(newcomer.directory / "bundle", newcomer.directory / "bad-bundle")
    manifest = newcomer.directory / "bad-bundle" / "manifests" / "::error::x.yaml"
    manifest.write_text("apiVersion: v1\nkind: '[l](http://e.example)'\n")
    return newcomer


COMMANDS = (
    *(("index", "diff", "old", "new", "-o", form) for form in ("text", "json", "markdown")),
    ("index", "diff", "old", "new", "--fail-on", "removed", "-o", "markdown"),
    *(
        ("index", "plan", *arguments, "-o", form)
        for form in ("text", "json", "markdown", "junit")
        for arguments in (
            ("new", "--from", "old", "--olm", "both"),
            ("old", "--subscribe", "pool/::error::x"),
            ("old", "--extension", "pool", "--installed", f"{TEXTS[4]}.v4"),
        )
    ),
    *(("validate", "bad", "-o", form) for form in ("text", "json", "yaml", "sarif", "junit", "github", "markdown")),
    *(
        ("bundle", "validate", directory, "--output", form)
        for directory in ("./bundle", "./bad-bundle")
        for form in ("text", "json", "sarif", "junit", "github", "markdown")
    ),
    *(("bundle", "permissions", "./bundle", "-o", form) for form in ("text", "json", "markdown")),
    *(("bundle", "render", "./bundle", "--namespace", "a", "-o", form) for form in ("yaml", "json")),
    *(("render", "old", "-o", form) for form in ("json", "yaml")),
    *(("index", "images", "old", "-o", form) for form in ("text", "json", "name")),
    *(("alpha", "list", kind, "old") for kind in ("packages", "channels", "bundles")),
    *(("index", "graph", "old", "-o", form) for form in ("mermaid", "dot", "svg")),
    ("render", "old", "--debug"),
    ("validate", "::error::x"),
    ("render", "https://bob:hunter2@e.example/##[error]x"),
)


def live_parts(text: str) -> Iterator[str]:
    """Yield what is not in code of a Markdown document, cell by cell."""
    for line in text.splitlines():
        for cell in re.split(r"(?<!\\)(?:\\\\)*\|", line) if line.startswith("|") else [line]:
            yield CODE.sub("", cell)


def test_every_output(site: InstalledOpm) -> None:
    for command in COMMANDS:
        done = site.attempt(*command)
        form = command[-1]
        for output in (done.stdout, done.stderr):
            assert "Traceback" not in output, command
            assert not INVISIBLE.findall(output), command
            is_data = "render" in command or form in ("json", "yaml", "sarif", "mermaid", "dot", "svg")
            assert "hunter2" not in output or (is_data and output is done.stdout), command
            for line in output.splitlines():
                assert "##[" not in line, (command, line)
                assert "##vso[" not in line, (command, line)
                if line.lstrip().startswith("::"):
                    assert form == "github", (command, line)
                    assert re.match(r"::(error|warning|notice) title=[^:]*::|::(error|warning) file=", line), line
        assert done.stdout or done.returncode, command
        match form:
            case "json" | "sarif" if done.stdout and command[0] != "render":
                json.loads(done.stdout)
            case "yaml":
                assert list(yaml.safe_load_all(done.stdout))
            case "junit" if done.stdout:
                ET.fromstring(done.stdout)
            case "markdown":
                assert not [part for part in live_parts(done.stdout) if LIVE.search(part)], (command, done.stdout)


def test_outputs_for_programs_have_the_same_values(site: InstalledOpm) -> None:
    rendered = json.loads(site("bundle", "render", "./bundle", "--namespace", "a", "-o", "json"))
    documents = list(yaml.safe_load_all(site("bundle", "render", "./bundle", "--namespace", "a")))
    assert documents == rendered["objects"]
    (deployment,) = (each for each in documents if each["kind"] == "Deployment")
    values = [each["value"] for each in deployment["spec"]["template"]["spec"]["containers"][0]["env"]]
    assert values[: len(TEXTS)] == list(TEXTS)
    as_yaml = list(yaml.safe_load_all(site("render", "old", "-o", "yaml")))
    decoder, text, as_json = json.JSONDecoder(), site("render", "old"), []
    while text.strip():
        value, end = decoder.raw_decode(text.lstrip())
        as_json.append(value)
        text = text.lstrip()[end:]
    assert as_yaml == as_json
    assert {f"{each}.v{number}" for number, each in enumerate(TEXTS[:-1])} <= {each.get("name") for each in as_json}
