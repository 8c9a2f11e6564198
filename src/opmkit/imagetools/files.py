"""Atomic writes of several files."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.imagetools.scratch import ScratchDirectory
from opmkit.imagetools.store.disk import disk_errors

if TYPE_CHECKING:
    from collections.abc import Mapping


def write_files(directory: Path, files: Mapping[str, bytes | Path]) -> None:
    """Write files below ``directory``, by relative path, from bytes or from another file.

    Every file is written to a temporary directory before the first is moved, so that a full disk changes nothing. The
    mode of an existing file is retained.

    Raises:
        StoreError: a file cannot be written.
    """
    with disk_errors(directory), ScratchDirectory(".opm-", directory) as scratch:
        staging = Path(scratch)
        for name, source in files.items():
            (staging / name).parent.mkdir(parents=True, exist_ok=True)
            if isinstance(source, Path):
                shutil.copyfile(source, staging / name)
            else:
                (staging / name).write_bytes(source)
            if (directory / name).exists():
                shutil.copymode(directory / name, staging / name)
        for name in files:
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (staging / name).replace(directory / name)
