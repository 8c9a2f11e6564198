"""Generate the field tables of API types from their Go structs, or check that they are up to date.

    python scripts/generate_field_tables.py
    python scripts/generate_field_tables.py --check

Needs Go and a Go module proxy. Exit codes: 0 written, or up to date; 1 out of date; 75 the Go modules cannot be
fetched.

To follow a new release of operator-registry, raise the versions in SOURCES, run the script and review the difference.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

GENERATOR = 2
"""Version of the format. Raise it when the meaning of the tables changes."""

SOURCES = {
    "newest": {
        "github.com/operator-framework/api": "v0.45.0",
        "github.com/operator-framework/operator-registry": "v1.73.0",
        "k8s.io/api": "v0.36.2",
        "k8s.io/apiextensions-apiserver": "v0.36.2",
        "k8s.io/apimachinery": "v0.36.2",
    },
    # those of operator-registry v1.26.5
    "opm-1.26": {
        "github.com/operator-framework/api": "v0.17.4-0.20230223191600-0131a6301e42",
        "k8s.io/api": "v0.26.1",
        "k8s.io/apiextensions-apiserver": "v0.26.1",
        "k8s.io/apimachinery": "v0.26.1",
    },
}
"""Modules and their versions, by the tables that are generated from them."""

PROGRAM = Path(__file__).with_name("field_tables")
PROPERTIES = "properties.go"  # needs operator-registry
TABLES = Path(__file__).parents[1] / "src/opmkit/bundle/api_types/field_tables.json"

Structs = dict[str, dict[str, str]]
Always = dict[str, list[str]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare the tables with their sources, write nothing")
    check = parser.parse_args().check
    try:
        tables = {name: read_tables(modules) for name, modules in SOURCES.items()}
    except ModulesUnavailable as error:
        print(f"cannot fetch the Go modules: {error}", file=sys.stderr)
        return 75
    text = to_text(build_document({name: structs for name, (structs, _) in tables.items()}, tables["newest"][1]))
    if not check:
        TABLES.write_text(text)
        return 0
    difference = list(difflib.unified_diff(TABLES.read_text().splitlines(), text.splitlines(), "committed", "sources"))
    print("\n".join(difference))
    return 1 if difference else 0


class ModulesUnavailable(Exception):
    """The Go modules cannot be fetched."""


def read_tables(modules: dict[str, str]) -> tuple[Structs, Always]:
    """Run the Go program with the given versions of the modules, and return what it prints."""
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        for source in PROGRAM.glob("*.go"):
            if source.name != PROPERTIES or "github.com/operator-framework/operator-registry" in modules:
                shutil.copy(source, directory)
        requires = "".join(f"require {module} {version}\n" for module, version in modules.items())
        (directory / "go.mod").write_text(f"module fieldtables\n\ngo 1.22\n\n{requires}")
        tidied = run_go(directory, "mod", "tidy")
        if tidied.returncode:
            raise ModulesUnavailable((tidied.stderr.strip().splitlines() or ["go mod tidy failed"])[-1])
        check_versions(directory, modules)
        printed = run_go(directory, "run", ".")
        if printed.returncode:
            sys.exit(printed.stderr)
    tables = json.loads(printed.stdout)
    return tables["structs"], tables["always"]


def run_go(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["go", *arguments], cwd=directory, capture_output=True, text=True, check=False)


def check_versions(directory: Path, modules: dict[str, str]) -> None:
    """Exit unless the modules are used in exactly these versions; Go raises them if another module needs that."""
    listed = run_go(directory, "list", "-m", "-f", "{{.Path}} {{.Version}}", *modules).stdout
    used = dict(line.split() for line in listed.splitlines())
    if used != modules:
        sys.exit(f"Go uses {used} instead of {modules}; correct SOURCES")


def build_document(structs: dict[str, Structs], always: Always) -> dict[str, Any]:
    """Return the newest structs, their fields that are always written, and the differences of all other structs."""
    newest = structs["newest"]
    content = {
        "structs": newest,
        "always": always,
        "differences": {name: differences(newest, older) for name, older in structs.items() if name != "newest"},
    }
    return {"generator": GENERATOR, "sources": SOURCES, "sha256": checksum(content), **content}


def differences(newest: Structs, older: Structs) -> dict[str, dict[str, str | None]]:
    """Return the fields whose type differs in the older structs, None for fields that they lack."""
    found = {}
    for name, fields in older.items():
        now = newest.get(name, {})
        changed = {field: fields.get(field) for field in now | fields if fields.get(field) != now.get(field)}
        if changed:
            found[name] = changed
    return found


def checksum(document: dict[str, Any]) -> str:
    """Return the SHA-256 of the tables in a document."""
    content = {name: document[name] for name in ("structs", "always", "differences")}
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def to_text(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1) + "\n"


if __name__ == "__main__":
    sys.exit(main())
