"""The direction of imports, and what starting the command may import."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from graphlib import TopologicalSorter
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "opmkit"
LAYERS = ["core", "documents", "http", "imagetools", "kube", "bundle", "index", "author", "api", "cli"]
ANNEXES = ["author", "supply"]
ANNEX_COMMANDS = {"author": ["run", "bundle"], "supply": ["mirror", "catalog"]}
HEAVY = {
    *("oras", "requests", "grpc", "docker", "podman", "yaml", "sqlite3", "rich.progress"),
    *("cryptography", "nacl", "sigstore"),
    "_hashlib",
    "opmkit.bundle.model",
    "opmkit.index.pictures.page",
}


HELP_OF_COMMANDS = [
    ["--help"],
    *([*name.split(), "--help"] for name in ("index add", "image sign", "mirror", "render")),
]


def _imports(path: Path) -> list[str]:
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


@pytest.mark.parametrize("package", LAYERS)
def test_imports_go_down_the_packages(package: str) -> None:
    above = tuple(f"opmkit.{name}" for name in LAYERS[LAYERS.index(package) + 1 :])
    modules = list((SOURCE / package).rglob("*.py"))
    assert modules
    upward = [(path.name, name) for path in modules for name in _imports(path) if name.startswith(above)]
    assert not upward


@pytest.mark.parametrize("package", LAYERS)
def test_no_package_reaches_into_private_modules_of_another(package: str) -> None:
    for path in (SOURCE / package).rglob("*.py"):
        for name in _imports(path):
            if name.startswith("opmkit.") and not name.startswith(f"opmkit.{package}."):
                assert not any(
                    part.startswith("_") and part not in ("_version", "__version__") for part in name.split(".")
                ), (path, name)


def test_one_module_decides_where_modules_and_programs_are_searched() -> None:
    found = {
        str(path.relative_to(SOURCE)): words
        for path in SOURCE.rglob("*.py")
        if (words := set(re.findall(r"shutil\.which|sys\.executable|sys\.path\b", path.read_text())))
    }
    assert found == {
        "core/search_paths.py": {"sys.executable", "sys.path"},
        "core/workers.py": {"sys.executable"},  # whether there is one
        "cli/commands/generate_wrapper.py": {"sys.executable"},  # the program next to it
        "core/cache.py": {"sys.path"},  # where distributions are installed
    }


@pytest.mark.parametrize("arguments", HELP_OF_COMMANDS)
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    program = (
        f"import sys; from opmkit.cli.main import run; status = run({arguments}); "
        f"print(sorted(name for name in sys.modules if name in {HEAVY}), file=sys.stderr); sys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.strip().splitlines()[-1] == "[]"
    assert "index" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "modules"),
    [
        ([], []),
        (["--help"], []),
        (["bundle", "--help"], []),
        (["bundle", "validate", "--help"], ["bundle_validate"]),
        (["--authfile", "image", "index", "add", "--help"], ["index"]),
        (["help", "render"], ["general", "render"]),
        (["__complete", "bundle", "validate", "--"], ["bundle_validate"]),
        (["__complete", "index", ""], []),
    ],
    ids=lambda value: " ".join(value),
)
def test_a_command_does_not_import_the_others(arguments: list[str], modules: list[str]) -> None:
    program = (
        f"import sys; from opmkit.cli.main import run; run({arguments}); "
        "print(*sorted(name for name in sys.modules if name.startswith('opmkit.cli.commands.')), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout
    assert done.stderr.splitlines()[-1].split() == [f"opmkit.cli.commands.{name}" for name in modules]


SLOW_TO_VALIDATE_WITH = (
    *("yaml", "pickle", "tarfile", "requests", "tempfile", "importlib.metadata", "xml.etree.ElementTree"),
    *("opmkit.bundle.model", "opmkit.bundle.load", "opmkit.imagetools.reference"),
    *("opmkit.imagetools.layer.compression", "opmkit.imagetools.spec.config", "opmkit.imagetools.store.layout"),
    "opmkit.index.fbc.check",
)
"""Modules for images, many bundles and other report formats."""
SLOW_WITH_CACHED_RESULTS = (
    *("orjson", "ryaml", "semver", "opmkit.documents.content"),
    *("opmkit.bundle.validation.bundle_view", "opmkit.bundle.validation.rule_registry"),
)
"""Modules that decode and check files."""


@pytest.mark.skipif(not find_spec("ryaml"), reason="without it, PyYAML decodes the files")
def test_a_bundle_directory_is_validated_without_the_modules_for_images(tmp_path: Path) -> None:
    bundle = ROOT / "fixtures" / "lagoon-operator" / "0.1.0"
    slow: tuple[str, ...] = SLOW_TO_VALIDATE_WITH
    for _ in range(2):
        program = (
            "import atexit, os, sys; os._exit = lambda _: None; from opmkit.cli.entry import opm; "
            f"atexit.register(lambda: print(sorted(set(sys.modules).intersection({slow})))); opm()"
        )
        command = [sys.executable, "-c", program, "bundle", "validate", str(bundle)]
        environment = {**os.environ, "OPM_STORE": str(tmp_path)}
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        assert done.stdout.splitlines()[-1] == "[]", slow
        slow = (*SLOW_TO_VALIDATE_WITH, *SLOW_WITH_CACHED_RESULTS)


NOT_FOR_READING = (
    *("requests", "tarfile", "certifi", "http", "backports.zstd", "compression.zstd"),
    *(f"opmkit.imagetools.{name}" for name in ("copy", "registry.uploads", "archive")),
)
NOT_FOR_RENDERING = ("sqlite3", "semver", "certifi", "backports.zstd", "compression.zstd", "opmkit.index.fbc.model")
NOT_FOR_WHOLE_INDEXES = (
    *NOT_FOR_RENDERING,
    *("opmkit.bundle.load", "opmkit.bundle.finding", "opmkit.imagetools.archive", "opmkit.imagetools.copy"),
    *("opmkit.index.image.build", "opmkit.index.operations.filter", "opmkit.index.operations.manifests"),
    *(f"opmkit.supply.mirror.{name}" for name in ("catalog_deletion", "charts", "image_set", "selection")),
)


@pytest.mark.parametrize(
    ("module", "slow"),
    [
        ("opmkit.imagetools.tools.registry", NOT_FOR_READING),
        ("opmkit.index.render", NOT_FOR_RENDERING),
        ("opmkit.supply.mirror.operation", NOT_FOR_WHOLE_INDEXES),
    ],
    ids=["read an image", "render a bundle", "mirror a whole index"],
)
def test_operations_do_not_import_modules_for_others(module: str, slow: tuple[str, ...]) -> None:
    program = f"import sys, {module}; print(sorted(set(sys.modules).intersection({slow})))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


VERSION_NEEDS_NONE_OF = ("typer", "dataclasses", "opmkit.core.hints", "opmkit.index", "opmkit.cli.commands")


def test_version_imports_neither_typer_nor_other_commands() -> None:
    program = (
        "import atexit, os, sys; os._exit = lambda _: None; from opmkit.cli.entry import opm; "
        "atexit.register(lambda: print(*sys.modules)); opm()"
    )
    command = [sys.executable, "-c", program, "version"]
    version, modules = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert "OpmVersion" in version
    assert "opmkit.cli.version" in modules.split()
    assert not [name for name in modules.split() if name.startswith(VERSION_NEEDS_NONE_OF)]


def test_every_exception_from_a_security_rule_has_a_reason() -> None:
    """Ruff's rules S; tests are exempt from them."""
    bare = re.compile(r"# noqa: S\d+(?:, ?[A-Z]+\d+)*\s*$")
    sources = [*(ROOT / "src").rglob("*.py"), *(ROOT / "scripts").glob("*.py")]
    lines = [(path, line) for path in sources for line in path.read_text().splitlines()]
    assert lines
    assert [f"{path}: {line.strip()}" for path, line in lines if bare.search(line)] == []


