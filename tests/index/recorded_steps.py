"""Recorded steps of every kind that changes a database, run on the functions themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.index.errors import CatalogError
from opmkit.index.operations.prune import prune_database, prune_stranded_in_database
from opmkit.index.operations.remove import remove_from_database
from opmkit.index.operations.truncate.sqlite import truncate_bundles
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
    "prune": (
        "--packages",
        lambda db, names, _: prune_database(db, names, permissive=True),
    ),  # Go ignores unknown names
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
class TakingStep:
    """A recorded command that takes away from a database."""

    argv: list[str]

    def run(self, path: Path) -> int:
        """Change the database at ``path``; the exit status."""
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


def step(argv: list[str]) -> AddStep | TakingStep | None:
    """What a recorded command line asks for; None if it is something else, or an add that is not known here."""
    if argv[:1] == ["registry"] and argv[1] in CHANGES:
        return TakingStep(argv)
    return AddStep.read(argv)


def replay(case: Case, path: Path) -> None:
    """Run the steps of a case, and hold exits and database against the record (see its README on failing steps)."""
    failed = False
    for recorded in case.record["steps"]:
        known = step(recorded["argv"])
        assert known is not None
        before = path.read_bytes() if path.exists() else None
        taking_from_nothing = before is None and isinstance(known, TakingStep)
        status = known.run(path)
        if not failed:
            assert status == (1 if taking_from_nothing else recorded["exit"]), recorded
        failed = failed or status != 0 or recorded["exit"] != 0
        if status != 0:
            assert (path.read_bytes() if path.exists() else None) == before, "a failed step left a change"
        assert {file.name for file in path.parent.iterdir()} <= {path.name}
    if not failed:
        assert_equal_index(case.record, path, REGISTRY)
