"""Search paths of modules and programs: the working directory is not one of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from opmkit.core.search_paths import find_program, python_command, restrict_search_paths

INSTALLATION = str(Path(__file__).parents[2] / "src")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory, which has a module and a program."""
    directory = tmp_path / "checkout"
    directory.mkdir()
    (directory / "json.py").write_text("raise SystemExit('imported from the working directory')")
    add_program(directory, "helm")
    monkeypatch.chdir(directory)
    return directory


def add_program(directory: Path, name: str) -> Path:
    program = directory / name
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize("entry", ["", ".", "../checkout", "CHECKOUT"])
def test_the_working_directory_in_pythonpath_is_removed(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    library, given = str(checkout.parent / "lib"), entry.replace("CHECKOUT", str(checkout))
    monkeypatch.setenv("PYTHONPATH", f"{given}:{library}")
    monkeypatch.setattr(sys, "path", ["", str(checkout), "relative", library, "/usr/lib/python", INSTALLATION])
    restrict_search_paths()
    assert sys.path == [library, "/usr/lib/python", INSTALLATION]


@pytest.mark.parametrize("entry", ["src", "../link", "modules.zip", "../sub/../src", "../../src"])
@pytest.mark.parametrize("repository", [".", ".."])
def test_what_is_in_the_checkout_is_removed_from_pythonpath(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, entry: str, repository: str
) -> None:
    """Absolute entries, too: many projects set ``PYTHONPATH=$PWD/src``."""
    (checkout / repository / ".git").mkdir()
    (checkout / "sub").mkdir()
    (checkout / "link").symlink_to("src")
    monkeypatch.chdir(checkout / "sub")
    given = os.path.abspath(checkout / "sub" / ".." / entry.removeprefix("../"))  # noqa: PTH100 - the link is not resolved
    monkeypatch.setenv("PYTHONPATH", f"{given}:/opt/lib")
    monkeypatch.setattr(sys, "path", [given, "/opt/lib", f"{checkout}/.venv/lib", INSTALLATION])
    restrict_search_paths()
    outside = entry.startswith("../../") and repository == "."
    assert sys.path == [*[given] * outside, "/opt/lib", f"{checkout}/.venv/lib", INSTALLATION]


@pytest.mark.parametrize("git", [False, True])
def test_a_library_in_the_home_directory_remains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, git: bool) -> None:
    if git:
        (tmp_path / ".git").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}/lib")
    monkeypatch.setattr(sys, "path", [f"{tmp_path}/lib", INSTALLATION])
    restrict_search_paths()
    assert sys.path == [f"{tmp_path}/lib", INSTALLATION]


@pytest.mark.parametrize("value", [None, "", "/opt/lib"])
def test_a_directory_of_the_installation_remains(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    """A .pth file of an editable installation can name the working directory."""
    if value is None:
        monkeypatch.delenv("PYTHONPATH", raising=False)
    else:
        monkeypatch.setenv("PYTHONPATH", value)
    monkeypatch.setattr(sys, "path", ["/opt/lib", str(checkout)])
    restrict_search_paths()
    assert sys.path == ["/opt/lib", str(checkout)]


def test_opmkit_itself_is_found_by_a_relative_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(INSTALLATION)
    monkeypatch.setenv("PYTHONPATH", ".")
    monkeypatch.setattr(sys, "path", [INSTALLATION])
    restrict_search_paths()
    assert sys.path == [INSTALLATION]
    assert INSTALLATION in python_command("json")[-1]


@pytest.mark.parametrize(
    ("path", "expected"), [("", os.defpath), (":.:bin", os.defpath), (".:/opt/bin::/bin:", "/opt/bin:/bin")]
)
def test_path_has_only_absolute_entries(monkeypatch: pytest.MonkeyPatch, path: str, expected: str) -> None:
    monkeypatch.setenv("PATH", path)
    monkeypatch.setattr(sys, "path", sys.path)
    restrict_search_paths()
    assert os.environ["PATH"] == expected


@pytest.mark.parametrize("path", ["", ":", ".", "../checkout", None])
def test_programs_are_not_found_in_the_working_directory(checkout: Path, path: str | None) -> None:
    environ = {} if path is None else {"PATH": path}
    found = find_program("helm", environ)
    assert found is None or Path(found).is_absolute()
    assert found != str(checkout / "helm")


def test_programs_are_found_in_the_order_of_path(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "helm").mkdir()
    (tmp_path / "a" / "oc").write_text("not executable")
    expected = [str(add_program(tmp_path / "b", name)) for name in ("helm", "oc")]
    environ = {"PATH": f"{tmp_path}/a:{tmp_path}/b"}
    assert [find_program(name, environ) for name in ("helm", "oc")] == expected
    assert find_program("missing", environ) is None
    assert find_program("./helm", environ) == "./helm"


@pytest.mark.parametrize("variables", [{}, {"PYTHONPATH": "."}, {"PYTHONPATH": ""}])
def test_helpers_do_not_import_from_the_working_directory(checkout: Path, variables: dict[str, str]) -> None:
    (checkout / "opmkit").mkdir()
    (checkout / "opmkit" / "__init__.py").write_text("raise SystemExit('imported from the working directory')")
    command = python_command("opmkit.core.search_paths")
    done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_helpers_import_what_this_process_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "größe\udcff"
    directory.mkdir()
    (directory / "helper.py").write_text("import sys\nif __name__ == '__main__': print(sys.argv[1:])")
    monkeypatch.setattr(sys, "path", [str(directory), *sys.path])
    output = subprocess.run(python_command("helper", "-x", "y"), capture_output=True, text=True, check=True).stdout
    assert output == "['-x', 'y']\n"
