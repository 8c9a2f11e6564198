"""Run Go opm on the bundles in ``fixtures/recorded`` and write its results there."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.kit.blobs import canonical_blobs
from tests.kit.corpus import Corpus, RegistryCorpus
from tests.kit.recorded import BUNDLES, RESULTS, dump_database, sorted_lines
from tests.kit.registry import Registry

REEF = [f"{{registry}}/reef:{version}" for version in ("1.0.0", "1.1.0", "1.1.1", "1.2.0", "2.0.0-rc.1")]
TIDE = [f"{{registry}}/tide:{version}" for version in ("0.1.0", "0.2.0")]
DANGLING = "{registry}/tide:0.3.0"


def add(*images: str, flags: tuple[str, ...] = ()) -> list[str]:
    """Return the arguments of one add."""
    return ["registry", "add", "--use-http", "--database", "{db}", "--bundle-images", ",".join(images), *flags]


def change(verb: str, *arguments: str) -> list[str]:
    """Return the arguments of another change."""
    return ["registry", verb, "--database", "{db}", *arguments]


SEMVER = ("--mode", "semver")
STEPS: dict[str, list[list[str]]] = {
    "add-replaces": [add(*REEF, *TIDE)],
    "add-one-by-one": [add(image) for image in (*REEF, *TIDE)],
    "add-semver-one-by-one": [add(image, flags=SEMVER) for image in REEF],
    "add-again": [add(*TIDE), add(*TIDE)],
    "add-missing-replaces": [add(*TIDE), add(DANGLING)],
    "add-missing-image": [add(TIDE[0]), add("{registry}/tide:9.9.9")],
    "add-overwrite-latest": [add(*TIDE), add(TIDE[-1], flags=("--overwrite-latest",))],
    "rm": [add(*REEF, *TIDE), change("rm", "--packages", "tide")],
    "rm-unknown": [add(*TIDE), change("rm", "--packages", "ebb")],
    "prune": [add(*REEF, *TIDE), change("prune", "--packages", "reef")],
    "prune-stranded": [add(*REEF), change("prune-stranded")],
    "deprecatetruncate": [add(*REEF), change("deprecatetruncate", "--bundle-images", REEF[2])],
    "deprecatetruncate-head": [
        add(*TIDE),
        change("deprecatetruncate", "--bundle-images", TIDE[-1], "--allow-package-removal"),
    ],
}
TABLES = ("packages", "channels", "bundles")


def main() -> int:
    """Record every case."""
    (opm,) = sys.argv[1:]
    RESULTS.mkdir(exist_ok=True)
    with Registry() as registry, tempfile.TemporaryDirectory() as directory:
        corpus = RegistryCorpus(registry.host, BUNDLES)
        for name, steps in STEPS.items():
            database = Path(directory, f"{name}.db")
            record = record_case(opm, corpus, steps, database)
            (RESULTS / f"{name}.json").write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
            print(name, [step["exit"] for step in record["steps"]])
    return 0


def record_case(opm: str, corpus: Corpus, steps: list[list[str]], database: Path) -> dict[str, Any]:
    """Run the steps; without a failure, record the tables, the lists and the rendered catalog as well."""

    def run(argv: list[str]) -> subprocess.CompletedProcess[str]:
        filled = [part.replace("{db}", str(database)) for part in corpus.fill(argv)]
        return subprocess.run([opm, *filled], cwd=database.parent, capture_output=True, text=True, check=False)

    record: dict[str, Any] = {"steps": [{"argv": argv, "exit": run(argv).returncode} for argv in steps]}
    if any(step["exit"] for step in record["steps"]):
        return record
    record["tables"] = dump_database(database, corpus.prefix)
    record["lists"] = {}
    for table in TABLES:
        done = run(["alpha", "list", table, "{db}"])
        done.check_returncode()
        record["lists"][table] = sorted_lines(done.stdout, corpus.prefix)
    rendered = run(["render", "{db}"])
    rendered.check_returncode()
    record["blobs"] = canonical_blobs(rendered.stdout, corpus.prefix)
    return record


if __name__ == "__main__":
    sys.exit(main())
