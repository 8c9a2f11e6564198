"""Archives as the target of a mirror, with faults of the registry that they are read from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.kit.content import noise, put_image
from tests.kit.faults import Answer, Fault, FaultProxy, Reset

from opmkit.core.errors import DiskError
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions, RetryPolicy
from opmkit.supply.mirror.copy import MirrorCopy
from opmkit.supply.mirror.description import MirroredImage
from opmkit.supply.mirror.locations import open_layout_source
from opmkit.supply.mirror.model import MirrorRequest
from opmkit.supply.mirror.plan import ManifestSpool, plan_mirror
from opmkit.supply.mirror.target import ArchiveTarget

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.registry import Registry

HTTP = RegistryOptions(plain_http=True)


def test_faults_of_the_source(registry: Registry, tmp_path: Path) -> None:
    layers = [noise(300_000, 51), noise(200_000, 52)]
    manifest = put_image(RegistryClient(HTTP).target(Reference(registry.host, "archive-faults")), "1", *layers)
    faults = [
        Fault("GET", "/v2/archive-faults/blobs/", Reset(after=100_000), times=3),
        Fault("GET", "/v2/archive-faults/manifests/", Answer(503), times=2),
    ]
    path = tmp_path / "mirror.tar"
    target = ArchiveTarget(path)
    retry = RetryPolicy(sleep=lambda _: None)
    with (
        FaultProxy(registry.host, *faults) as proxy,
        RegistryClient(HTTP, retry=retry) as client,
        ManifestSpool() as spool,
    ):
        reference = Reference(proxy.host, "archive-faults", None, manifest.digest)
        plan = plan_mirror([MirrorRequest(reference)], client, target, spool)
        report = MirrorCopy(plan, client, target, spool).run()
        (image,) = report.copied
        assert target.commit([MirroredImage(f"{image.target}:{image.tag}", image.digest)])
    assert all(fault.matched > fault.times for fault in faults)
    source = open_layout_source(str(path), None)
    assert source is not None
    reader = source.repository(reference)
    assert reader.get_manifest(manifest.digest) == manifest
    for layer, content in zip(manifest.layers, layers, strict=True):
        with reader.open_blob(layer) as stream:
            assert stream.read() == content


def test_images_whose_content_is_missing_are_not_listed(tmp_path: Path) -> None:
    target = ArchiveTarget(tmp_path / "mirror.tar")
    with pytest.raises(DiskError, match="not found"):
        target.commit([MirroredImage("quay.io/me/app:1", f"sha256:{'0' * 64}")])
    target.close()
    assert not (tmp_path / "mirror.tar").exists()
