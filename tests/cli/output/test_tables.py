"""Tables on terminals and in pipes."""

from __future__ import annotations

import json
import re
import subprocess
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from opmkit.cli.output.tables import fit_table, shorten, shorten_digests
from tests.kit.opm import PROGRAM, Opm, run
from tests.kit.screen import run_on_terminal

if TYPE_CHECKING:
    from pathlib import Path

DIGEST = "sha256:" + "0123456789abcdef" * 4
IMAGE = f"quay.io/harbor-team/lagoon-operator-bundle@{DIGEST}"
HEADER = ("PACKAGE", "CHANNEL", "BUNDLE", "REPLACES", "SKIPS", "SKIP RANGE", "IMAGE")


def widest(rows: list[list[str]]) -> int:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return sum(widths) + 2 * (len(widths) - 1)


def test_tables_that_fit_are_unchanged() -> None:
    table = [("NAME", "DIGEST"), ("a", DIGEST)]
    assert fit_table(table, 77, ("DIGEST",)) == (table, [])


def test_digests_are_shortened_before_anything_else() -> None:
    rows, omitted = fit_table([("NAME", "DIGEST", "EMPTY"), ("a", DIGEST, "")], 76, ("NAME",))
    assert rows == [["NAME", "DIGEST"], ["a", "sha256:0123456789ab…"]]
    assert omitted == []
    assert shorten_digests(f"{IMAGE} sha256:0123") == (
        "quay.io/harbor-team/lagoon-operator-bundle@sha256:0123456789ab… sha256:0123"
    )


def test_texts_are_shortened_in_the_middle_and_less_important_columns_are_omitted() -> None:
    table = [HEADER, ("lagoon-operator", "alpha", "lagoon-operator.v0.2.0", "lagoon-operator.v0.1.0", "", "", IMAGE)]
    rows, omitted = fit_table(table, 80, ("IMAGE",))
    assert omitted == ["IMAGE"]
    assert rows[1] == ["lagoon-operator", "alpha", "lagoon-operator.v0.2.0", "lagoon-operator.v0.1.0"]
    rows, omitted = fit_table(table, 110, ("IMAGE",))
    assert omitted == []
    assert widest([list(row) for row in rows]) == 110
    assert rows[1][-1].startswith("…")
    assert rows[1][-1].endswith("-operator-bundle@sha256:0123456…")


def test_images_keep_the_end_of_their_name_and_the_start_of_their_digest() -> None:
    image = shorten_digests(f"registry.redhat.io/rhacm2/multiclusterhub-rhel9-operator@{DIGEST}")
    assert shorten(image, 64) == "registry.redha…lticlusterhub-rhel9-operator@sha256:0123456789ab…"
    assert shorten(image, 40) == "…usterhub-rhel9-operator@sha256:0123456…"
    assert shorten(f"a@{DIGEST[:19]}…", 22) == "a@sha256:0123456789ab…"


def test_plans_of_mirrors_keep_the_source() -> None:
    source = f"registry.redhat.io/rhacm2/multiclusterhub-rhel9-operator@{DIGEST}"
    row = (source, "412.3 MB", "98.1 MB", "registry.example.com/mirror/rhacm2/multiclusterhub-rhel9-operator:0123")
    rows, omitted = fit_table([("SOURCE", "SIZE", "TO TRANSFER", "TARGET"), row], 80, ("TARGET",))
    assert omitted == ["TARGET"]
    assert rows[1][0].endswith("hub-rhel9-operator@sha256:0123456789ab…")


def test_very_narrow_terminals_keep_a_part_of_each_column() -> None:
    rows, _ = fit_table([("A", "B"), ("a" * 50, "b" * 50)], 5)
    assert rows[1] == ["aa…aaaaa", "bb…bbbbb"]


def write_catalog(directory: Path) -> Path:
    catalog = directory / "catalog"
    catalog.mkdir()
    names = [f"lagoon-operator.v0.{minor}.0" for minor in range(1, 4)]
    entries = [{"name": name, "replaces": before} for before, name in pairwise(names)]
    documents = [
        {"schema": "olm.package", "name": "lagoon-operator", "defaultChannel": "stable"},
        {
            "schema": "olm.channel",
            "name": "stable",
            "package": "lagoon-operator",
            "entries": [{"name": names[0]}, *entries],
        },
        *(
            {
                "schema": "olm.bundle",
                "name": name,
                "package": "lagoon-operator",
                "image": IMAGE,
                "properties": [
                    {"type": "olm.package", "value": {"packageName": "lagoon-operator", "version": name[-5:]}}
                ],
            }
            for name in names
        ),
    ]
    (catalog / "catalog.json").write_text("\n".join(map(json.dumps, documents)))
    return catalog


