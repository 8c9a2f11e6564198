"""``opm template promote`` for repositories of operators."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.index.templates.repository.test_promotion import CI, add_operator

if TYPE_CHECKING:
    from tests.kit.opm import Opm

VERSIONS = ("--from", "v4.20", "--to", "v4.21")


@pytest.fixture
def repository(opm: Opm) -> Opm:
    """Return the command in a repository with three operators."""
    add_operator(opm.directory, "reef")
    add_operator(opm.directory, "lagoon", f"{CI}  version_promotion_strategy: always\n", last="4.20")
    add_operator(opm.directory, "tide", f"{CI}  version_promotion_strategy: never\n")
    return opm


def test_a_repository(repository: Opm) -> None:
    checked = repository.attempt("template", "promote", ".", *VERSIONS, "--check")
    assert checked.returncode == 1
    assert checked.stderr == "2 operators would be promoted to 4.21\n"
    assert not (repository.directory / "catalogs/v4.21").exists()
    done = repository.attempt("template", "promote", ".", *VERSIONS)
    assert (done.returncode, done.stderr) == (0, "2 operators promoted to 4.21\n")
    rows = [line.split(maxsplit=3) for line in done.stdout.splitlines()]
    assert rows[0] == ["OPERATOR", "STRATEGY", "STATUS", "PROBLEMS"]
    assert [row[:3] for row in rows[1:]] == [
        ["lagoon", "always", "promoted"],
        ["reef", "review-needed", "promoted"],
        ["tide", "never", "excluded"],
    ]
    assert "works up to OpenShift 4.20" in rows[1][3]
    assert repository.attempt("template", "promote", ".", *VERSIONS, "--check").returncode == 0


def test_one_operator_as_json(repository: Opm) -> None:
    result = json.loads(repository("template", "promote", "operators/lagoon", *VERSIONS, "-o", "json", "--dry-run"))
    (operator,) = result["operators"]
    assert (result["source"], result["target"], operator["name"]) == ("4.20", "4.21", "lagoon")
    assert operator["files"] == ["catalogs/v4.21/lagoon/catalog.json", "operators/lagoon/ci.yaml"]
    assert operator["plan"]["steps"][0]["kind"] == "blocked"


def test_an_operator_that_fails(repository: Opm) -> None:
    (repository.directory / "operators/reef/ci.yaml").write_text("\x1b[31m: [")
    done = repository.attempt("template", "promote", ".", *VERSIONS, "--strategy", "review-needed")
    assert done.returncode == 1
    assert done.stderr == "0 operators promoted to 4.21\nError: 1 operator not promoted\n"
    assert "\x1b" not in done.stdout
    assert "ci.yaml:1" in done.stdout


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ((".", "--to", "v4.21"), "a directory requires --from and --to with a version each"),
        ((".", "--from", "v4.20", "--to", "v4.21,v4.22"), "a directory requires --from and --to"),
        ((".", "--from", "stable", "--to", "v4.21"), "invalid version of OpenShift"),
        ((".", *VERSIONS, "--create-channel"), "--create-channel requires a template and a bundle"),
        ((".", *VERSIONS, "--strategy", "soon"), "unknown strategy 'soon'"),
        ((".", *VERSIONS, "--operator", "reff"), "operator 'reff' has no catalog"),
        (("absent.yaml", *VERSIONS), "missing argument BUNDLE"),
        (("absent.yaml", "reef.v1.0.0", *VERSIONS, "--strategy", "always"), "--strategy requires a directory"),
        (("operators", *VERSIONS), "no such directory"),
    ],
)
def test_flags_that_do_not_fit(repository: Opm, flags: tuple[str, ...], message: str) -> None:
    done = repository.attempt("template", "promote", *flags)
    assert (done.returncode, done.stdout) == (1, "")
    assert message in done.stderr
    assert not (repository.directory / "catalogs/v4.21").exists()
