"""Dry runs, combined updates and differences of indexes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.kit.opm import Opm

FIRST, SECOND, THIRD = (f"oci:images/lagoon-operator:{version}" for version in ("0.1.0", "0.2.0", "0.3.0"))


@pytest.fixture
def built(opm: Opm) -> Opm:
    """Return the command in a directory with three bundles, and an index image and a database of the first two."""
    for reference in (FIRST, SECOND, THIRD):
        opm.build_bundle(reference.rpartition(":")[2], reference)
    opm("index", "add", "-b", f"{FIRST},{SECOND}", "-i", "scratch", "-t", "oci:images/catalog:1")
    opm("registry", "add", "-b", f"{FIRST},{SECOND}", "-d", "index.db")
    return opm


def changed(opm: Opm, *argv: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(opm(*argv, "--output", "json"))
    return result


@pytest.mark.parametrize(
    "argv",
    [
        ("registry", "add", "-d", "index.db", "-b", THIRD),
        ("registry", "rm", "-d", "index.db", "-o", "lagoon-operator"),
        ("registry", "prune", "-d", "index.db", "-p", ""),
        ("registry", "deprecatetruncate", "-d", "index.db", "-b", FIRST),
        ("index", "add", "-f", "oci:images/catalog:1", "-b", THIRD, "-t", "oci:images/catalog:2"),
        ("index", "rm", "-f", "oci:images/catalog:1", "-o", "lagoon-operator", "-t", "oci:images/catalog:2"),
        ("index", "prune", "-f", "oci:images/catalog:1", "-p", "", "-t", "oci:images/catalog:2"),
        ("index", "deprecatetruncate", "-f", "oci:images/catalog:1", "-b", FIRST, "-t", "oci:images/catalog:2"),
        ("index", "update", "-f", "oci:images/catalog:1", "--add", THIRD, "-t", "oci:images/catalog:2"),
    ],
    ids=lambda argv: " ".join(argv[:2]),
)
def test_dry_run_reports_the_change_and_leaves_the_index_unchanged(built: Opm, argv: tuple[str, ...]) -> None:
    database = (built.directory / "index.db").read_bytes()
    layout = (built.directory / "images" / "catalog" / "index.json").read_bytes()
    dry = changed(built, *argv, "--dry-run")
    output = built(*argv, "--dry-run")
    assert (built.directory / "index.db").read_bytes() == database
    assert (built.directory / "images" / "catalog" / "index.json").read_bytes() == layout
    assert dry["packages"][0]["name"] == "lagoon-operator"
    assert "package lagoon-operator" in output
    real = changed(built, *argv)
    assert (real["packages"], real["stranded"]) == (dry["packages"], dry["stranded"])


def test_dry_run_of_add_reports_added_bundles(built: Opm) -> None:
    (package,) = changed(built, "registry", "add", "-d", "index.db", "-b", THIRD)["packages"]
    assert package["kind"] == "changed"
    assert {
        channel["name"]: (channel["head_before"], channel["head_after"]) for channel in package["channels"]
    } == dict.fromkeys(("alpha", "stable"), ("lagoon-operator.v0.2.0", "lagoon-operator.v0.3.0"))
    (bundle,) = package["bundles"]
    assert (bundle["kind"], bundle["name"], bundle["image"]) == ("added", "lagoon-operator.v0.3.0", THIRD)


def test_present_bundles_are_skipped_by_digest_in_any_repository(built: Opm) -> None:
    built("image", "copy", SECOND, "oci:elsewhere/copy:x")
    result = changed(
        built, "registry", "add", "-d", "index.db", "-b", f"oci:elsewhere/copy:x,{THIRD}", "--skip-present"
    )
    assert result["skipped"] == ["oci:elsewhere/copy:x"]
    assert [bundle["name"] for bundle in result["packages"][0]["bundles"]] == ["lagoon-operator.v0.3.0"]
    again = built.attempt("registry", "add", "-d", "index.db", "-b", THIRD, "--skip-present")
    assert again.returncode == 0
    assert "skipped" in again.stderr
    assert built.attempt("registry", "add", "-d", "index.db", "-b", THIRD).returncode == 2


def test_bundle_with_the_same_name_and_another_image_is_not_skipped(built: Opm) -> None:
    built.build_bundle("0.2.0", "oci:images/other:1", "--default", "alpha", "--overwrite")
    done = built.attempt("registry", "add", "-d", "index.db", "-b", "oci:images/other:1", "--skip-present")
    assert done.returncode == 3


def test_update_makes_all_changes_and_writes_additional_tags(built: Opm) -> None:
    built(
        *("index", "update", "--add", THIRD, "--deprecate", SECOND, "-f", "oci:images/catalog:1"),
        *("-t", "oci:images/catalog:2", "--also-tag", "oci:images/catalog:latest,oci:copies/catalog:2"),
    )
    rows = json.loads(built("alpha", "list", "bundles", "oci:images/catalog:2", "-o", "json"))
    assert {row["bundle"] for row in rows} == {"lagoon-operator.v0.3.0"}
    for other in ("oci:images/catalog:latest", "oci:copies/catalog:2"):
        assert built("index", "diff", "oci:images/catalog:2", other).strip() == "no difference"


def test_failed_tag_leaves_the_other_tags_unchanged(built: Opm) -> None:
    (built.directory / "file").touch()
    before = built("image", "inspect", "oci:images/catalog:1")
    place = ("-f", "oci:images/catalog:1", "-t", "oci:images/catalog:1", "--also-tag", "oci:file/below:1")
    done = built.attempt("index", "update", "--add", THIRD, *place)
    assert done.returncode == 1
    assert "file" in done.stderr
    assert built("image", "inspect", "oci:images/catalog:1") == before


def test_update_with_a_failing_change_makes_no_change(built: Opm) -> None:
    before = (built.directory / "images" / "catalog" / "index.json").read_bytes()
    argv = (
        "index",
        "update",
        "--add",
        THIRD,
        "--rm",
        "unknown",
        "-f",
        "oci:images/catalog:1",
        "-t",
        "oci:images/catalog:2",
    )
    done = built.attempt(*argv)
    assert done.returncode == 1
    assert "unknown" in done.stderr
    assert (built.directory / "images" / "catalog" / "index.json").read_bytes() == before


def test_update_without_a_change_is_an_error(built: Opm) -> None:
    done = built.attempt("index", "update", "-f", "oci:images/catalog:1", "-t", "oci:images/catalog:2")
    assert done.returncode == 1
    assert "--add, --rm, --prune-to or --deprecate" in done.stderr


def test_diff_of_images_and_databases_in_three_formats(built: Opm) -> None:
    built("registry", "add", "-b", THIRD, "-d", "index.db")
    assert built("index", "diff", "oci:images/catalog:1", "index.db").splitlines() == [
        "~ package lagoon-operator",
        "  ~ channel alpha: head lagoon-operator.v0.2.0 -> lagoon-operator.v0.3.0; in: lagoon-operator.v0.3.0",
        "  ~ channel stable: head lagoon-operator.v0.2.0 -> lagoon-operator.v0.3.0; in: lagoon-operator.v0.3.0",
        f"  + bundle lagoon-operator.v0.3.0 0.3.0 {THIRD}",
    ]
    parsed = json.loads(built("index", "diff", "index.db", "oci:images/catalog:1", "-o", "json"))
    assert parsed["packages"][0]["bundles"][0]["kind"] == "removed"
    markdown = built("index", "diff", "oci:images/catalog:1", "index.db", "-o", "markdown")
    assert markdown.startswith("### Package `lagoon-operator` changed\n")
    assert f"| `lagoon-operator.v0.3.0` | added | `0.3.0` | `{THIRD}` |" in markdown


def test_diff_fails_on_selected_kinds(built: Opm) -> None:
    built("registry", "add", "-b", THIRD, "-d", "index.db")
    pair = ("oci:images/catalog:1", "index.db")
    assert built("index", "diff", *pair, "--fail-on", "removed") == built("index", "diff", *pair)
    done = built.attempt("index", "diff", *pair, "--fail-on", "removed,changed-head", "--fail-on", "added-bundle")
    assert (done.returncode, done.stdout) == (1, built("index", "diff", *pair))
    package = "lagoon-operator"
    assert done.stderr.splitlines() == [
        *(
            f'changed head: package "{package}", channel "{name}": {package}.v0.2.0 -> {package}.v0.3.0'
            for name in ("alpha", "stable")
        ),
        'added bundle: package "lagoon-operator", bundle "lagoon-operator.v0.3.0"',
        "Error: 3 differences of the kinds removed, changed-head, added-bundle",
    ]
    done = built.attempt("index", "diff", *pair, "--fail-on", "added-bundle", "-o", "json")
    report = json.loads(done.stdout)
    assert (report["passed"], report["fail_on"]) == (False, ["added-bundle"])
    (failure,) = report["failures"]
    assert (done.returncode, failure["kind"], failure["bundle"]) == (1, "added-bundle", "lagoon-operator.v0.3.0")
    report = json.loads(built("index", "diff", *pair, "--fail-on", "removed", "-o", "json"))
    assert (report["passed"], report["failures"]) == (True, [])
    markdown = built.attempt("index", "diff", *pair, "--fail-on", "added-bundle", "-o", "markdown").stdout
    assert markdown.splitlines()[:6] == [
        "### Gate failed: 1 difference of the kinds `added-bundle`",
        "",
        "| Difference | Package | Channel | Bundle | Details |",
        "|---|---|---|---|---|",
        f"| added bundle | `{package}` |  | `{package}.v0.3.0` |  |",
        "",
    ]
    assert markdown.endswith(built("index", "diff", *pair, "-o", "markdown"))
    markdown = built("index", "diff", *pair, "--fail-on", "removed", "-o", "markdown")
    assert markdown.startswith("### Gate passed\n\nNo difference of the kinds `removed`.\n\n### Package")
    done = built.attempt("index", "diff", *pair, "--fail-on", "deleted")
    assert done.returncode == 1
    assert 'invalid value of --fail-on: unknown kind "deleted": expected added, removed' in done.stderr


def test_databases_are_compared_with_published_indexes(built: Opm) -> None:
    built("registry", "add", "-b", THIRD, "-d", "index.db")
    assert ": error: " not in built.attempt("validate", "index.db", "--against", "oci:images/catalog:1").stderr
    done = built.attempt("validate", "oci:images/catalog:1", "--against", "index.db", "-o", "json")
    findings = [finding for finding in json.loads(done.stdout)["findings"] if finding["severity"] == "error"]
    assert done.returncode == 1
    for channel in ("alpha", "stable"):
        assert [(one["bundle"], one["message"]) for one in findings if one["channel"] == channel] == [
            ("lagoon-operator.v0.3.0", "the published bundle was removed from the channel"),
            ("lagoon-operator.v0.2.0", "the head moved back from the published head lagoon-operator.v0.3.0"),
            (
                "lagoon-operator.v0.3.0",
                "the published upgrade path ends: lagoon-operator.v0.2.0 cannot be reached from this bundle",
            ),
        ]


def test_json_output_reports_unknown_packages_as_other_errors(built: Opm) -> None:
    done = built.attempt("registry", "rm", "-d", "index.db", "-o", "nothing", "--output", "json")
    assert done.returncode == 1
    assert "level=fatal" not in done.stderr
    assert "error removing operator package nothing" in done.stderr


@pytest.mark.parametrize("command", ["rm -o x", "prune -p x", "prune-stranded", "deprecatetruncate -b x:1"])
def test_removal_commands_do_not_create_a_database(opm: Opm, command: str) -> None:
    done = opm.attempt("registry", *command.split(), "-d", "missing.db")
    assert done.returncode == 1
    assert "missing.db" in done.stderr
    assert list(opm.directory.glob("*")) == []
