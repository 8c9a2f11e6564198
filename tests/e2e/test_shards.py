"""``--shard`` and ``opm report merge``: the parts of a run together are the whole."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.kit.bundles import bundle_content

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.opm import Opm

SHARDS = 3
POLICY = (
    "severity: {MINKUBE-MISSING: error}\nignore: [{rule: MINKUBE-MISSING, bundle: lagoon-1, reason: none needed}]\n"
)


@pytest.fixture
def targets(opm: Opm) -> list[str]:
    """Write bundles, two of which have the same name, an unreadable one and a policy; return their names."""
    for patch in range(6):
        files = bundle_content("lagoon", f"0.1.{patch}")
        directories = [f"lagoon-{patch}"] + [f"lagoon-{patch}-again"] * (patch == 5)
        for directory in directories:
            for name, raw in files.items():
                path = opm.directory / directory / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(raw + (b"# changed\n" if directory.endswith("again") else b""))
    (opm.directory / "empty").mkdir()
    (opm.directory / ".opm-validate.yaml").write_text(POLICY)
    (opm.directory / "list").write_text("\n".join([*(f"lagoon-{patch}" for patch in range(6)), "lagoon-5-again"]))
    return ["@list", "empty"]


def write_shards(opm: Opm, targets: list[str], form: str) -> list[str]:
    names = []
    for index in range(1, SHARDS + 1):
        done = opm.attempt("bundle", "validate", *targets, "--output", form, "--shard", f"{index}/{SHARDS}")
        assert done.returncode in (0, 1), done.stderr
        (opm.directory / f"{index}.{form}").write_text(done.stdout)
        names.append(f"{index}.{form}")
    return names


@pytest.mark.parametrize("form", ["json", "sarif", "junit"])
def test_merged_reports_equal_that_of_one_process(opm: Opm, targets: list[str], form: str) -> None:
    names = write_shards(opm, targets, form)
    merged = opm.attempt("report", "merge", *names[::-1])
    whole = opm.attempt("bundle", "validate", *targets, "--output", form)
    assert "ACROSS-" in whole.stdout
    assert (merged.stdout, merged.stderr, merged.returncode) == (whole.stdout, whole.stderr, 1)


def test_shards_are_disjoint_and_complete(opm: Opm, targets: list[str]) -> None:
    reports = [json.loads((opm.directory / name).read_text()) for name in write_shards(opm, targets, "json")]
    found = [bundle["target"] for report in reports for bundle in report["bundles"]]
    assert sorted(found) == sorted([*(opm.directory / "list").read_text().split(), "empty"])
    again = json.loads(opm.attempt("bundle", "validate", "lagoon-3", "--output", "json", "--shard", "1/3").stdout)
    assert [bundle["target"] for bundle in again["bundles"]] == ["lagoon-3"] * (
        "lagoon-3" in [bundle["target"] for bundle in reports[0]["bundles"]]
    )


def test_merged_report_in_another_format(opm: Opm, targets: list[str]) -> None:
    names = write_shards(opm, targets, "json")
    whole = opm.attempt("bundle", "validate", *targets)
    assert opm.attempt("report", "merge", *names, "--output", "text").stdout == whole.stdout


def test_reports_that_do_not_belong_together_are_rejected(opm: Opm, targets: list[str], tmp_path: Path) -> None:
    names = write_shards(opm, targets, "json")
    expected = {
        (names[0], names[2]): "Error: reports of shards not found: 2/3\n",
        (names[0], names[0]): "Error: 1.json: shard 1/3 is already in 1.json\n",
        ("list",): "Error: list: not the report of a shard\n",
    }
    for given, error in expected.items():
        done = opm.attempt("report", "merge", *given)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(error)
        assert "\n  hint: " in done.stderr
    other = opm.attempt("bundle", "validate", "lagoon-1", "--output", "json", "--shard", "2/3").stdout
    (opm.directory / "other.json").write_text(other)
    assert "had other targets" in opm.attempt("report", "merge", names[0], "other.json", names[2]).stderr
    strict = opm.attempt("bundle", "validate", *targets, "--output", "json", "--shard", "2/3", "--fail-on", "warning")
    (opm.directory / "strict.json").write_text(strict.stdout)
    assert "had other flags" in opm.attempt("report", "merge", names[0], "strict.json", names[2]).stderr


@pytest.mark.parametrize("shard", ["0/3", "4/3", "1", "one/two"])
def test_invalid_shard(opm: Opm, targets: list[str], shard: str) -> None:
    done = opm.attempt("bundle", "validate", *targets, "--shard", shard)
    assert done.stderr.startswith(f"Error: invalid shard {shard!r}\n  hint: write K/N")
    assert done.returncode == 1


def test_shards_of_a_catalog(opm: Opm, targets: list[str]) -> None:
    (opm.directory / "shards").mkdir()
    template = ("--alpha-image-ref-template", "example.com/{{.Package}}:v{{.Version}}")
    (opm.directory / "list").write_text("\n".join(f"lagoon-{patch}  # a bundle" for patch in range(6)))
    parts = [opm("render", "@list", *template, "--shard", f"{index}/2") for index in (1, 2)]
    for index, part in enumerate(parts):
        assert part
        (opm.directory / "shards" / f"{index}.json").write_text(part)
    assert opm("render", "shards") == opm("render", "@list", *template)
