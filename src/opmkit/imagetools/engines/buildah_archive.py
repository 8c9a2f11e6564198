"""Writes what is at a path of a buildah container to standard output, as a tar archive.

A program of its own, since only processes in the user namespace of ``buildah unshare`` see the container's files.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

NOTHING_THERE = 44
"""The exit status where the container has nothing at the path."""
_HOPS = 40


def main(buildah: str, container: str, path: str) -> int:
    """Write the archive, its entries named from the path's last part; the exit status."""
    mount = subprocess.run([buildah, "mount", container], stdout=subprocess.PIPE, text=True, check=False)
    if mount.returncode:
        return mount.returncode
    place = find_inside(Path(mount.stdout.strip()), path)
    if place is None:
        return NOTHING_THERE
    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        archive.add(place, arcname=path.rpartition("/")[2])
    return 0


def find_inside(root: Path, path: str) -> Path | None:
    """Where the path is for a process whose root is ``root``; links lead to places under ``root`` only.

    A link at the path itself is not followed. None if there is nothing, or links go round in circles.
    """
    ahead = path.split("/")[::-1]
    parts: list[str] = []
    hops = 0
    while ahead:
        part = ahead.pop()
        place = root.joinpath(*parts, part)
        if part == "..":
            parts = parts[:-1]
        elif part not in {"", "."}:
            if not any(ahead) or not place.is_symlink():
                parts.append(part)
            elif (hops := hops + 1) <= _HOPS:
                target = place.readlink()
                parts = [] if target.is_absolute() else parts
                ahead += str(target).split("/")[::-1]
            else:
                return None
    place = root.joinpath(*parts)
    return place if place.exists() or place.is_symlink() else None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
