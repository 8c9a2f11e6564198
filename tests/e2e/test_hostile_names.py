"""Untrusted names and texts are printed and logged without control characters or forged lines."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from typing import TYPE_CHECKING

import pytest

from tests.kit.forkserver import Command
from tests.kit.hostile_builders import HostileRegistry, config, layer
from tests.kit.images import member
from tests.kit.opm import FIXTURES, LAGOON
from tests.kit.server import SERVE, Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.opm import Opm

HOSTILE = "\x1b[2J\x07\x7f\x9b31m\u202e\u2066\u200f\u061c\u2028\nError: forged\n  hint: forged"
IN_YAML = json.dumps(HOSTILE)[1:-1].replace("\x7f", "\\x7f")
OUTPUT_FORMS = ("text", "json", "sarif", "junit", "github", "json-alpha1")


def assert_harmless(text: str) -> None:
    for line in text.splitlines():
        assert not line.strip().startswith(("Error: forged", "hint: forged", "forged")), text
    unprintable = {character for character in text if not character.isprintable()} - {"\n"}
    assert not unprintable, (unprintable, text)


def named(text: str) -> str:
    return f"{text}{HOSTILE}"


def write_catalog(directory: Path) -> Path:
    """Write a catalog whose names, versions, images and deprecations are hostile."""
    package, channel, bundle = named("lagoon"), named("stable"), named("lagoon.v1")
    blobs = [
        {"schema": "olm.package", "name": package, "defaultChannel": channel, "description": HOSTILE},
        {
            "schema": "olm.channel",
            "package": package,
            "name": channel,
            "entries": [
                {"name": bundle, "replaces": named("lagoon.v0"), "skips": [named("skipped")], "skipRange": HOSTILE}
            ],
        },
        {
            "schema": "olm.bundle",
            "package": package,
            "name": bundle,
            "image": named("quay.io/me/lagoon:1"),
            "properties": [
                {"type": "olm.package", "value": {"packageName": package, "version": named("1.0.0")}},
                {"type": named("odd"), "value": HOSTILE},
            ],
            "relatedImages": [{"name": HOSTILE, "image": HOSTILE}],
        },
        {
            "schema": "olm.deprecations",
            "package": package,
            "entries": [{"reference": {"schema": "olm.bundle", "name": bundle}, "message": HOSTILE}],
        },
    ]
    directory.mkdir()
    (directory / "catalog.json").write_text("\n".join(map(json.dumps, blobs)))
    return directory


def write_drawable_catalog(directory: Path) -> Path:
    """Write a hostile catalog with a version that can be compared, which graphs need."""
    path = write_catalog(directory) / "catalog.json"
    path.write_text(path.read_text().replace(json.dumps(named("1.0.0")), '"1.0.0"'))
    return directory


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """Write a bundle directory with a hostile file name, channel, annotation, label and object name."""
    directory = tmp_path / "bundle"
    shutil.copytree(LAGOON / "0.1.0", directory)
    (directory / "metadata").mkdir(exist_ok=True)
    prefix = "operators.operatorframework.io.bundle"
    (directory / "metadata/annotations.yaml").write_text(
        "annotations:\n"
        f"  {prefix}.mediatype.v1: registry+v1\n"
        f"  {prefix}.manifests.v1: manifests/\n  {prefix}.metadata.v1: metadata/\n"
        f'  {prefix}.package.v1: "lagoon{IN_YAML}"\n  {prefix}.channels.v1: "stable{IN_YAML}"\n'
        f'  {prefix}.channel.default.v1: "other{IN_YAML}"\n  "{IN_YAML}": "{IN_YAML}"\n'
    )
    (directory / f"manifests/{HOSTILE}.yaml").write_text(f'kind: "{IN_YAML}"\nmetadata: {{name: "{IN_YAML}"}}\n')
    (directory / "manifests/broken.yaml").write_text(f'a: 1\n"{IN_YAML}": [\n')
    return directory


@pytest.fixture
def database(opm: Opm, tmp_path: Path) -> Path:
    """Write a database of one bundle with hostile names in all tables."""
    path = tmp_path / "index.db"
    opm("registry", "add", "-d", str(path), "-b", build_bundle(opm))
    with sqlite3.connect(path) as connection:
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for _, column, kind, *_ in connection.execute(f"PRAGMA table_info({table})").fetchall():
                if kind.upper().startswith("TEXT") and column not in ("csv", "bundle", "value"):
                    changed = f"UPDATE OR IGNORE {table} SET {column} = {column} || ? WHERE {column} LIKE 'lagoon%'"
                    connection.execute(changed, [HOSTILE])
    return path


def build_bundle(opm: Opm) -> str:
    opm.build_bundle("0.1.0", "oci:bundle-layout:0.1.0")
    return "oci:bundle-layout:0.1.0"


def run_all(opm: Opm, commands: list[tuple[str, ...]]) -> None:
    for command in commands:
        done = opm.attempt(*command)
        assert "--debug" in command or "Traceback" not in done.stderr, command
        assert_harmless(done.stdout)
        assert_harmless(done.stderr)


def index_commands(index: str) -> Iterator[tuple[str, ...]]:
    """Return the commands that read an index and print text or their own JSON."""
    for kind in ("packages", "channels", "bundles"):
        yield "alpha", "list", kind, index
        yield "alpha", "list", kind, index, "-o", "json"
    for form in ("html", "svg", "dot", "mermaid"):
        yield "index", "graph", index, "-o", form
    yield "alpha", "render-graph", index
    yield "validate", index
    yield "validate", index, "-o", "json"
    yield "index", "manifests", index, "--address", "a:1", "--package", named("lagoon")
    yield "index", "export", "-i", index, "-f", "exported"
    yield "index", "rm", "-f", index, "-o", named("none"), "--dry-run"
    yield "index", "prune", "-f", index, "-p", "none", "--dry-run", "--permissive"
    yield "index", "filter", "-f", index, "--package", named("lagoon"), "--dry-run"
    yield "index", "deprecate", "-f", index, "--package", named("lagoon"), "-m", HOSTILE, "--dry-run"
    yield "index", "build", index, "--dry-run"
    yield "index", "merge", index, "empty", "--dry-run"
    for form in ("text", "json", "markdown"):
        yield "index", "diff", "empty", index, "-o", form
        yield "index", "diff", index, "empty", "-o", form


def test_hostile_catalogs(opm: Opm, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty/catalog.json").write_text('{"schema": "olm.package", "name": "other", "defaultChannel": "a"}')
    catalog, drawable = write_catalog(tmp_path / "catalog"), write_drawable_catalog(tmp_path / "drawable")

    run_all(opm, [*index_commands(str(catalog)), *index_commands(str(drawable))])
    run_all(opm, [("index", "merge", "catalog", "drawable", "--dry-run")])

    assert "\\x1b[2J" in opm("index", "graph", str(drawable), "-o", "dot")


def test_hostile_databases(opm: Opm, database: Path, tmp_path: Path) -> None:
    write_catalog(tmp_path / "empty")
    run_all(opm, [*index_commands(str(database)), ("registry", "prune", "-d", str(database), "-p", "x", "--dry-run")])


def test_hostile_bundles(opm: Opm, bundle: Path) -> None:
    commands: list[tuple[str, ...]] = [("bundle", "validate", str(bundle), "--output", form) for form in OUTPUT_FORMS]
    commands += [("bundle", "validate", f"{bundle}/{HOSTILE}"), ("render", f"{bundle}/{HOSTILE}")]
    commands += [("bundle", "validate", "--tag", f"{bundle}"), ("index", "add", "-b", str(bundle), "--dry-run")]
    commands += [
        ("registry", "add", "-b", str(bundle)),
        (HOSTILE,),
        ("image", "ls", f"--{HOSTILE}"),
        ("render", HOSTILE),
    ]

    run_all(opm, commands)

    (bundle / "manifests/broken.yaml").unlink()
    run_all(opm, commands)


def test_hostile_images(opm: Opm) -> None:
    labels = {f"label{HOSTILE}": HOSTILE, "operators.operatorframework.io.bundle.package.v1": HOSTILE}
    with HostileRegistry() as registry:
        by_name = registry.put("files", layer(member(f"manifests/{HOSTILE}", b"a: ["), member(f"../{HOSTILE}", b"")))
        by_label = registry.put("labels", config(config={"Labels": labels}, created=HOSTILE))
        run_all(
            opm,
            [
                (*command, "--use-http", "--debug")
                for image in (by_name, by_label)
                for command in (
                    ("image", "inspect", image),
                    ("image", "inspect", image, "-o", "json"),
                    ("image", "pull", image),
                    ("bundle", "validate", image),
                    ("bundle", "unpack", image, "--out", "out"),
                    ("index", "add", "-b", image, "--dry-run"),
                    ("alpha", "list", "packages", image),
                    ("validate", image),
                )
            ],
        )


def test_hostile_responses_of_a_catalog_server(opm: Opm, database: Path) -> None:
    package, bundle = named("lagoon-operator"), named("lagoon-operator.v0.1.0")
    with Server("--database", str(database), program=SERVE) as server:
        assert "lagoon-operator\\x1b[2J" in opm("catalog", "list", "packages", "--address", server.address)
        run_all(
            opm,
            [
                (*command, "--address", server.address, *form)
                for command in (
                    *(("catalog", "list", kind) for kind in ("packages", "channels", "bundles", "apis")),
                    ("catalog", "get", "package", package),
                    ("catalog", "get", "bundle", package, "stable", bundle),
                    ("catalog", "get", "package", HOSTILE),
                    ("catalog", "find", "providers", HOSTILE),
                    ("catalog", "health"),
                )
                for form in ((), ("-o", "json"))
            ],
        )


def test_servers_and_other_programs_escape_hostile_names_in_logs(opm: Opm, database: Path, bundle: Path) -> None:
    write_catalog(bundle.parent / "catalog")
    run_all(
        opm,
        [
            ("serve", "catalog", "--port", "0"),
            ("serve", f"none{HOSTILE}"),
            ("registry", "serve", "-d", f"none{HOSTILE}"),
        ],
    )
    for program, *arguments in (
        ("initializer", "-m", str(bundle), "-o", "new.db"),
        ("initializer", "-m", f"none{HOSTILE}", "-o", "new.db"),
        ("registry-server", "-d", f"none{HOSTILE}"),
        ("configmap-server", "-c", HOSTILE, "-n", HOSTILE, "-k", f"none{HOSTILE}"),
    ):
        assert opm.forkserver is not None
        (done,) = opm.forkserver.run([Command(arguments, directory=opm.directory, program=program)])
        assert done.status in (1, 2), (program, done)
        assert "Traceback" not in done.stderr
        assert_harmless(done.output)


NOT_UTF8 = os.fsdecode(b"\xff")


@pytest.mark.parametrize(
    "command",
    [
        "bundle validate ./bundle@ --output {}",
        "bundle pin ./bundle@ --check -o {}",
        "bundle pin ./bundle@ --replacements missing@ -o {}",
        "index add -b ./bundle@ -f ./catalog@ -t x:1 --dry-run -o {}",
        "index diff ./catalog@ index@.db -o {}",
        "index images ./catalog@ -o {}",
        "index images missing@.db -o {}",
        "index merge ./catalog@ index@.db --output-dir merged@ -o {}",
        "registry prune -d index@.db -p x -o {}",
        "validate invalid@ -o {}",
        "validate missing@ -o {}",
        "template render missing@ -o {}",
        "image inspect oci:missing@ -o {}",
    ],
)
def test_paths_that_are_not_utf8(opm: Opm, command: str) -> None:
    shutil.copytree(LAGOON / "0.1.0", opm.directory / f"bundle{NOT_UTF8}")
    shutil.copytree(FIXTURES / "catalogs/valid", opm.directory / f"catalog{NOT_UTF8}")
    shutil.copytree(FIXTURES / "catalogs/invalid", opm.directory / f"invalid{NOT_UTF8}")
    first = next((opm.directory / f"invalid{NOT_UTF8}").glob("*.yaml"))
    first.rename(first.with_name(f"{NOT_UTF8}.yaml"))
    database = f"index{NOT_UTF8}.db"
    opm("registry", "add", "-d", database, "-b", f"./bundle{NOT_UTF8}")
    for output in ("text", "json", "sarif"):
        done = opm.attempt(*command.replace("@", NOT_UTF8).format(output).split())
        assert "internal error" not in done.stderr
        if output == "json" and done.stdout:
            json.loads(done.stdout)


def test_dockerfile_of_a_directory_that_is_not_utf8(opm: Opm) -> None:
    manifests = opm.directory / NOT_UTF8 / "manifests"
    shutil.copytree(LAGOON / "0.1.0/manifests", manifests)
    opm("bundle", "generate", "-d", f"{NOT_UTF8}/manifests", "-p", "lagoon-operator", "-c", "alpha")
    assert b"COPY \xff/manifests /manifests/\n" in (opm.directory / "bundle.Dockerfile").read_bytes()


LONE = "\\ud800"
LONE_CATALOGS = {
    "schema": f'{{"schema": "{LONE}"}}',
    "field": f'{{"schema": "x", "name": "{LONE}", "package": "y{LONE}", "{LONE}": ["{LONE}"]}}',
    "properties": '{"schema": "olm.bundle", "name": "a.v1", "package": "a", "image": "example.com/a:1", "properties": ['
    '{"type": "olm.package", "value": {"packageName": "a", "version": "1.0.0"}},'
    f'{{"type": "x", "value": "{LONE}"}}]}}'
    '{"schema": "olm.package", "name": "a", "defaultChannel": "b"}'
    f'{{"schema": "olm.channel", "name": "b", "package": "a", "entries": [{{"name": "a.v1", "skips": ["{LONE}"]}}]}}',
}


@pytest.mark.parametrize("name", LONE_CATALOGS)
@pytest.mark.parametrize(
    "command",
    [
        "render ./catalog",
        "render ./catalog -o yaml",
        "validate catalog -o json",
        "validate catalog",
        "index merge ./catalog ./catalog --output-dir merged -o json",
        "index diff ./catalog ./catalog -o json",
        "index images ./catalog -o json",
        "alpha render-graph catalog",
        "graph ./catalog -o graph.html",
        "migrate catalog migrated",
    ],
)
def test_lone_surrogates_are_replaced_as_in_go(opm: Opm, command: str, name: str) -> None:
    (opm.directory / "catalog").mkdir()
    (opm.directory / "catalog/catalog.json").write_text(LONE_CATALOGS[name])
    done = opm.attempt(*command.split())
    assert "internal error" not in done.stderr
    if command.startswith("render"):
        assert "\ufffd" in done.stdout
