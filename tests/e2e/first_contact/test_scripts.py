"""What scripts pass without intent, or as shells do: empty variables, pipes, and paths of any place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest


if TYPE_CHECKING:
    from tests.kit.installed import InstalledOpm

CATALOG = "---\nschema: olm.package\nname: tide\ndefaultChannel: stable\n---\n"
CATALOG += "schema: olm.channel\npackage: tide\nname: stable\nentries: [{name: tide.v1}]\n---\n"
CATALOG += "schema: olm.bundle\npackage: tide\nname: tide.v1\nimage: example.com/tide:1\n"
CATALOG += 'properties: [{type: olm.package, value: {packageName: tide, version: "1.0.0"}}]\n'


@pytest.fixture
def user(newcomer: InstalledOpm) -> InstalledOpm:
    """Return a user whose working directory is a valid catalog."""
    (newcomer.directory / "catalog.yaml").write_text(CATALOG)
    return newcomer


@pytest.mark.parametrize(
    ("line", "argument"),
    [
        ("validate %", "argument CATALOG"),
        ("render %", "argument REF"),
        ("render index.db %", "argument REF"),
        ("alpha list packages %", "argument INDEX"),
        ("alpha list bundles % tide", "argument INDEX"),
        ("alpha render-template basic %", "argument FILE"),
        ("alpha convert-template basic %", "argument FILE"),
        ("migrate % out", "argument INDEX"),
        ("migrate . %", "argument DIR"),
        ("serve % --cache-only --cache-dir cache", "argument SOURCE"),
        ("index diff . %", "argument B"),
        ("index images %", "argument INDEX"),
        ("bundle validate %", "argument TARGET"),
        ("bundle validate -- %", "argument TARGET"),
        ("operator-sdk bundle validate %", "argument TARGET"),
        ("index export -i % -p tide", "value of -i"),
    ],
)
def test_an_empty_variable_is_not_the_working_directory(user: InstalledOpm, line: str, argument: str) -> None:
    done = user.attempt(*("" if word == "%" else word for word in line.split()))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Error: empty {argument}\n"), done.stderr
    assert "check whether a variable is unset" in done.stderr


def test_an_empty_name_of_a_package_means_all_of_them(user: InstalledOpm) -> None:
    assert "tide.v1" in user("alpha", "list", "bundles", ".", "")
