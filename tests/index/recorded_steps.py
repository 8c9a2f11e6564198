"""Replay of recorded commands that change a database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.index.errors import CatalogError
from opmkit.index.operations.prune import prune_database, prune_stranded_in_database
from opmkit.index.operations.remove import remove_from_database
from opmkit.index.operations.truncate.change import truncate_bundles
from opmkit.index.sqlite import replace_database
from tests.index.recorded_adds import REGISTRY, AddStep
from tests.kit.shared import assert_equal_index

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from opmkit.index.sqlite import IndexDatabase
    from tests.kit.shared import Case

    Change = Callable[[IndexDatabase, list[str], list[str]], object]

CHANGES: dict[str, tuple[str, Change]] = {
    "rm": ("--packages", lambda db, names, argv: remove_from_database(db, names, permissive="--permissive" in argv)),
    # Go opm ignores unknown packages
    "prune": ("--packages", lambda db, names, _: prune_database(db, names, permissive=True)),
    "prune-stranded": ("", lambda db, *_: prune_stranded_in_database(db)),
    "deprecatetruncate": (
        "--bundle-images",
        lambda db, names, argv: truncate_bundles(
            db,
            names,
            permissive="--permissive" in argv,
            allow_package_removal="--allow-package-removal" in argv,
        ),
    ),
}


@dataclass(frozen=True)
class RemovingStep:
    """A recorded command that removes content of a database."""

    argv: list[str]

    def run(self, path: Path) -> int:
        """Change the database at ``path``; return the exit code."""
        flag, change = CHANGES[self.argv[1]]
        values = dict(zip(self.argv, [*self.argv[1:], ""], strict=True))
        if flag == "--packages" and flag not in values:
            return 1  # a required flag
        names = [name.replace("{registry}", REGISTRY) for name in values.get(flag, "").split(",") if name]
        try:
            with replace_database(path, must_exist=True) as database:
                change(database, names, self.argv)
        except CatalogError as error:
            return error.exit_code
        return 0


def step(argv: list[str]) -> AddStep | RemovingStep | None:
    """Parse a recorded command line; return None for another command or unknown flags."""
    if argv[:1] == ["registry"] and argv[1] in CHANGES:
        return RemovingStep(argv)
    return AddStep.parse(argv)


def replay(case: Case, path: Path) -> None:
    """Replay a case; compare exit codes and the database with the record."""
    failed = False
    for recorded in case.record["steps"]:
        command = step(recorded["argv"])
        assert command is not None
        before = path.read_bytes() if path.exists() else None
        missing_database = before is None and isinstance(command, RemovingStep)
        status = command.run(path)
        if not failed:
            assert status == (1 if missing_database else recorded["exit"]), recorded
        failed = failed or status != 0 or recorded["exit"] != 0
        if status != 0:
            assert (path.read_bytes() if path.exists() else None) == before, "a failed step left a change"
        assert {file.name for file in path.parent.iterdir()} <= {path.name}
    if not failed:
        assert_equal_index(case.record, path, REGISTRY)
