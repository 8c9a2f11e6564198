"""``opm bundle pin`` of the installed wheel, without a registry, and with one that lies."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

from opmkit.imagetools.spec import Manifest, media_types
from tests.kit.content import CONFIG, described
from tests.kit.opm import LAGOON
from tests.kit.webserver import QuietHandler, WebServer

if TYPE_CHECKING:
    from tests.kit.installed import InstalledOpm

IMAGE = "registry.example.com/water/lagoon-operator:0.1.0"
PINNED = f"registry.corp/lagoon-operator@sha256:{'0' * 64}"


def test_a_bundle_is_checked_and_pinned_with_a_file(newcomer: InstalledOpm) -> None:
    bundle = newcomer.directory / "bundle"
    shutil.copytree(LAGOON / "0.1.0" / "manifests", bundle / "manifests")
    csv = bundle / "manifests" / "lagoon-operator.clusterserviceversion.yaml"
    before = csv.read_text()
    failed = newcomer.attempt("bundle", "pin", "bundle", "--check")
    assert failed.returncode == 1
    assert failed.stdout.splitlines()[-1].startswith(f"bundle/manifests/{csv.name}:80: {IMAGE} (container ")
    (newcomer.directory / "replacements.json").write_text(json.dumps({IMAGE: PINNED}))
    newcomer("bundle", "pin", "bundle", "--replacements", "replacements.json", "--related-images", "keep")
    assert csv.read_text() == before.replace(IMAGE, PINNED)
    newcomer("bundle", "pin", "bundle", "--check")


def test_the_digest_in_a_header_is_not_pinned(newcomer: InstalledOpm) -> None:
    manifest = Manifest.build(described(CONFIG, media_types.OCI_CONFIG), ())
    false = f"sha256:{'f' * 64}"

    class Handler(QuietHandler):
        def _serve(self) -> None:
            digest = false if self.command == "HEAD" else manifest.digest
            headers = {"Docker-Content-Digest": digest, "Content-Type": media_types.OCI_MANIFEST}
            self.answer(200, manifest.raw, headers)

        do_GET = do_HEAD = _serve  # noqa: N815

    bundle = newcomer.directory / "bundle"
    shutil.copytree(LAGOON / "0.1.0" / "manifests", bundle / "manifests")
    csv = bundle / "manifests" / "lagoon-operator.clusterserviceversion.yaml"
    with WebServer(Handler) as registry:
        csv.write_text(csv.read_text().replace("registry.example.com", registry.host))
        newcomer("bundle", "pin", "--use-http", "bundle", "--related-images", "keep")
    assert false not in csv.read_text()
    assert f"lagoon-operator@{manifest.digest}" in csv.read_text()