def _modules() -> dict[str, Path]:
    """Return the modules of the package with their files."""
    return {
        ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for path in SOURCE.rglob("*.py")
    }


def test_public_class_names_have_one_meaning() -> None:
    places: dict[str, list[str]] = {}
    for module, path in _modules().items():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(module)
    assert {name: modules for name, modules in places.items() if len(modules) > 1} == {}


def test_modules_do_not_import_each_other_in_circles() -> None:
    """Imports in functions, and those for type checkers, count as well."""
    modules = _modules()
    graph = {
        module: {
            found
            for name in _imports(path)
            for found in (name, name.rpartition(".")[0])
            if found in modules and found != module and modules[found].name != "__init__.py"
        }
        for module, path in modules.items()
    }
    TopologicalSorter(graph).prepare()


_SOURCE = "./lagoon/0.1.0=quay.io/me/lagoon:0.1.0"
CORE_COMMANDS = (
    ["--help-all"],
    ["bundle", "validate", "lagoon/0.1.0"],
    ["bundle", "build", "--directory", "lagoon/0.1.0/manifests", "--tag", "oci:images:lagoon"],
    ["index", "add", "-b", _SOURCE, "--binary-image", "scratch", "--tag", "oci:images:catalog"],
    ["registry", "add", "-b", _SOURCE, "--database", "index.db"],
    ["render", "oci:images:catalog"],
    ["index", "diff", "index.db", "oci:images:catalog"],
    ["migrate", "index.db", "catalog"],
    ["validate", "catalog"],
)