@pytest.mark.slow
def test_lists_fit_a_terminal_and_are_complete_in_pipes(tmp_path: Path) -> None:
    command = ("alpha", "list", "bundles", str(write_catalog(tmp_path)))
    screen = run_on_terminal(*command, columns=80)
    assert screen.status == 0
    note, header, *rows = screen.lines
    assert note == "Columns that do not fit the terminal: IMAGE"
    assert header.split() == ["PACKAGE", "CHANNEL", "BUNDLE", "REPLACES"]
    assert "lagoon-operator.v0.3.0  lagoon-operator.v0.2.0" in screen.output
    assert max(map(len, rows)) <= 80

    piped = subprocess.run([PROGRAM, *command], capture_output=True, text=True, check=True)
    assert piped.stdout.splitlines()[0].split("  ")[-1] == "IMAGE"
    assert piped.stdout.count(IMAGE) == 3
    assert piped.stderr == ""


@pytest.mark.slow
def test_images_fit_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPM_STORE", str(tmp_path / "store"))
    name = "registry.example.com/harbor-team/operators/catalog:v4.17"
    assert run(["index", "add", "-b", "", "-i", "scratch", "-t", name]) == 0
    screen = run_on_terminal("image", "ls", columns=80)
    assert screen.status == 0
    note, header, row = screen.lines
    assert note.startswith("Columns that do not fit the terminal: CREATED")
    assert header.split()[:3] == ["NAME", "DIGEST", "SIZE"]
    assert max(len(header), len(row)) <= 80
    assert row.split()[0].endswith("catalog:v4.17")


@pytest.mark.slow
def test_differences_fit_a_terminal(tmp_path: Path) -> None:
    catalog = write_catalog(tmp_path)
    changed = tmp_path / "changed"
    changed.mkdir()
    text = (catalog / "catalog.json").read_text()
    changed_digest = DIGEST.replace("0", "f")
    (changed / "catalog.json").write_text(text.replace(DIGEST, changed_digest))
    arguments = ("index", "diff", str(catalog), str(changed))
    screen = run_on_terminal(*arguments, columns=80)
    assert screen.status == 0
    assert "@sha256:f123456789ab…" in screen.output
    assert changed_digest not in screen.output
    assert max(map(len, screen.lines)) <= 80
    piped = Opm(tmp_path).here(*arguments)
    assert changed_digest in piped
    assert len(piped.splitlines()) == 4


def write_long_names(directory: Path) -> None:
    """Write a catalog in which each name is as long as in large public catalogs."""
    package, channel = "advanced-cluster-management-operator", "release-2.11-candidate-eus"
    names = [f"{package}.v2.{minor}.0-20240101.{minor}" for minor in (10, 11)]
    catalog = directory / "catalog"
    catalog.mkdir()
    entries = [
        {"name": names[0]},
        {"name": names[1], "replaces": names[0], "skips": [names[0]], "skipRange": "<2.11.0"},
    ]
    bundles = [
        {
            "schema": "olm.bundle",
            "name": name,
            "package": package,
            "image": IMAGE,
            "properties": [
                {"type": "olm.package", "value": {"packageName": package, "version": f"2.{minor}.0"}},
            ],
        }
        for minor, name in enumerate(names, 10)
    ]
    documents = [
        {"schema": "olm.package", "name": package, "defaultChannel": channel},
        {"schema": "olm.channel", "name": channel, "package": package, "entries": entries},
        *bundles,
    ]
    (catalog / "catalog.json").write_text("\n".join(map(json.dumps, documents)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "columns"),
    [
        ("alpha list packages catalog", ["NAME", "DISPLAY NAME", "DEFAULT CHANNEL"]),
        ("alpha list channels catalog", ["PACKAGE", "CHANNEL", "HEAD"]),
        ("alpha list bundles catalog", ["CHANNEL", "BUNDLE", "REPLACES"]),
        ("index images catalog", ["IMAGE", "KIND", "NEEDED BY"]),
        ("bundle rules", ["RULE", "SEVERITY", "SUMMARY"]),
    ],
)
def test_long_names_remain_readable_at_80_columns(
    command: str, columns: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_long_names(tmp_path)
    env = {"OPM_STORE": str(tmp_path / "store")}
    screen = run_on_terminal(*command.split(), "--progress", "none", columns=80, directory=tmp_path, env=env)
    assert screen.status == 0, screen.output
    assert max(map(len, screen.lines)) <= 80
    header = next(line for line in screen.lines if line.startswith(columns[0]))
    assert re.split(" {2,}", header.strip()) == columns
    cells = [cell for row in screen.lines[screen.lines.index(header) + 1 :] for cell in row.split("  ") if "…" in cell]
    assert min(map(len, cells), default=24) >= 24
    monkeypatch.chdir(tmp_path)
    assert "…" not in Opm(tmp_path).here(*command.split())
