"""The wheel and the source distribution of ``scripts/build-packages``, and their metadata."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_string
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.kit.opm import FIXTURES
from tests.kit.requirements import require

if TYPE_CHECKING:
    from email.message import Message
    from pathlib import Path

ROOT = FIXTURES.parent
SCRIPT = ROOT / "scripts" / "build_packages.py"
REPOSITORY = "https://github.com/me/opmkit"
GENERATED = re.compile(r"PKG-INFO|src/opmkit/(build\.json|_version\.py)|man/[a-z-]+\.1")
LOCKS = ("--constraints", str(ROOT / "requirements.lock"))


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with the packages of a release whose repository is known."""
    directory = tmp_path_factory.mktemp("packages") / "dist"
    argv = [sys.executable, str(SCRIPT), str(directory)]
    done = subprocess.run(
        argv, env={**os.environ, "OPMKIT_REPOSITORY": REPOSITORY}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [str(path) for path in sorted(directory.iterdir())]
    assert done.stderr.count("PASSED") == 2
    assert re.search(r"\.whl: OK", done.stderr)
    again = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert again.returncode == 1
    assert again.stderr.splitlines() == [f"Error: {directory}: already contains packages", "  hint: remove them"]
    return directory


def test_packages_are_reproducible(packages: Path, tmp_path: Path) -> None:
    """Another build with other settings writes equal files, and a wheel from the tree has the same content."""
    script = "\n".join(
        [
            "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[1]); import build_packages as b",
            "scratch = Path(sys.argv[2]); b.build_packages(scratch)",
            "tree = ['-m', 'hatchling', 'build', '--target', 'wheel', '--directory', str(scratch / 'tree')]",
            "b.run(tree, b.ROOT, scratch / 'man')",
        ]
    )
    settings = {"OPMKIT_REPOSITORY": REPOSITORY, "TZ": "Pacific/Kiritimati", "LC_ALL": "C", "PYTHONHASHSEED": "7"}
    argv = [sys.executable, "-c", script, str(SCRIPT.parent), str(tmp_path)]
    subprocess.run(argv, env={**os.environ, **settings}, umask=0o077, capture_output=True, check=True)
    expected = {path.name: path.read_bytes() for path in packages.iterdir()}
    differing = [path for path in tmp_path.glob("packages/*") if path.read_bytes() != expected.pop(path.name)]
    assert (differing, expected) == ([], {})
    [from_tree] = (tmp_path / "tree").iterdir()
    assert from_tree.name == wheel(packages).name
    assert members(from_tree) == members(wheel(packages))


def members(path: Path) -> dict[str, tuple[int, list[bytes]]]:
    """Return the modes and lines of the files in a wheel, with those of its list in order."""
    with zipfile.ZipFile(path) as archive:
        lines = {member: archive.read(member).splitlines() for member in archive.infolist()}
    return {
        member.filename: (member.external_attr, sorted(each) if member.filename.endswith("/RECORD") else each)
        for member, each in lines.items()
    }


def wheel(packages: Path) -> Path:
    (path,) = packages.glob("opmkit-*.whl")
    return path


def metadata(packages: Path) -> Message:
    """Return the metadata of the wheel."""
    with zipfile.ZipFile(wheel(packages)) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        return message_from_string(archive.read(name).decode())


def test_metadata(packages: Path) -> None:
    fields = metadata(packages)
    assert fields["License-Expression"] == "Apache-2.0"
    assert fields["License-File"] == "LICENSE"
    assert fields["Description-Content-Type"] == "text/markdown"
    urls = dict(line.split(", ") for line in fields.get_all("Project-URL", []))
    assert urls["Source"] == REPOSITORY
    assert urls["Issues"] == f"{REPOSITORY}/issues"


def test_links_of_the_description_lead_to_the_repository(packages: Path) -> None:
    fields = metadata(packages)
    description = fields.get_payload()
    assert isinstance(description, str)
    revision = f"v{fields['Version']}"
    assert f"![The update graph of a package in the browser]({REPOSITORY}/raw/{revision}/docs/graph.png)" in description
    assert f"({REPOSITORY}/blob/{revision}/docs/tour.md)" in description
    assert re.findall(r"\]\((?!https:)[^)]*\)", description) == []


def test_source_distribution_contains_files_of_the_repository_only(packages: Path) -> None:
    (path,) = packages.glob("opmkit-*.tar.gz")
    with tarfile.open(path) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers()}
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("not a git checkout")
    assert {name for name in names - set(done.stdout.splitlines()) if not GENERATED.fullmatch(name)} == set()
    assert {"CONTRIBUTING.md", "requirements-dev.lock", "Dockerfile", "justfile", "tests/e2e/test_packages.py"} <= names


