"""The public API in an event loop: concurrent calls of one client, and cancellation."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from opmkit import IndexPlan, MirrorResult, Opm, RegistryOptions
from tests.kit.mirror_site import MirrorSite, digest_at, incomplete_tags
from tests.kit.opm import LAGOON

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.registry import Registry

CALLS = 20


class Stopped(Exception):
    """The call was cancelled."""


class StopOnCancel:
    """A receiver of progress reports that ends the call once ``stop`` is set.

    With ``hold``, the first call of ``advance`` waits until then, so that the call is in the middle of its work.
    """

    def __init__(self, *, hold: bool = False) -> None:
        self.stop = threading.Event()
        self.reached = threading.Event()
        self._hold = hold

    def begin(self, label: str, total: int | None, unit: str = "bytes") -> None:
        """End the call if it is cancelled."""
        self._check()

    def advance(self, count: int) -> None:
        """End the call if it is cancelled."""
        self.reached.set()
        if self._hold:
            assert self.stop.wait(60)
        self._check()

    def end(self) -> None:
        """Do nothing."""

    def _check(self) -> None:
        if self.stop.is_set():
            raise Stopped


@pytest.fixture
def api(tmp_path: Path) -> Opm:
    return Opm(RegistryOptions(plain_http=True), tmp_path / "store")


def test_concurrent_validations_and_reads(registry: Registry, api: Opm, tmp_path: Path) -> None:
    host = f"{registry.host}/api-asyncio"
    bundle = api.build_bundle(
        LAGOON / "0.1.0" / "manifests",
        f"{host}/bundle:1",
        package="lagoon-operator",
        channels=["alpha"],
        output=tmp_path / "bundle",
        push=True,
    ).reference
    api.add_bundles([bundle], IndexPlan(tags=(f"{host}/index:1",), binary_image="scratch", push=True))

    async def run() -> tuple[list[Any], list[Any], int]:
        ticks = 0

        async def count() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        counter = asyncio.create_task(count())
        validations = [asyncio.to_thread(api.validate_bundles, [bundle]) for _ in range(CALLS)]
        reads = [asyncio.to_thread(api.list_images, f"{host}/index:1") for _ in range(CALLS)]
        results = await asyncio.gather(*validations, *reads)
        counter.cancel()
        return results[:CALLS], results[CALLS:], ticks

    validated, listed, ticks = asyncio.run(run())
    assert [result.to_dict() for (result,) in validated] == [validated[0][0].to_dict()] * CALLS
    assert validated[0][0].name == "lagoon-operator.v0.1.0"
    assert listed == [listed[0]] * CALLS
    assert bundle in [image.image for image in listed[0]]
    assert ticks > CALLS


def test_a_cancelled_task_stops_the_call(registry: Registry, api: Opm, tmp_path: Path) -> None:
    site = MirrorSite(registry.host, "api-asyncio-cancel", tmp_path)
    catalog, to = site.push_catalog(site.sample()), f"{site.host}/{site.prefix}-copy"

    async def mirror(progress: StopOnCancel) -> MirrorResult:
        call = asyncio.create_task(asyncio.to_thread(api.mirror, catalog, to, progress=progress))
        try:
            return await asyncio.shield(call)
        except asyncio.CancelledError:
            progress.stop.set()
            await asyncio.wait([call])
            assert isinstance(call.exception(), Stopped)
            raise

    async def run() -> None:
        progress = StopOnCancel(hold=True)
        task = asyncio.create_task(mirror(progress))
        assert await asyncio.to_thread(progress.reached.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    before = threading.active_count()
    asyncio.run(run())
    assert threading.active_count() == before
    assert digest_at(f"{to}/{site.prefix}/catalog:1") == ""
    assert incomplete_tags(site.host, site.prefix) == []
    assert not asyncio.run(mirror(StopOnCancel())).failures
    assert digest_at(f"{to}/{site.prefix}/catalog:1") == digest_at(catalog)


def test_a_call_whose_task_is_cancelled_alone_completes(registry: Registry, api: Opm, tmp_path: Path) -> None:
    site = MirrorSite(registry.host, "api-asyncio-abandon", tmp_path)
    catalog, to = site.push_catalog(site.sample()), f"{site.host}/{site.prefix}-copy"

    class Gate(StopOnCancel):
        """A receiver that waits, and continues the call."""

        def _check(self) -> None:
            return

    async def run() -> None:
        gate = Gate(hold=True)
        task = asyncio.create_task(asyncio.to_thread(api.mirror, catalog, to, progress=gate))
        assert await asyncio.to_thread(gate.reached.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        gate.stop.set()

    asyncio.run(run())  # waits for the thread
    assert digest_at(f"{to}/{site.prefix}/catalog:1") == digest_at(catalog)
    assert incomplete_tags(site.host, site.prefix) == []
