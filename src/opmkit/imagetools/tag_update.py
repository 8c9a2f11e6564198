"""Change of a tag by several writers at the same time."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

from opmkit.core import interrupts
from opmkit.imagetools.errors import NotFound, TagMoved

if TYPE_CHECKING:
    from collections.abc import Callable

    from opmkit.imagetools.repository import Repository
    from opmkit.imagetools.spec import Descriptor, IndexManifest, Manifest

_MAX_ATTEMPTS = 40
_MAX_WAIT = 2.0


def update_tag(
    repository: Repository,
    tag: str,
    change: Callable[[Manifest | IndexManifest | None], Manifest | IndexManifest],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = interrupts.sleep,
) -> Descriptor:
    """Move a tag to what ``change`` returns for its current target, None if it does not exist.

    ``change`` must return its argument if it contains the change already. Registries cannot compare and move a tag in
    one request. After moving it, this function waits for longer than a competing writer probably needs from reading the
    tag to moving it, two to three times its own longest try, reads the tag, and starts again if the change was
    overwritten.

    Raises:
        TagMoved: Other writers keep moving the tag.
    """
    longest = 0.0
    for _ in range(_MAX_ATTEMPTS):
        started = clock()
        current = _read(repository, tag)
        changed = change(current)
        if current is not None and changed.digest == current.digest:
            return current.descriptor
        try:
            repository.put_manifest(changed, tag, replacing=current.digest if current else "")
        except TagMoved:
            wait = random.random()  # noqa: S311 (not a secret)
        else:
            wait = 2 + random.random()  # noqa: S311 (not a secret)
        longest = max(longest, clock() - started)
        sleep(min(wait * longest, _MAX_WAIT))
    raise TagMoved(f"tag {tag}: other writers moved it {_MAX_ATTEMPTS} times", hint="try again")


def _read(repository: Repository, tag: str) -> Manifest | IndexManifest | None:
    try:
        return repository.get_manifest(tag)
    except NotFound:
        return None
