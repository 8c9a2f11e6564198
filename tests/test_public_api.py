"""The public API: names, laziness, and the examples in its documentation."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import opmkit
from tests.kit.opm import FIXTURES

ROOT = Path(__file__).parents[1]
BLOCKED = '[[registry]]\nprefix = "{0}"\nlocation = "{0}"\nblocked = true\n'
EXAMPLE = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("name", opmkit.__all__)
def test_every_public_name_exists_and_is_documented(name: str) -> None:
    assert getattr(opmkit, name).__doc__
    assert f"opmkit.{name}" in (ROOT / "docs" / "api.md").read_text()


METHODS = [name for name in dir(opmkit.Opm) if not name.startswith("_") and callable(getattr(opmkit.Opm, name))]


@pytest.mark.parametrize("name", METHODS)
def test_every_operation_is_documented_with_an_example(name: str) -> None:
    docstring = getattr(opmkit.Opm, name).__doc__
    assert "Raises:" in docstring
    examples = "".join(
        EXAMPLE.findall("".join((ROOT / "docs" / page).read_text() for page in ("api.md", "library.md")))
    )
    assert re.search(rf"\bopm\.{name}\b", examples)


@pytest.mark.parametrize("name", METHODS)
def test_parameters_are_documented_by_their_names(name: str) -> None:
    method = getattr(opmkit.Opm, name)
    documented = set(re.findall(r"^            (\w+): ", method.__doc__, re.MULTILINE))
    parameters = set(inspect.signature(method).parameters) - {"self"}
    assert {item for item in documented if item[0].islower()} <= parameters


@pytest.mark.parametrize("name", METHODS)
def test_results_are_public_dataclasses_with_to_dict(name: str) -> None:
    annotation = inspect.signature(getattr(opmkit.Opm, name)).return_annotation
    (result,) = set(re.findall(r"[A-Z]\w+", annotation)) or {""}
    if result not in ("", "None", "IndexSource", "Blobs"):
        assert result in opmkit.__all__
        value = getattr(opmkit, result)
        assert dataclasses.is_dataclass(value)
        assert callable(getattr(value, "to_dict", None))


def test_types_and_modules_list_the_same_names() -> None:
    tree = ast.parse(Path(opmkit.__file__).read_text())
    (typed,) = [node for node in tree.body if isinstance(node, ast.If)]
    imported = {
        (statement.module, alias.name)
        for statement in typed.body
        if isinstance(statement, ast.ImportFrom) and statement.module != "typing"
        for alias in statement.names
    }
    assert imported == {(module, name) for module, names in opmkit._MODULES.items() for name in names}
    assert sorted(opmkit.__all__) == sorted(name for _, name in imported)


def test_the_import_loads_nothing_else() -> None:
    program = "import sys, opmkit; print([name for name in sys.modules if name.startswith('opmkit.')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['opmkit._version']"


def test_the_client_loads_no_large_library() -> None:
    program = "import sys, opmkit; opmkit.Opm(); print([name for name in sys.argv[1:] if name in sys.modules])"
    libraries = ["typer", "rich", "grpc", "sigstore", "cryptography", "sqlite3", "asyncio", "yaml", "kubernetes"]
    done = subprocess.run([sys.executable, "-c", program, *libraries], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        opmkit.nothing  # noqa: B018


@pytest.mark.parametrize(("document", "printed"), [("api.md", "lagoon-operator"), ("library.md", "v0.2.0 True")])
def test_the_examples_run(
    document: str, printed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("logging.basicConfig", lambda **_: None)
    (tmp_path / "fixtures").symlink_to(FIXTURES)
    (tmp_path / "registries.conf").write_text(
        "".join(BLOCKED.format(name) for name in ("quay.io", "registry.example.com"))
    )
    monkeypatch.setenv("CONTAINERS_REGISTRIES_CONF", str(tmp_path / "registries.conf"))
    examples = EXAMPLE.findall((ROOT / "docs" / document).read_text())
    assert len(examples) > 3
    namespace: dict[str, object] = {}
    for example in examples:
        exec(compile(example, document, "exec"), namespace)
    assert printed in capsys.readouterr().out


def test_the_documented_loggers_exist() -> None:
    text = (ROOT / "docs" / "library.md").read_text()
    names = re.findall(r"`opmkit((?:\.\w+)+)`", text)
    assert len(names) > 3
    for name in names:
        path = ROOT / "src" / "opmkit" / name[1:].replace(".", "/")
        modules = [path.with_suffix(".py")] if path.with_suffix(".py").exists() else list(path.rglob("*.py"))
        assert any("logging.getLogger(__name__)" in module.read_text() for module in modules), name
