"""Files that people find in their directories: written whole or not at all."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.imagetools.scratch import ScratchDirectory
from opmkit.imagetools.store.disk import disk_errors

if TYPE_CHECKING:
    from collections.abc import Mapping


def put_files(directory: Path, files: Mapping[str, bytes | Path]) -> None:
    """Write files below ``directory``, each by its relative path, from bytes or from another file.

    All are written before the first is moved to its place, so that a full disk changes nothing. Raises StoreError.
    """
    with disk_errors(directory), ScratchDirectory(".opm-", directory) as scratch:
        ready = Path(scratch)
        for name, source in files.items():
            (ready / name).parent.mkdir(parents=True, exist_ok=True)
            if isinstance(source, Path):
                shutil.copyfile(source, ready / name)
            else:
                (ready / name).write_bytes(source)
        for name in files:
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (ready / name).replace(directory / name)