def test_wheel_has_a_manual_page_for_each_command(packages: Path) -> None:
    with zipfile.ZipFile(wheel(packages)) as archive:
        pages = {
            name.rpartition("/")[2]: archive.read(name).decode()
            for name in archive.namelist()
            if ".data/data/share/man/man1/" in name
        }
    assert {
        "opm.1",
        "opm-index-add.1",
        "opm-alpha-list-bundles.1",
        "initializer.1",
        "registry-server.1",
    } <= pages.keys()
    page = pages["opm-index-add.1"]
    assert page.startswith(f'.TH OPM\\-INDEX\\-ADD 1 "" "opmkit {metadata(packages)["Version"]}" "opmkit"\n')
    assert "\\fB\\-f, \\-\\-from\\-index\\fR \\fIINDEX\\fR" in page
    assert pages["opm-alpha-bundle-build.1"].startswith(".so man1/opm-bundle-build.1\n")
    referred = {name for text in pages.values() for name in re.findall(r"^\.so man1/(.*)$", text, re.MULTILINE)}
    related = {name for text in pages.values() for name in re.findall(r"^\.BR (\S+) \(1\)", text, re.MULTILINE)}
    assert referred | {f"{name}.1".replace("\\", "") for name in related} <= pages.keys()


def test_manual_pages_are_valid_roff(packages: Path, tmp_path: Path) -> None:
    groff = require("groff")
    with zipfile.ZipFile(wheel(packages)) as archive:
        archive.extractall(tmp_path)
    (manual,) = tmp_path.glob("opmkit-*.data/data/share/man")
    pages = sorted(str(path.relative_to(manual)) for path in (manual / "man1").iterdir())
    argv = [groff, "-man", "-ww", "-Kutf8", "-Tutf8", *pages]
    done = subprocess.run(argv, cwd=manual, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    text = re.sub(r"\x1b\[[\d;]*m|.\x08", "", done.stdout)
    assert "opm index rm [OPTIONS]" in text


@pytest.mark.parametrize(("tool", "arguments"), [("uv", ("tool", "install", *LOCKS)), ("pipx", ("install", "--quiet"))])
def test_tools_install_the_wheel_in_an_empty_home(
    packages: Path, tmp_path: Path, tool: str, arguments: tuple[str, ...]
) -> None:
    program = require(tool)
    variables = {
        "HOME": str(tmp_path),
        "PATH": os.environ["PATH"],
        "UV_SYSTEM_CERTS": "1",
        "UV_CACHE_DIR": subprocess.run(
            ["uv", "cache", "dir"], capture_output=True, text=True, check=False
        ).stdout.strip(),
        "UV_PYTHON": sys.executable,
        "PIPX_DEFAULT_PYTHON": sys.executable,
    }
    passed = {
        name: value for name, value in os.environ.items() if name.startswith(("PIP_", "UV_", "SSL_", "REQUESTS_"))
    }
    environment = {**passed, **{name: value for name, value in variables.items() if value}}
    done = subprocess.run(
        [program, *arguments, str(wheel(packages))], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    binaries = tmp_path / ".local" / "bin"
    assert {path.name for path in binaries.iterdir()} >= {"opm", "initializer", "registry-server", "configmap-server"}
    printed = subprocess.run(
        [binaries / "opm", "--version"], env={"HOME": str(tmp_path)}, capture_output=True, check=True
    )
    assert printed.stdout.decode().split()[:2] == ["opmkit", metadata(packages)["Version"]]
    assert list(tmp_path.glob(".local/share/**/share/man/man1/opm-index-add.1"))


def source_tree(directory: Path) -> Path:
    """Create a source tree that is not a repository, and return it."""
    (directory / "src" / "opmkit").mkdir(parents=True)
    (directory / "src" / "opmkit" / "_version.py").write_text('__version__ = "0.7.0"\n')
    return directory


def git(directory: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=me", "-c", "user.email=me@example.com", "-c", "commit.gpgsign=false")
    argv = ["git", *identity, *arguments]
    return subprocess.run(argv, cwd=directory, capture_output=True, text=True, check=True).stdout.strip()


def commit(directory: Path) -> str:
    """Add an empty commit and return its abbreviated hash."""
    if not (directory / ".git").exists():
        git(directory, "init", "--quiet")
    git(directory, "commit", "--quiet", "--allow-empty", "--message", "a change")
    return git(directory, "rev-parse", "--short=8", "HEAD")


@pytest.fixture(scope="module")
def hooks() -> Any:
    """Return the module with the version."""
    pytest.importorskip("hatchling")
    spec = importlib.util.spec_from_file_location("hatch_metadata", ROOT / "hatch_metadata.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_version_without_a_repository_is_that_of_the_source(tmp_path: Path, hooks: Any) -> None:
    commit(tmp_path)
    git(tmp_path, "tag", "v9.9.9")  # of another project that contains an archive of this one
    assert hooks.version(source_tree(tmp_path / "archive")) == "0.7.0"


def test_version_without_tags_is_that_of_the_source(tmp_path: Path, hooks: Any) -> None:
    commit(source_tree(tmp_path))
    assert hooks.version(tmp_path) == "0.7.0"
    git(tmp_path, "tag", "nightly")
    assert hooks.version(tmp_path) == "0.7.0"


@pytest.mark.parametrize(
    ("tag", "version", "following"),
    [("v1.2.3", "1.2.3", "1.2.4.dev1"), ("v1.3.0rc1", "1.3.0rc1", "1.3.0rc1.post0.dev1"), ("v2.0", "2.0", "2.1.dev1")],
)
def test_version_is_that_of_the_tag(tmp_path: Path, hooks: Any, tag: str, version: str, following: str) -> None:
    commit(source_tree(tmp_path))
    git(tmp_path, "tag", tag)
    assert hooks.version(tmp_path) == version
    later = commit(tmp_path)
    assert hooks.version(tmp_path) == f"{following}+g{later}"


def test_version_of_a_shallow_clone_is_that_of_the_source(tmp_path: Path, hooks: Any) -> None:
    origin = source_tree(tmp_path / "origin")
    commit(origin)
    git(origin, "add", ".")
    git(origin, "commit", "--quiet", "--message", "files")
    git(origin, "tag", "v1.2.3")
    commit(origin)
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{origin}", "clone")
    assert hooks.version(tmp_path / "clone") == "0.7.0"


def test_only_relative_links_become_absolute(hooks: Any) -> None:
    text = "[a](docs/a.md) ![b](b.png) [c](https://example.com) [d](#part)"
    assert hooks.absolute_links(text, REPOSITORY, "v1") == (
        f"[a]({REPOSITORY}/blob/v1/docs/a.md) ![b]({REPOSITORY}/raw/v1/b.png) [c](https://example.com) [d](#part)"
    )


def release_steps() -> dict[str, list[dict[str, Any]]]:
    """Return the steps of the release workflow by job."""
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    return {name: job["steps"] for name, job in workflow["jobs"].items()}


def test_release_compares_the_version_with_the_tag(packages: Path) -> None:
    (step,) = (step for step in release_steps()["packages"] if step.get("name") == "Compare the version with the tag")
    version = metadata(packages)["Version"]
    (packages.parent / "elsewhere").mkdir()
    for tag, directory, succeeds in (
        (f"v{version}", packages.parent, True),
        ("v9.9.9", packages.parent, False),
        (f"v{version}", packages.parent / "elsewhere", False),
    ):
        done = subprocess.run(["bash", "-euc", step["run"]], cwd=directory, env={"TAG": tag}, check=False)
        assert (done.returncode == 0) == succeeds


def test_release_runs_pinned_actions_and_existing_scripts() -> None:
    steps = [step for steps in release_steps().values() for step in steps]
    assert [step["uses"] for step in steps if not re.search(r"@[0-9a-f]{40}$", step.get("uses", "@" + "0" * 40))] == []
    scripts = {name for step in steps for name in re.findall(r"scripts/[\w-]+", step.get("run", ""))}
    assert scripts == {"scripts/build-packages", "scripts/build-runtime"}
    assert all(os.access(ROOT / name, os.X_OK) for name in scripts)
