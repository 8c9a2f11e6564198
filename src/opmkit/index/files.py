"""Files that people find in their directories: written whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def put_files(directory: Path, files: Mapping[str, bytes | Path]) -> None:
    """Write files below ``directory``, each by its relative path from bytes or from another file.

    All are written beside their places before the first is moved there, so that a full disk changes nothing. Raises
    OSError.
    """
    ready: list[tuple[Path, Path]] = []
    try:
        for name, source in files.items():
            target = directory / name
            target.parent.mkdir(parents=True, exist_ok=True)
            handle, name_beside = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
            beside = Path(name_beside)
            ready.append((beside, target))
            with os.fdopen(handle, "wb") as out:
                if isinstance(source, bytes):
                    out.write(source)
                else:
                    with source.open("rb") as file:
                        shutil.copyfileobj(file, out, 1 << 20)
            beside.chmod(0o644)
        for written, target in ready:
            written.replace(target)
    finally:
        for written, _ in ready:
            written.unlink(missing_ok=True)
