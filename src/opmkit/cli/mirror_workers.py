"""Distribution of ``opm mirror`` over shards and workers."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from opmkit.cli.output.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from opmkit.cli.flags.executors import CommandExecutor
    from opmkit.core.shard import Shard
    from opmkit.supply.mirror.mirror import MirrorDistribution
    from opmkit.supply.mirror.target import ArchiveLocation, RegistryLocation


def check_scale_flags(
    executor: CommandExecutor | None,
    shard: Shard | None,
    location: RegistryLocation | ArchiveLocation | Path,
    *,
    has_manifests: bool,
) -> None:
    """Raise UsageError if a mirror to the target, or the manifests for it, cannot be distributed."""
    from opmkit.supply.mirror.target import RegistryLocation

    if has_manifests and shard:
        raise UsageError(
            "--manifests and --shard cannot be used together: the manifests cover all images",
            hint="pass --manifests to the command without --shard that copies the catalog",
        )
    flag = "--executor" if executor else "--shard" if shard else ""
    if flag and not isinstance(location, RegistryLocation):
        raise UsageError(
            f"{flag} requires a registry as the target: a directory or archive is written by one process",
            hint=f"mirror to a registry, or omit {flag}",
        )


@contextmanager
def mirror_distribution(
    executor: CommandExecutor | None,
    shard: Shard | None,
    location: RegistryLocation | ArchiveLocation | Path,
    max_components: int | None,
) -> Iterator[MirrorDistribution]:
    """Open the executor; leaving the block cancels its pending tasks.

    Raises:
        ExecutorError: The scheduler cannot be reached, or the library for it is not installed.
    """
    from opmkit.supply.mirror.mirror import MirrorDistribution
    from opmkit.supply.mirror.target import RegistryLocation

    if executor is None or not isinstance(location, RegistryLocation):
        yield MirrorDistribution(shard=shard)
        return
    from opmkit.supply.mirror.worker_engine import MirrorAccess, MirrorWorkers

    with executor.location.open() as pool:
        yield MirrorDistribution(MirrorWorkers(pool, MirrorAccess(executor.worker, location, max_components)), shard)
