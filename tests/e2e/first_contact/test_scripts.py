"""What scripts pass without intent, or as shells do: empty variables, pipes, and paths of any place."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kit.opm import LAGOON

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
        ("index diff . %", "argument NEW"),
        ("index images %", "argument INDEX"),
        ("index merge . %", "argument INDEX"),
        ("index plan old=. new= --installed tide.v1", "argument [NAME=]INDEX"),
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


@pytest.fixture
def indexed(user: InstalledOpm) -> InstalledOpm:
    """Return a user with an index database, ``old.db``."""
    user("registry", "add", "-d", "old.db", "-b", f"{LAGOON / '0.1.0'}=quay.io/me/lagoon:0.1.0")
    return user


GENERATE = ("index", "rm", "-f", "old.db", "-o", "lagoon-operator", "--generate", "-d")


@pytest.mark.parametrize("path", ["OUTSIDE/my.Dockerfile", "../my.Dockerfile", "../link.Dockerfile", "CWD/x"])
def test_a_dockerfile_is_written_to_any_path_that_is_named(indexed: InstalledOpm, path: str, tmp_path: Path) -> None:
    (tmp_path / "link.Dockerfile").symlink_to(tmp_path / "linked")
    path = path.replace("OUTSIDE", str(tmp_path / "outside")).replace("CWD", str(indexed.directory))
    (tmp_path / "outside").mkdir()
    indexed(*GENERATE, path)
    assert (indexed.directory / path).read_text().startswith("FROM ")
    assert (indexed.directory / "database" / "index.db").is_file()
    assert (tmp_path / "link.Dockerfile").is_symlink()


def test_a_dockerfile_is_written_to_a_pipe_or_a_device(indexed: InstalledOpm) -> None:
    assert indexed(*GENERATE, "/dev/stdout").startswith("FROM ")
    redirected = indexed.shell_out(["sh", "-c", f"opm {' '.join(GENERATE)} /dev/stdout >out"])
    assert (redirected.returncode, (indexed.directory / "out").read_text()[:5]) == (0, "FROM ")
    indexed(*GENERATE, "/dev/null")
    assert Path("/dev/null").is_char_device()


def test_an_empty_name_of_the_dockerfile_is_the_default(indexed: InstalledOpm) -> None:
    indexed(*GENERATE, "")
    assert (indexed.directory / "index.Dockerfile").is_file()


def test_a_link_in_the_working_directory_does_not_lead_a_dockerfile_out_of_it(
    indexed: InstalledOpm, tmp_path: Path
) -> None:
    (indexed.directory / "out").symlink_to(tmp_path)
    done = indexed.attempt(*GENERATE, "out/Dockerfile")
    assert (done.returncode, "symbolic link that leads out" in done.stderr) == (1, True)
    assert not (tmp_path / "Dockerfile").exists()


def test_operator_sdk_validates_only_directories_of_bundles(newcomer: InstalledOpm) -> None:
    shutil.copytree(LAGOON / "0.1.0", newcomer.directory / "bundle")
    arguments = ("operator-sdk", "bundle", "validate")
    newcomer(*arguments, "bundle")
    assert "directory metadata not found" in newcomer.attempt(*arguments, "bundle/manifests").stdout
    newcomer("bundle", "validate", "bundle/manifests")
    (newcomer.directory / "bundle" / "metadata").rename(newcomer.directory / "kept")
    for line in ([*arguments, "bundle"], ["bundle", "validate", "bundle/manifests", "--profile", "operator-sdk"]):
        assert newcomer.attempt(*line, "--compat", "newest").returncode == 1


@pytest.mark.parametrize(
    ("flags", "cause"),
    [
        ("-o json-alpha", 'invalid value of --output: "json-alpha"'),
        ("-o operatorhub", 'invalid value of --output: "operatorhub"'),
        ("-b bogus", 'unrecognized image-builder option: "bogus"'),
        ("bundle", "several bundles"),
    ],
)
def test_operator_sdk_refuses_flags_that_it_does_not_have(newcomer: InstalledOpm, flags: str, cause: str) -> None:
    shutil.copytree(LAGOON / "0.1.0", newcomer.directory / "bundle")
    done = newcomer.attempt("operator-sdk", "bundle", "validate", "bundle", *flags.split())
    assert (done.returncode, done.stdout) == (1, "")
    assert cause in done.stderr
    assert "'opm " not in done.stderr


@pytest.mark.parametrize("form", ["echo text | opm init tide -d /dev/stdin", "opm init tide -d <(echo text)"])
def test_a_description_can_come_from_a_pipe(newcomer: InstalledOpm, form: str) -> None:
    done = newcomer.shell_out(["bash", "-c", form])
    assert (done.returncode, '"description": "text\\n"' in done.stdout) == (0, True), done.stderr


def test_a_pipe_in_a_checkout_is_not_waited_for(newcomer: InstalledOpm) -> None:
    os.mkfifo(newcomer.directory / "README.md")
    assert "not a regular file" in newcomer.attempt("init", "tide", "-d", "README.md").stderr


def test_help_in_a_pipe_lists_all_flags(newcomer: InstalledOpm) -> None:
    flags = newcomer("index", "add", "--help")
    assert {"--generate", "--out-dockerfile", "--container-tool", "--permissive", "--use-http"} <= set(flags.split())


def test_completion_without_a_shell_prints_its_help(newcomer: InstalledOpm) -> None:
    assert newcomer("completion") == newcomer("completion", "--help")


def test_a_database_that_is_mounted_into_a_container_is_changed(indexed: InstalledOpm) -> None:
    (indexed.directory / "mounted.db").touch()
    script = "mount --bind old.db mounted.db && opm registry rm -d mounted.db -o lagoon-operator"
    if indexed.shell_out(["unshare", "-rm", "mount", "--bind", "old.db", "mounted.db"]).returncode:
        pytest.skip("no permission to mount")
    before = (indexed.directory / "old.db").stat().st_ino
    done = indexed.shell_out(["unshare", "-rm", "sh", "-c", script])
    assert done.returncode == 0, done.stderr
    assert (indexed.directory / "old.db").stat().st_ino == before
    assert indexed("render", "old.db") == ""
    assert {path.name for path in indexed.directory.iterdir()} == {"catalog.yaml", "old.db", "mounted.db"}


def test_an_empty_catalog_is_a_template_without_entries(newcomer: InstalledOpm) -> None:
    template = newcomer("alpha", "convert-template", "basic", "/dev/null")
    assert json.loads(template) == {"schema": "olm.template.basic", "entries": None}
    (newcomer.directory / "template.json").write_text(template)
    assert newcomer("alpha", "render-template", "basic", "template.json") == ""