@pytest.mark.parametrize("annex", ANNEXES)
def test_the_core_works_without_an_annex(annex: str, tmp_path: Path) -> None:
    package = tmp_path / "opmkit"
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__", annex))
    shutil.copytree(ROOT / "fixtures" / "lagoon-operator", tmp_path / "lagoon")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "OPM_STORE": str(tmp_path / "store")}

    def run(arguments: list[str]) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "from opmkit.cli.entry import opm; opm()", *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    assert not list(package.rglob(annex))
    for arguments in CORE_COMMANDS:
        done = run(arguments)
        assert done.returncode == 0, (arguments, done.stderr)
    missing = run(ANNEX_COMMANDS[annex])
    assert missing.returncode == 1
    assert "unknown command" in missing.stderr


def test_files_named_in_the_development_guide_exist() -> None:
    guide = (ROOT / "docs" / "development.md").read_text()
    table = guide[guide.index("### Where to change what") :].partition("A new command")[0]
    named = re.findall(r"`([a-z_]+/[\w/.]+)`", table)
    assert len(named) > 10
    assert [name for name in named if not (SOURCE / name).exists()] == []


VALUES_OF_COMMANDS: dict[str, set[str]] = {
    "author/hints": {"opmkit.author.run.hint_terms"},
    "index_diff": {"opmkit.index.diff.report"},
    "index_merge": {"opmkit.index.modes"},
    "registry": {"opmkit.index.change"},
    "supply/mirror": {"opmkit.supply.mirror.errors", "opmkit.supply.mirror.target"},
}
"""Modules below the API with values and reports that the module of a command imports; all others import none."""
MAX_IMPORTS_BELOW_THE_API = 34
"""Of the command line; it only gets lower."""


def _imports_below_the_api(path: Path) -> list[str]:
    above = {"api", "cli", "core"}
    return [
        node.module
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("opmkit.")
        if node.module.split(".")[1] not in above
    ]


def test_commands_leave_the_work_to_the_api() -> None:
    commands = SOURCE / "cli" / "commands"
    names = [path.relative_to(commands).with_suffix("").as_posix() for path in commands.rglob("*.py")]
    assert set(names) >= set(VALUES_OF_COMMANDS)
    found = {name: set(_imports_below_the_api(commands / f"{name}.py")) for name in names}
    assert not [name for name, modules in found.items() if modules - VALUES_OF_COMMANDS.get(name, set())]


def test_the_command_line_imports_less_below_the_api() -> None:
    found = [name for path in (SOURCE / "cli").rglob("*.py") for name in _imports_below_the_api(path)]
    assert len(found) <= MAX_IMPORTS_BELOW_THE_API
