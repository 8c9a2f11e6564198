"""Signatures and attestations of mirrored images."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from opmkit.imagetools.image import load_image_or_index
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from opmkit.imagetools.signatures.keys import load_private_key
from opmkit.supply.mirror.attached import attached_requests
from opmkit.supply.mirror.model import MirrorRequest, PlannedImage
from tests.kit.catalogs import free_port
from tests.kit.faults import Answer, Fault, FaultProxy
from tests.kit.mirror_site import MirrorSite, SampleBundle
from tests.kit.opm import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit.imagetools.image import ImageIndex
    from tests.kit.opm import Opm
    from tests.kit.registry import Registry

SAMPLES = FIXTURES / "signatures"
KEY = ("--key", "env://SIGNING_KEY")
PUBLIC_KEY = ("--key", str(SAMPLES / "ecdsa.pub"))
COSIGN = "OPMKIT_REFERENCE_COSIGN"


@dataclass(frozen=True)
class Signed:
    """A catalog with a signed image index, whose second image is signed as well, and an attested bundle image."""

    opm: Opm
    site: MirrorSite
    catalog: str
    index: str
    child: str
    bundle: str

    @property
    def to(self) -> str:
        return f"{self.site.host}/to-{self.site.prefix}"

    def mirrored(self, image: str) -> str:
        return f"{self.to}/{image.partition('/')[2]}"

    def verify(self, image: str, command: str = "verify") -> subprocess.CompletedProcess[str]:
        """Verify the copy of an image in the mirror."""
        source = image.partition("@")[0]
        more = () if command == "verify-attestation" else ("--signed-repository", source)
        return self.opm.attempt("image", command, *PUBLIC_KEY, *more, self.mirrored(image))

    def check(self) -> None:
        for image in (self.index, self.child):
            done = self.verify(image)
            assert done.returncode == 0, done.stderr
        done = self.verify(self.bundle, "verify-attestation")
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def key() -> str:
    private = load_private_key(str(SAMPLES / "ecdsa.key"), lambda: "throw-away").key
    return private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


@pytest.fixture
def signed(opm_http: Opm, registry: Registry, tmp_path: Path, key: str) -> Signed:
    opm_http.env["SIGNING_KEY"] = key
    site = MirrorSite(registry.host, f"src-{tmp_path.name.replace('_', '-').lower()}", tmp_path)
    index, bundle = site.push_operand("team/fish", 41), site.push_bundle("team/reef", 42)
    with RegistryClient(RegistryOptions(plain_http=True)) as client:
        reference = Reference.parse(index)
        loaded: ImageIndex = load_image_or_index(client.repository(reference), reference.identifier)  # type: ignore[assignment]
    child = str(reference.with_digest(loaded.images[1].digest))
    for image in (index, child):
        opm_http("image", "sign", *KEY, image)
    (tmp_path / "sbom.json").write_text('{"spdxVersion": "SPDX-2.3"}')
    attest = ("image", "attest", *KEY, "--predicate", "sbom.json", "--type", "spdxjson", bundle)
    opm_http(*attest, "--new-bundle-format")
    return Signed(
        opm_http, site, site.push_catalog([SampleBundle("reef", "1.0.0", bundle, [index])]), index, child, bundle
    )


def test_signatures_and_attestations_travel_along(signed: Signed) -> None:
    done = signed.opm.attempt("mirror", signed.catalog, "--to", signed.to)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("6 images copied (")
    signed.check()
    again = signed.opm.attempt("mirror", signed.catalog, "--to", signed.to)
    assert again.stderr.startswith("0 images copied (0 B), 6 already present")


def test_signatures_are_carried_in_archives(signed: Signed) -> None:
    signed.opm("mirror", signed.catalog, "--to", "oci-archive:mirror.tar")
    signed.opm("mirror", "mirror.tar", "--to", signed.to)
    signed.check()


def test_later_signatures_of_mirrored_images(signed: Signed) -> None:
    done = signed.opm.attempt("mirror", signed.catalog, "--to", signed.to, "--no-signatures")
    assert done.stderr.startswith("3 images copied (")
    assert signed.verify(signed.index).returncode == 1
    later = signed.opm.attempt("mirror", signed.catalog, "--to", signed.to)
    assert later.stderr.startswith("3 images copied (")
    signed.check()


def test_cosign_verifies_a_mirrored_image(signed: Signed) -> None:
    program = os.environ.get(COSIGN)
    if not program:
        pytest.skip(f"{COSIGN} is not set to the path of cosign")
    signed.opm("mirror", signed.catalog, "--to", signed.to)
    flags = ("--allow-insecure-registry", "--insecure-ignore-tlog=true", "--key", str(SAMPLES / "ecdsa.pub"))
    for image in (signed.index, signed.child):
        subprocess.run([program, "verify", *flags, signed.mirrored(image)], check=True, capture_output=True)


@pytest.fixture
def moved(signed: Signed, tmp_path: Path) -> Signed:
    """Return the images under a name whose registry is gone, with the registry that has them as its mirror."""
    gone = f"127.0.0.1:{free_port()}"
    host = signed.site.host
    (tmp_path / "registries.conf").write_text(
        f'[[registry]]\nlocation = "{gone}"\n[[registry.mirror]]\nlocation = "{host}"\ninsecure = true\n'
    )
    signed.opm.env["CONTAINERS_REGISTRIES_CONF"] = str(tmp_path / "registries.conf")
    index, bundle = (image.replace(host, gone) for image in (signed.index, signed.bundle))
    signed.site.write_catalog(tmp_path / "moved", [SampleBundle("reef", "1.0.0", bundle, [index])])
    return replace(signed, catalog="moved")


def test_artifacts_are_those_of_the_mirror_if_the_source_is_gone(moved: Signed) -> None:
    target = ("--to", moved.to, "--target-catalog", "me/catalog:1", "--binary-image", "scratch")
    done = moved.opm.attempt("mirror", moved.catalog, *target)
    assert done.returncode == 0, done.stderr
    assert "looking for signatures in the mirrors of" in done.stderr
    moved.check()


def test_hint_names_the_flag_if_mirrors_refuse_signatures(moved: Signed, tmp_path: Path) -> None:
    faults = [
        Fault("(GET|HEAD)", rf"/v2/.*{part}", Answer(500), times=999) for part in (r"\.sig", "tags/list", "referrers")
    ]
    with FaultProxy(moved.site.host, *faults) as proxy:
        conf = tmp_path / "registries.conf"
        conf.write_text(conf.read_text().replace(moved.site.host, proxy.host))
        target = ("--to", moved.to, "--target-catalog", "me/catalog:1", "--binary-image", "scratch")
        done = moved.opm.attempt("mirror", moved.catalog, *target)
        assert (done.returncode, "with --no-signatures" in done.stderr) == (1, True), done.stderr
        done = moved.opm.attempt("mirror", moved.catalog, *target, "--no-signatures")
        assert done.returncode == 0, done.stderr


def test_registries_that_refuse_to_list_tags(signed: Signed, registry: Registry) -> None:
    fault = Fault("GET", r"/v2/.*/tags/list", Answer(403), times=99)
    with FaultProxy(registry.host, fault) as proxy, RegistryClient(RegistryOptions(plain_http=True)) as client:
        reference = Reference.parse(signed.index.replace(registry.host, proxy.host))
        image = PlannedImage(MirrorRequest(reference), str(reference.digest), "1", "x")
        requests, failures = attached_requests([image], client)
    tags = sorted(str(request.reference.tag) for request in requests)
    digests = (signed.index, signed.child)
    assert tags == sorted(f"{each.partition('@')[2].replace(':', '-')}.sig" for each in digests)
    assert failures == []
