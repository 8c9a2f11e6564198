"""Program that writes a path of a buildah container to standard output, as a tar archive.

It is run by ``buildah unshare``: only processes in its user namespace can access the files of the container.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

EXIT_NOT_FOUND = 44
"""Exit status if the path does not exist in the container."""
_MAX_LINKS = 40


def main(buildah: str, container: str, path: str) -> int:
    """Write the archive, with entries named from the last component of the path, and return the exit status."""
    mount = subprocess.run([buildah, "mount", container], stdout=subprocess.PIPE, text=True, check=False)
    if mount.returncode:
        return mount.returncode
    file = resolve_in_root(Path(mount.stdout.strip()), path)
    if file is None:
        return EXIT_NOT_FOUND
    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        archive.add(file, arcname=path.rpartition("/")[2])
    return 0


def resolve_in_root(root: Path, path: str) -> Path | None:
    """Resolve a path as a process whose root directory is ``root`` does, except for a link at the path itself.

    Return None if the path does not exist or has too many levels of links.
    """
    pending = path.split("/")[::-1]
    resolved: list[str] = []
    links = 0
    while pending:
        part = pending.pop()
        file = root.joinpath(*resolved, part)
        if part == "..":
            resolved = resolved[:-1]
        elif part not in {"", "."}:
            if not any(pending) or not file.is_symlink():
                resolved.append(part)
            elif (links := links + 1) <= _MAX_LINKS:
                target = file.readlink()
                resolved = [] if target.is_absolute() else resolved
                pending += str(target).split("/")[::-1]
            else:
                return None
    file = root.joinpath(*resolved)
    return file if file.exists() or file.is_symlink() else None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
