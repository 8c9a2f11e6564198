"""Tables on terminals and in pipes."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import termios
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from opmkit.cli.output.shortening import shorten, shorten_digests
from opmkit.cli.output.tables import fit_table
from opmkit.cli.output.terminal import fit_line, wrap
from tests.kit.opm import PROGRAM, Opm, run
from tests.kit.screen import run_on_terminal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import TextIO

DIGEST = "sha256:" + "0123456789abcdef" * 4
IMAGE = f"quay.io/harbor-team/lagoon-operator-bundle@{DIGEST}"
HEADER = ("PACKAGE", "CHANNEL", "BUNDLE", "REPLACES", "SKIPS", "SKIP RANGE", "IMAGE")


def test_tables_that_fit_are_unchanged() -> None:
    assert fit_table([("NAME", "DIGEST"), ("a", DIGEST)], 77, ("DIGEST",)) == (["NAME  DIGEST", f"a     {DIGEST}"], [])


def test_digests_are_shortened_and_empty_columns_omitted_before_anything_else() -> None:
    lines, omitted = fit_table([("NAME", "DIGEST", "EMPTY"), ("a", DIGEST, "")], 76, ("NAME",))
    assert lines == ["NAME  DIGEST", "a     sha256:0123456789ab…"]
    assert omitted == []


def test_texts_are_wrapped_between_words_and_elements_of_lists() -> None:
    row = ("a.v1", "gone: the channel has extra bundles; keep the package", "get,list,watch,create,update")
    lines, omitted = fit_table([("NAME", "RESULT", "VERBS"), row], 40)
    assert lines == [
        "NAME  RESULT            VERBS",
        "a.v1  gone: the         get,list,watch,",
        "      channel has       create,update",
        "      extra bundles;",
        "      keep the package",
    ]
    assert omitted == []


def test_columns_of_dashes_are_omitted_first() -> None:
    table = [("OPENSHIFT", "NEEDED", "SUPPORTED UNTIL", "RESULT"), ("4.18", "-", "-", "ok"), ("4.19", "1.0", "-", "ok")]
    assert fit_table(table, 30) == (["OPENSHIFT  NEEDED  RESULT", "4.18       -       ok", "4.19       1.0     ok"], [])


def test_less_important_columns_are_omitted_before_texts_become_narrow() -> None:
    text = "one two three four five six seven eight nine ten"
    lines, omitted = fit_table([("NAME", "TEXT", "MORE"), ("a" * 20, text, "b" * 20)], 60, ("MORE",))
    assert omitted == ["MORE"]
    assert lines[1:] == [f"{'a' * 20}  one two three four five six seven", f"{' ' * 22}eight nine ten"]


def test_names_are_never_shortened_or_broken() -> None:
    row = ("lagoon-operator", "alpha", "lagoon-operator.v0.2.0", "lagoon-operator.v0.1.0", "", "", IMAGE)
    lines, omitted = fit_table([HEADER, row], 80, ("IMAGE",))
    assert omitted == ["IMAGE"]
    assert lines[1].split() == ["lagoon-operator", "alpha", "lagoon-operator.v0.2.0", "lagoon-operator.v0.1.0"]
    lines, omitted = fit_table([("IMAGE", "NEEDED BY", "EMPTY"), (IMAGE, "a.v1", ""), ("b", "c, d", "")], 80)
    assert lines == [f"IMAGE:      {IMAGE}", "NEEDED BY:  a.v1", "", "IMAGE:      b", "NEEDED BY:  c, d"]
    assert omitted == []


def test_columns_count_wide_characters_twice() -> None:
    lines, _ = fit_table([("NAME", "TEXT"), ("礁湖", "one two")], 14)
    assert lines == ["NAME  TEXT", "礁湖  one two"]
    assert list(wrap(["礁湖", " 礁湖"], 8)) == ["礁湖", "礁湖"]


def test_lines_are_wrapped_between_words(terminal: TextIO) -> None:
    assert fit_line("a line that fits", terminal) == "a line that fits"
    name = "registry.example.com/harbor-team/lagoon-operator@sha256:0123"
    assert fit_line(f"Error: {name}: not found in the registry", terminal).splitlines() == [
        "Error:",
        f"    {name}:",
        "    not found in the registry",
    ]
    assert fit_line("Name:   one two three four five six seven", terminal, 8).splitlines() == [
        "Name:   one two three four five six",
        "        seven",
    ]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[TextIO]:
    """Open a terminal of 40 columns."""
    monkeypatch.delenv("COLUMNS", raising=False)
    leader, follower = pty.openpty()
    termios.tcsetwinsize(follower, (24, 40))
    with os.fdopen(follower, "w", encoding="utf-8") as stream:
        yield stream
    os.close(leader)


def test_labels_keep_the_end_of_their_name_and_the_start_of_their_digest() -> None:
    assert shorten_digests(f"{IMAGE} sha256:0123") == (
        "quay.io/harbor-team/lagoon-operator-bundle@sha256:0123456789ab… sha256:0123"
    )
    image = shorten_digests(f"registry.redhat.io/rhacm2/multiclusterhub-rhel9-operator@{DIGEST}")
    assert shorten(image, 64) == "registry.redha…lticlusterhub-rhel9-operator@sha256:0123456789ab…"
    assert shorten(image, 40) == "…usterhub-rhel9-operator@sha256:0123456…"
    assert shorten(f"a@{DIGEST[:19]}…", 22) == "a@sha256:0123456789ab…"


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
    header, *rows, note = screen.lines
    assert note == "not shown: IMAGE; '--output wide' shows all columns"
    assert header.split() == ["PACKAGE", "CHANNEL", "BUNDLE", "REPLACES"]
    assert "lagoon-operator.v0.3.0  lagoon-operator.v0.2.0" in screen.output
    assert max(map(len, rows)) <= 80

    piped = subprocess.run([PROGRAM, *command], capture_output=True, text=True, check=True)
    assert piped.stdout.splitlines()[0].split("  ")[-1] == "IMAGE"
    assert piped.stdout.count(IMAGE) == 3
    assert piped.stderr == ""
    assert run_on_terminal(*command, "-o", "wide", columns=80).text == piped.stdout


@pytest.mark.slow
def test_images_fit_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPM_STORE", str(tmp_path / "store"))
    name = "registry.example.com/harbor-team/catalog:v4.17"
    assert run(["index", "add", "-b", "", "-i", "scratch", "-t", name]) == 0
    screen = run_on_terminal("image", "ls", columns=80)
    assert screen.status == 0
    header, row, note = screen.lines
    assert note == "not shown: CREATED, PLATFORMS; '--output wide' shows all columns"
    assert header.split() == ["NAME", "DIGEST", "SIZE"]
    assert max(len(header), len(row)) <= 80
    assert row.split()[0] == name
    wide = run_on_terminal("image", "ls", "--output", "wide", columns=80).lines
    assert wide[0].split() == ["NAME", "DIGEST", "SIZE", "CREATED", "PLATFORMS"]
    assert "…" not in wide[1]


@pytest.mark.slow
def test_differences_fit_a_terminal(tmp_path: Path) -> None:
    catalog = write_catalog(tmp_path)
    changed = tmp_path / "changed"
    changed.mkdir()
    text = (catalog / "catalog.json").read_text()
    changed_digest = DIGEST.replace("0", "f")
    (changed / "catalog.json").write_text(text.replace(DIGEST, changed_digest))
    arguments = ("index", "diff", str(catalog), str(changed))
    screen = run_on_terminal(*arguments, "--progress", "none", columns=80)
    assert screen.status == 0
    assert screen.lines[1:3] == [
        "  ~ bundle lagoon-operator.v0.1.0 0.1.0",
        f"      quay.io/harbor-team/lagoon-operator-bundle@{changed_digest}",
    ]
    piped = Opm(tmp_path).here(*arguments)
    assert changed_digest in piped
    assert len(piped.splitlines()) == 1 + 2 * 3


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
        ("alpha list channels catalog", ["PACKAGE:", "CHANNEL:", "HEAD:"]),
        ("alpha list bundles catalog", ["PACKAGE:", "CHANNEL:", "BUNDLE:", "IMAGE:"]),
        ("index images catalog", ["IMAGE:", "KIND:", "PACKAGE:", "NEEDED BY:"]),
        ("bundle rules", ["RULE", "SEVERITY", "SUMMARY"]),
    ],
)
def test_long_names_are_complete_at_80_columns(
    command: str, columns: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names that people copy are never shortened; tables that are too wide nevertheless have a line for each cell."""
    write_long_names(tmp_path)
    env = {"OPM_STORE": str(tmp_path / "store")}
    screen = run_on_terminal(*command.split(), "--progress", "none", columns=80, directory=tmp_path, env=env)
    assert screen.status == 0, screen.output
    assert [line for line in screen.lines if len(line) > 80 and len(line.split()) > 2] == []
    assert "…" not in screen.output
    if columns[0].endswith(":"):
        first = screen.text.split("\n\n")[0]
        assert [re.split("  +", line)[0] for line in first.strip().splitlines()] == columns
    else:
        assert re.split(" {2,}", screen.lines[0].strip()) == columns
    monkeypatch.chdir(tmp_path)
    piped = Opm(tmp_path).here(*command.split())
    assert {name for name in piped.split() if name.startswith(("advanced", "quay.io"))} <= set(screen.output.split())
