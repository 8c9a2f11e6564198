"""``opm mirror delete`` as a user meets it, with a registry that gives tokens."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from opmkit.supply.mirror.record import read_records
from tests.kit.faults import Answer, Fault, FaultProxy
from tests.kit.images import small_image
from tests.kit.mirror_site import MirrorSite, SampleBundle, digest_at
from tests.kit.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from subprocess import CompletedProcess

    from opmkit.supply.mirror.record import MirrorRecord
    from tests.kit.installed import InstalledOpm
    from tests.kit.tokenserver import TokenServer


def test_catalog_is_replaced_and_deleted(
    newcomer: InstalledOpm, registry: Registry, token_registry: Registry, token_server: TokenServer, tmp_path: Path
) -> None:
    site = MirrorSite(registry.host, "newcomer", tmp_path)
    reef, atoll = site.sample()
    first, second = site.push_catalog([reef, atoll], "1"), site.push_catalog([atoll], "2")
    login = {"auths": {token_registry.host: {"username": "tester", "password": "secret"}}}
    (newcomer.directory / "auth.json").write_text(json.dumps(login))
    flags = ("--to", f"{token_registry.host}/mirror", "--use-http", "--authfile", "auth.json")
    newcomer("mirror", first, *flags, "--target-catalog", "current:1")
    newcomer("mirror", second, *flags)
    replaced = newcomer.attempt("mirror", second, *flags, "--target-catalog", "current:1", "--prune")
    assert replaced.returncode == 0, replaced.stderr
    assert "3 images deleted with 4 manifests of signatures and platforms, 0 kept" in replaced.stderr
    name = f"{token_registry.host}/mirror/current:1"
    planned = newcomer("mirror", "delete", name, *flags)
    assert [line.split()[1] for line in planned.splitlines()[1:-1]] == ["kept", "kept", "delete"]
    both = newcomer("mirror", "delete", name, second, *flags, "--yes", "--output", "json")
    assert {image["state"] for image in json.loads(both)["images"]} == {"deleted"}
    again = newcomer.attempt("mirror", "delete", second, *flags)
    assert (again.returncode, again.stdout) == (1, "")
    assert again.stderr == (
        f"Error: {second}: the target has no {token_registry.host}/mirror/newcomer/catalog:2\n"
        "  hint: check the name, and the target\n"
    )
    scopes = {
        scope.partition(":")[0] + ":" + scope.rpartition(":")[2]
        for each in token_server.issued
        for scope in each.scopes
    }
    assert scopes == {"registry:*", "repository:pull", "repository:pull,push", "repository:delete,pull"}


@dataclass(frozen=True)
class Mirrors:
    """Two mirrored catalogs in an empty registry, of which the second needs a part of what the first does."""

    opm: InstalledOpm
    site: MirrorSite
    bundles: list[SampleBundle]
    catalogs: list[str]
    host: str

    def delete(self, *arguments: str, host: str = "") -> CompletedProcess[str]:
        to = ("--to", f"{host or self.host}/m", "--use-http")
        return self.opm.attempt("mirror", "delete", *arguments, *to)

    def mirror(self, *arguments: str, host: str = "") -> CompletedProcess[str]:
        return self.opm.attempt("mirror", *arguments, "--to", f"{host or self.host}/m", "--use-http")

    def at(self, image: str) -> str:
        return f"{self.host}/m/{image.partition('/')[2]}"

    def has(self, *images: str) -> list[bool]:
        return [bool(digest_at(self.at(image))) for image in images]


@pytest.fixture
def mirrors(newcomer: InstalledOpm, registry: Registry, tmp_path: Path) -> Iterator[Mirrors]:
    site = MirrorSite(registry.host, f"first-{tmp_path.name.replace('_', '-').lower()}", tmp_path)
    bundles = site.sample()
    catalogs = [site.push_catalog(bundles, "1"), site.push_catalog(bundles[1:], "2")]
    with Registry() as target:
        mirrors = Mirrors(newcomer, site, bundles, catalogs, target.host)
        for catalog in catalogs:
            done = mirrors.mirror(catalog)
            assert done.returncode == 0, done.stderr
        yield mirrors


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/v2/m/.*/catalog/tags/list", Answer(404)),
        ("/v2/m/.*/catalog/tags/list", Answer(200, {}, b'{"name": "catalog", "tags": []}')),
        ("/v2/m/.*/catalog/manifests/2", Answer(404)),
        ("/v2/m/.*/catalog/blobs/", Answer(404)),
        ("/v2/m/.*/catalog/manifests/", Answer(429, {"Retry-After": "0"})),
        ("/v2/m/theirs/app/manifests/", Answer(200, {"Content-Type": "application/x"}, b'{"schemaVersion": 2}')),
    ],
    ids=["no tag list", "empty tag list", "no manifest", "no record or configuration", "429", "unknown type"],
)
def test_answer_that_is_not_understood_ends_the_deletion(mirrors: Mirrors, path: str, answer: Answer) -> None:
    MirrorSite(mirrors.host, "m/theirs", mirrors.site.scratch).push_operand("app", 35)
    with FaultProxy(mirrors.host, Fault("(GET|HEAD)", path, answer, times=1 << 20)) as proxy:
        name = f"{proxy.host}/m/{mirrors.catalogs[0].partition('/')[2]}"
        done = mirrors.delete(name, "--yes", "--yes-unrecorded", host=proxy.host)
        assert (done.returncode, proxy.count("DELETE")) == (1, 0), done.stdout
    assert done.stderr.startswith("Error: ")
    assert "\n  hint: " in done.stderr
    needed = [image for bundle in mirrors.bundles for image in (bundle.image, *bundle.images)]
    assert mirrors.has(*mirrors.catalogs, *needed) == [True] * (2 + len(needed))


def test_catalogs_and_images_of_others_are_kept(mirrors: Mirrors) -> None:
    """Images without a record, a catalog without a label, and a tag that somebody else has set."""
    reef = mirrors.bundles[0]
    theirs = MirrorSite(mirrors.host, "m/theirs", mirrors.site.scratch)
    blobs = "\n".join(map(json.dumps, SampleBundle("theirs", "1.0.0", reef.images[0]).blobs()))
    theirs.push("catalog", "1", small_image(mirrors.site.scratch, {"configs/theirs.json": blobs.encode()}))
    theirs.push("other", "1", small_image(mirrors.site.scratch, {"file": b"of somebody else"}))
    before = digest_at(f"{mirrors.host}/m/theirs/other:1")
    refused = mirrors.mirror(mirrors.catalogs[1], "--target-catalog", "theirs/other:1")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert f"{mirrors.host}/m/theirs/other:1: refusing to move the tag: it names {before}" in refused.stderr
    assert "--overwrite-tags" in refused.stderr
    refused = mirrors.delete(f"{mirrors.host}/m/theirs/catalog:1", "--yes")
    assert (refused.returncode, "pass --yes-unrecorded" in refused.stderr) == (1, True)
    shown = mirrors.delete(f"{mirrors.host}/m/theirs/catalog:1", "--yes-unrecorded")
    assert (shown.returncode, "pass --yes\n" in shown.stderr) == (0, True)
    assert digest_at(f"{mirrors.host}/m/theirs/catalog:1")
    done = mirrors.delete(mirrors.catalogs[0], "--yes")
    assert done.returncode == 0, done.stderr
    assert mirrors.has(reef.image, reef.images[0], *mirrors.bundles[1].images) == [False, True, True]
    assert digest_at(f"{mirrors.host}/m/theirs/other:1") == before
    assert mirrors.mirror(mirrors.catalogs[1], "--target-catalog", "theirs/other:1", "--overwrite-tags").returncode == 0
    assert digest_at(f"{mirrors.host}/m/theirs/other:1") == digest_at(mirrors.catalogs[1])


def record_at(name: str) -> dict[str, MirrorRecord]:
    with RegistryClient(RegistryOptions(plain_http=True)) as client:
        return read_records(client.repository(Reference.parse(name)))


def test_wrong_answers_about_records_and_deletes(mirrors: Mirrors) -> None:
    """A denied read of a record, a link without a relation, and deletes that are accepted and not done."""
    name = mirrors.catalogs[0].partition("/")[2]
    before = record_at(f"{mirrors.host}/m/{name}")
    assert len(before) == 2
    faults = {
        "/v2/m/.*/manifests/mirror-record": ("GET", Answer(403)),
        "/v2/_catalog": ("GET", Answer(200, {"Link": "</v2/_catalog?last=m>"}, b'{"repositories": []}')),
        "/v2/m/": ("DELETE", Answer(202)),
    }
    for path, (method, answer) in faults.items():
        with FaultProxy(mirrors.host, Fault(method, path, answer, times=1 << 20)) as proxy:
            if answer.status == 403:
                mirrored = mirrors.mirror(mirrors.catalogs[0], host=proxy.host)
                assert (mirrored.returncode, "access denied" in mirrored.stderr) == (1, True)
            done = mirrors.delete(f"{proxy.host}/m/{name}", "--yes", host=proxy.host)
            assert (done.returncode, "Error: " in done.stderr) == (1, True)
        assert record_at(f"{mirrors.host}/m/{name}") == before
    assert "but still has it" in done.stderr
    assert mirrors.has(*mirrors.catalogs, mirrors.bundles[0].image) == [True] * 3


def test_advice_about_unrecorded_images(mirrors: Mirrors) -> None:
    """It is given before the catalog is gone, by which the images are found."""
    image = small_image(mirrors.site.scratch, {"file": b"was there before"})
    target = MirrorSite(mirrors.host, f"m/{mirrors.site.prefix}", mirrors.site.scratch)
    target.push("solo", f"mirrored-{image.digest.replace(':', '-')}", image)
    bundle = SampleBundle("solo", "1.0.0", mirrors.bundles[0].image, [mirrors.site.push("solo", "1", image)])
    catalog = mirrors.site.push_catalog([bundle], "3")
    assert mirrors.mirror(catalog).returncode == 0
    planned = mirrors.delete(catalog)
    assert "pass --yes-unrecorded in addition to --yes; a deletion without it leaves nothing" in planned.stderr
    done = mirrors.delete(catalog, "--yes")
    assert (done.returncode, "--yes-unrecorded" in done.stderr) == (0, False), done.stderr
    assert "nothing leads to them any more" in done.stderr
    assert mirrors.has(catalog, *bundle.images) == [False, True]


def test_help(newcomer: InstalledOpm) -> None:
    shown = newcomer("help", "mirror", "delete")
    assert shown == newcomer("mirror", "delete", "--help")
    assert "Usage: opm mirror delete" in shown
    assert "delete" in newcomer("__complete", "mirror", "de")
    assert newcomer("--debug", "mirror", "delete", "--help") == shown
