"""``opm mirror delete`` and ``opm mirror --prune`` with real registries."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from opmkit.imagetools.errors import NotFound
from opmkit.imagetools.image import Image
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from opmkit.imagetools.signatures.keys import load_private_key
from opmkit.imagetools.spec import Platform
from opmkit.supply.mirror.record import is_record_tag
from tests.e2e.test_kill import KillingProxy, run_through
from tests.kit.faults import Answer, Fault, FaultProxy
from tests.kit.images import multi_image
from tests.kit.mirror_site import MirrorSite, SampleBundle, digest_at, incomplete_tags
from tests.kit.opm import FIXTURES
from tests.kit.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from subprocess import CompletedProcess

    from tests.kit.opm import Opm

ALWAYS = 1 << 20
_PLAIN_HTTP = RegistryOptions(plain_http=True)


@dataclass(frozen=True)
class Mirror:
    """Two mirrored catalogs: both have ``atoll``, which needs ``kelp``, the first also ``reef``: ``fish``, ``kelp``."""

    site: MirrorSite
    opm: Opm
    host: str
    catalogs: Sequence[str]
    bundles: Sequence[SampleBundle]

    @property
    def to(self) -> str:
        return f"{self.host}/m"

    def at(self, image: str) -> str:
        """Return the reference of an image in the mirror."""
        return f"{self.to}/{image.partition('/')[2]}"

    def has(self, *images: str) -> list[bool]:
        """Return which images the mirror has, complete."""
        return [bool(digest_at(self.at(image))) for image in images]

    def delete(self, *arguments: str, to: str = "") -> CompletedProcess[str]:
        return self.opm.attempt("mirror", "delete", *arguments, "--to", to or self.to)

    def plan(self, *arguments: str) -> dict[str, dict[str, Any]]:
        """Return the planned images by their repositories below the prefix."""
        done = self.delete(*arguments, "--output", "json")
        assert done.returncode == 0, done.stderr
        start = f"{self.to}/{self.site.prefix}/"
        return {
            image["target"].removeprefix(start).rpartition(":")[0]: image for image in json.loads(done.stdout)["images"]
        }

    def tag(self, image: str, tag: str) -> None:
        """Give an image of the mirror another tag."""
        reference = Reference.parse(self.at(image))
        with RegistryClient(_PLAIN_HTTP) as client:
            repository = client.target(reference)
            repository.put_manifest(repository.get_manifest(reference.identifier), tag)

    def tags(self) -> list[str]:
        """Return all tags of the registry, except those of records."""
        with urllib.request.urlopen(f"http://{self.host}/v2/_catalog?n=1000", timeout=30) as response:
            names = json.load(response)["repositories"]
        found = []
        with RegistryClient(_PLAIN_HTTP) as client:
            for name in names:
                try:
                    tags = client.target(Reference.parse(f"{self.host}/{name}")).tags()
                    found += [f"{name}:{tag}" for tag in tags if not is_record_tag(tag)]
                except NotFound:
                    continue
        return found


@pytest.fixture
def target() -> Iterator[Registry]:
    """Start an empty registry."""
    with Registry() as started:
        yield started


@pytest.fixture
def mirror(opm_http: Opm, registry: Registry, target: Registry, tmp_path: Path) -> Mirror:
    return mirrored(opm_http, new_site(registry, tmp_path), target.host)


def new_site(registry: Registry, directory: Path) -> MirrorSite:
    return MirrorSite(registry.host, f"del-{directory.name.replace('_', '-').lower()}", directory)


def mirrored(opm: Opm, site: MirrorSite, host: str, *, is_mirrored: bool = True) -> Mirror:
    """Push the two catalogs, and mirror both."""
    reef, atoll = site.sample()
    catalogs = [site.push_catalog([reef, atoll], "1"), site.push_catalog([atoll], "2")]
    result = Mirror(site, opm, host, catalogs, (reef, atoll))
    for catalog in catalogs if is_mirrored else ():
        opm("mirror", catalog, "--to", result.to)
    return result


def test_plan_deletes_nothing(mirror: Mirror) -> None:
    before = mirror.tags()
    done = mirror.delete(mirror.catalogs[0])
    assert done.returncode == 0, done.stderr
    rows = {line.split()[0].split("/")[-1].split(":")[0]: line.split()[1] for line in done.stdout.splitlines()[1:-1]}
    assert rows == {
        "atoll-bundle": "kept",
        "kelp": "kept",
        "reef-bundle": "delete",
        "fish": "delete",
        "catalog": "delete",
    }
    assert "bundle atoll.v0.1.0" in done.stdout
    assert done.stderr.endswith("Nothing was deleted. To delete the images, pass --yes\n")
    assert mirror.tags() == before


def test_what_another_catalog_needs_is_kept(mirror: Mirror) -> None:
    first, second = mirror.catalogs
    reef, atoll = mirror.bundles
    fish, kelp = reef.images
    children = children_of(mirror.at(fish))
    done = mirror.delete(first, "--yes")
    assert done.returncode == 0, done.stderr
    assert "3 images deleted with 4 manifests of signatures and platforms, 2 kept" in done.stdout
    assert mirror.has(first, reef.image, fish) == [False] * 3
    assert mirror.has(second, atoll.image, kelp) == [True] * 3
    assert [digest_at(f"{mirror.at(fish).partition('@')[0]}@{child}") for child in children] == ["", ""]
    assert incomplete_tags(mirror.host) == []
    assert mirror.delete(mirror.at(second), "--yes").returncode == 0
    assert mirror.tags() == []
    again = mirror.delete(second)
    assert (again.returncode, "the target has no " in again.stderr) == (1, True)


def children_of(reference: str) -> list[str]:
    parsed = Reference.parse(reference)
    with RegistryClient(_PLAIN_HTTP) as client:
        return [child.digest for child in client.target(parsed).get_manifest(parsed.identifier).children]


def test_two_catalogs_at_once(mirror: Mirror) -> None:
    done = mirror.delete(*mirror.catalogs, "--yes")
    assert (done.returncode, mirror.tags()) == (0, []), done.stderr
    assert done.stderr.endswith("Catalogs that remain in the target: none\n")


def test_image_and_catalog_with_another_tag_are_kept(mirror: Mirror) -> None:
    first = mirror.catalogs[0]
    reef = mirror.bundles[0]
    mirror.tag(reef.images[0], "pinned")
    assert mirror.plan(first)["team/fish"]["kept_for"] == "its tag pinned"
    mirror.tag(first, "stable")
    planned = mirror.plan(first)
    assert {image["state"] for image in planned.values()} == {"kept"}  # since the catalog remains
    assert planned["catalog"]["kept_for"] == "its tag stable"
    both = (first, f"{mirror.at(first).rpartition(':')[0]}:stable")
    planned = mirror.plan(*both)  # no mirror has set the tag
    assert (planned["catalog"]["state"], planned["reef-bundle"]["state"]) == ("unrecorded", "unrecorded")
    assert mirror.delete(*both, "--yes", "--yes-unrecorded").returncode == 0
    assert mirror.has(first, mirror.bundles[0].image, mirror.bundles[0].images[0]) == [False, False, True]


def test_image_in_a_kept_index_is_kept(mirror: Mirror, tmp_path: Path) -> None:
    """A single image that was mirrored for one catalog is also in an index of another tag."""
    site = mirror.site
    image = Image.scratch(Platform.parse("linux/amd64"))
    single = site.push("single", "1", image)
    catalog = site.push_catalog([SampleBundle("lone", "1.0.0", site.push_bundle("lone-bundle", 5), [single])], "3")
    mirror.opm("mirror", catalog, "--to", mirror.to)
    index = MirrorSite(mirror.host, f"m/{site.prefix}", tmp_path).push("single", "index", multi_image([image]))
    planned = mirror.plan(catalog)
    assert planned["single"]["state"] == "kept"
    assert f"{index.partition('@')[2]}, which contains it: its tag index" in planned["single"]["kept_for"]


def test_further_catalogs_are_named(mirror: Mirror) -> None:
    """A catalog directory that clusters use keeps the images of its bundles, by digest and by tag."""
    first, second = mirror.catalogs
    fish, kelp = mirror.bundles[0].images
    directory = mirror.site.scratch / "kept"
    mirror.site.write_catalog(directory, [SampleBundle("other", "1.0.0", "quay.io/other/bundle:1", [fish, kelp])])
    planned = mirror.plan(first, second, "--keep", str(directory))
    states = {name: image["state"] for name, image in planned.items()}
    assert states == {
        "reef-bundle": "delete",
        "atoll-bundle": "delete",
        "team/fish": "kept",
        "kelp": "kept",
        "catalog": "delete",
    }
    assert planned["kelp"]["kept_for"] == f"{directory}, bundle other.v1.0.0"


def test_catalog_next_to_the_prefix_is_found(mirror: Mirror) -> None:
    """It names an image below the prefix by its name in the registry."""
    first, inner = mirror.catalogs[0], f"{mirror.to}/inner"
    mirror.opm("mirror", first, "--to", inner)
    fish, kelp = (f"{inner}/{image.partition('/')[2]}" for image in mirror.bundles[0].images)
    team = MirrorSite(mirror.host, "m/team", mirror.site.scratch)
    team.push_catalog([SampleBundle("solo", "1.0.0", fish)], "5")
    done = mirror.delete(first, "--yes", to=inner)
    assert done.returncode == 0, done.stderr
    assert [digest_at(fish) == fish.partition("@")[2], digest_at(kelp)] == [True, ""]
    assert "m/team/catalog:5, bundle solo.v1.0.0" in done.stdout


def test_images_that_are_known_by_tag(mirror: Mirror) -> None:
    site = mirror.site
    plain = site.push_operand("plain", 31).partition("@")[0] + ":1"
    bundles = [
        SampleBundle(name, "1.0.0", site.push_bundle(f"{name}-bundle", seed), [plain])
        for name, seed in (("a", 6), ("b", 7))
    ]
    one, two = site.push_catalog(bundles[:1], "a"), site.push_catalog(bundles[1:], "b")
    for catalog in (one, two):
        mirror.opm("mirror", catalog, "--to", mirror.to)
    assert mirror.plan(one)["plain"]["kept_for"].endswith("/catalog:b, bundle b.v1.0.0")
    assert mirror.plan(one, two)["plain"]["state"] == "delete"


def test_signatures_and_attestations_are_deleted(mirror: Mirror) -> None:
    sample = FIXTURES / "signatures" / "ecdsa.key"
    private = load_private_key(str(sample), lambda: "throw-away").key
    mirror.opm.env["SIGNING_KEY"] = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    reef, atoll = mirror.bundles
    sign = ("image", "sign", "--key", "env://SIGNING_KEY", "--recursive")
    mirror.opm(*sign, reef.images[0], atoll.image)
    (mirror.site.scratch / "sbom.json").write_text('{"spdxVersion": "SPDX-2.3"}')
    attest = ("image", "attest", "--key", "env://SIGNING_KEY", "--predicate", "sbom.json", "--type", "spdxjson")
    mirror.opm(*attest, "--new-bundle-format", reef.image)  # a referrer, listed in a tag by this registry
    mirror.opm("mirror", mirror.catalogs[0], "--to", mirror.to)
    assert len([tag for tag in mirror.tags() if ":sha256-" in tag]) == 5
    done = mirror.delete(mirror.catalogs[0], "--yes")
    assert done.returncode == 0, done.stderr
    tags = mirror.tags()
    assert [tag for tag in tags if "reef" in tag or "fish" in tag] == []
    assert [tag for tag in tags if ":sha256-" in tag] == [
        f"m/{atoll.image.partition('/')[2].partition('@')[0]}:{atoll.image.partition('@')[2].replace(':', '-')}.sig"
    ]
    mirror.delete(mirror.catalogs[1], "--yes")
    assert mirror.tags() == []


def test_delete_image_set(mirror: Mirror) -> None:
    """The selected bundles of a catalog, and additional images, but nothing that the mirrored catalog still needs."""
    first, second = mirror.catalogs
    reef, atoll = mirror.bundles
    extra = mirror.site.push_operand("tools/shell", 32)
    write = mirror.site.scratch / "set.yaml"
    select = {"catalog": first, "packages": [{"name": "reef"}]}
    document: dict[str, Any] = {"apiVersion": "mirror.openshift.io/v2alpha1", "kind": "ImageSetConfiguration"}
    write.write_text(json.dumps({**document, "mirror": {"additionalImages": [{"name": extra}]}}))
    mirror.opm("mirror", "--config", str(write), "--to", mirror.to)
    content = {"operators": [select], "additionalImages": [{"name": extra}]}
    write.write_text(json.dumps({**document, "kind": "DeleteImageSetConfiguration", "delete": content}))
    planned = mirror.plan("--config", str(write))
    assert {name: image["state"] for name, image in planned.items()} == {
        "reef-bundle": "kept",
        "team/fish": "kept",
        "kelp": "kept",
        "tools/shell": "delete",
    }
    assert planned["reef-bundle"]["kept_for"].endswith("/catalog:1, bundle reef.v1.0.0")
    mirror.opm("mirror", first, "atoll", "--to", mirror.to)
    done = mirror.delete("--config", str(write), "--yes")
    assert done.returncode == 0, done.stderr
    assert mirror.has(reef.image, reef.images[0], extra) == [False] * 3
    assert mirror.has(first, second, atoll.image, reef.images[1]) == [True] * 4
    refused = mirror.opm.attempt("mirror", "--config", str(write), "--to", mirror.to)
    assert (refused.returncode, "describes images to delete, not to mirror" in refused.stderr) == (1, True)


def test_image_set_with_whole_catalogs(mirror: Mirror) -> None:
    """The catalogs of an ImageSetConfiguration are deleted as they were mirrored."""
    write = mirror.site.scratch / "set.yaml"
    document: dict[str, Any] = {"apiVersion": "mirror.openshift.io/v2alpha1", "kind": "ImageSetConfiguration"}
    operators = [{"catalog": mirror.catalogs[0], "packages": [{"name": "reef"}], "targetCatalog": "mine/reefs"}]
    write.write_text(json.dumps({**document, "mirror": {"operators": operators}}))
    mirror.opm("mirror", "--config", str(write), "--to", mirror.to)
    assert mirror.plan("--config", str(write))["team/fish"]["state"] == "kept"
    assert mirror.delete(mirror.catalogs[0], "--yes").returncode == 0
    done = mirror.delete("--config", str(write), "--yes")
    assert done.returncode == 0, done.stderr
    assert mirror.has(*mirror.bundles[0].images) == [False, True]


def test_registry_without_deletes(opm_http: Opm, registry: Registry, tmp_path: Path) -> None:
    with Registry(deletes=False) as target:
        mirror = mirrored(opm_http, new_site(registry, tmp_path), target.host)
        before = mirror.tags()
        assert mirror.delete(mirror.catalogs[0]).returncode == 0
        done = mirror.delete(mirror.catalogs[0], "--yes")
        assert (done.returncode, done.stdout) == (1, "")
        assert f"{target.host} does not delete images (405)" in done.stderr
        assert "REGISTRY_STORAGE_DELETE_ENABLED=true" in done.stderr
        assert mirror.tags() == before


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer(404), "does not list its repositories"),
        (Answer(401), "does not list its repositories"),
        (Answer(200, {}, b'{"repositories": []}'), "does not list all of its repositories"),
        (Answer(200, {}, b'{"repositories": ["m/UPPER"]}'), "lists an invalid repository"),
        (Answer(200, {}, b"<html>"), "invalid response"),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value.status} {value.body!r}",
)
def test_registry_that_does_not_list_its_repositories(mirror: Mirror, answer: Answer, reason: str) -> None:
    first, second = mirror.catalogs
    with FaultProxy(mirror.host, Fault("GET", "/v2/_catalog", answer, times=ALWAYS)) as proxy:
        to = f"{proxy.host}/m"
        refused = mirror.delete(first, "--yes", to=to)
        assert (refused.returncode, proxy.count("DELETE")) == (1, 0)
        assert reason in refused.stderr
        done = mirror.delete(first, "--yes", "--no-search", "--keep", second, to=to)
    assert done.returncode == 0, done.stderr
    assert mirror.has(second, *(image for image in (mirror.bundles[1].image, *mirror.bundles[1].images))) == [True] * 3


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        (b'{"tags": ["theirs"]}', "does not list all tags: it omits mirrored-sha256-"),
        (b"{}", "expected a list of tags"),
    ],
)
def test_registry_that_does_not_list_all_tags(mirror: Mirror, page: bytes, reason: str) -> None:
    """The tags of people may be among those that are missing."""
    fish = mirror.bundles[0].images[0]
    mirror.tag(fish, "theirs")
    path = rf"/v2/{Reference.parse(mirror.at(fish)).repository}/tags/list"
    with FaultProxy(mirror.host, Fault("GET", path, Answer(200, {}, page), times=ALWAYS)) as proxy:
        refused = mirror.delete(mirror.catalogs[0], "--yes", to=f"{proxy.host}/m")
        assert (refused.returncode, proxy.count("DELETE")) == (1, 0)
    assert reason in refused.stderr


def test_failing_registry_gets_no_advice_to_skip_the_search(mirror: Mirror) -> None:
    with FaultProxy(mirror.host, Fault("GET", "/v2/_catalog", Answer(500), times=ALWAYS)) as proxy:
        refused = mirror.delete(mirror.catalogs[0], "--yes", to=f"{proxy.host}/m")
    assert (refused.returncode, proxy.count("DELETE")) == (1, 0)
    assert "500" in refused.stderr
    assert "--no-search" not in refused.stderr


def test_unreadable_images_and_catalogs_refuse(mirror: Mirror) -> None:
    """Nothing is deleted if something might be a catalog that needs it."""
    first, second = mirror.catalogs
    kept = Reference.parse(mirror.at(second))
    MirrorSite(mirror.host, "m/theirs", mirror.site.scratch).push_operand("app", 35)
    for path, message in (
        (r"/v2/m/.*/kelp/manifests/mirrored", "the image cannot be read"),
        (r"/v2/m/theirs/app/blobs/", "the image cannot be read"),
        (rf"/v2/{kept.repository}/manifests/2", "the image cannot be read"),
    ):
        broken = Answer(200, {"Content-Type": "application/vnd.oci.image.manifest.v1+json"}, b'{"schemaVersion": 1}')
        with FaultProxy(mirror.host, Fault("GET", path, broken, times=ALWAYS)) as proxy:
            refused = mirror.delete(first, "--yes", to=f"{proxy.host}/m")
            assert (refused.returncode, proxy.count("DELETE")) == (1, 0), path
            assert message in refused.stderr
    invalid = mirror.site.scratch / "invalid"
    invalid.mkdir()
    (invalid / "catalog.json").write_text('{"schema": "olm.bundle", "name": ')
    refused = mirror.delete(first, "--yes", "--keep", str(invalid))
    assert (refused.returncode, "cannot tell which images the catalog needs" in refused.stderr) == (1, True)
    assert mirror.has(first) == [True]


def test_failed_deletes_leave_the_catalog(mirror: Mirror) -> None:
    first = mirror.catalogs[0]
    fish = Fault(
        "DELETE", "/v2/m/.*/fish/manifests/", Answer(412, {}, b'{"errors": [{"code": "DENIED"}]}'), times=ALWAYS
    )
    with FaultProxy(mirror.host, fish) as proxy:
        failed = mirror.delete(first, "--yes", to=f"{proxy.host}/m")
    assert failed.returncode == 1
    assert "the registry returned 412 (DENIED)" in failed.stderr
    assert "Run the command again to continue" in failed.stderr
    assert mirror.has(first, mirror.bundles[0].image)[1] is False
    assert digest_of(mirror.at(first))
    done = mirror.delete(first, "--yes")
    assert (done.returncode, mirror.has(first, mirror.bundles[0].images[0])) == (0, [False, False])
    assert "1 not in the target" in done.stdout


def digest_of(reference: str) -> str:
    parsed = Reference.parse(reference)
    with RegistryClient(_PLAIN_HTTP) as client:
        try:
            return client.target(parsed).resolve(parsed.identifier).digest
        except NotFound:
            return ""


def test_killed_deletion_is_repeated(mirror: Mirror) -> None:
    first, second = mirror.catalogs
    mirror.delete(first)  # its layers are cached from now on
    for deletes in (2, 1):  # the second one has fewer images left
        with KillingProxy(mirror.host, deletes, method="DELETE") as killer:
            run_through(killer, mirror.opm, ("mirror", "delete", first, "--to", f"{killer.host}/m", "--yes"))
        assert killer.count("DELETE")
        assert digest_of(mirror.at(first))
    assert mirror.delete(first, "--yes").returncode == 0
    assert [tag for tag in mirror.tags() if "reef" in tag or "fish" in tag or tag.endswith("catalog:1")] == []
    assert mirror.has(second, mirror.bundles[1].image, *mirror.bundles[1].images) == [True] * 3


def test_two_deletions_at_once(mirror: Mirror) -> None:
    argv = mirror.opm.argv("mirror", "delete", mirror.catalogs[0], "--to", mirror.to, "--yes")
    processes = [
        subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=mirror.opm.directory)
        for _ in range(2)
    ]
    results = [(process.wait(timeout=60), process.stderr.read() if process.stderr else "") for process in processes]
    concurrent = ("the target has no", "cannot tell which images the catalog needs")  # before, or while it was read
    assert any(code == 0 for code, _ in results), results
    assert all(code == 0 or any(text in errors for text in concurrent) for code, errors in results), results
    assert mirror.has(mirror.catalogs[0]) == [False]
    assert mirror.has(mirror.catalogs[1], mirror.bundles[1].image, *mirror.bundles[1].images) == [True] * 3


def test_no_permission(mirror: Mirror) -> None:
    with FaultProxy(mirror.host, Fault("DELETE", "/v2/", Answer(403), times=ALWAYS)) as proxy:
        refused = mirror.delete(mirror.catalogs[0], "--yes", to=f"{proxy.host}/m")
    assert (refused.returncode, "access denied" in refused.stderr) == (1, True)
    assert mirror.has(mirror.catalogs[0], mirror.bundles[0].image) == [True, True]


def test_wrong_arguments(mirror: Mirror) -> None:
    for arguments, message in (
        ((), "CATALOG or --config is required"),
        ((mirror.catalogs[0], "--config", "x.yaml"), "are mutually exclusive"),
        (("--config", "x.yaml"), "x.yaml"),
        (("UPPER//x",), "invalid"),
        ((mirror.bundles[0].image,), "not"),
    ):
        done = mirror.delete(*arguments)
        assert (done.returncode, message in done.stderr) == (1, True), (arguments, done.stderr)
        assert "Traceback" not in done.stderr
    directory = mirror.delete(mirror.catalogs[0], to="./mirror")
    assert (directory.returncode, "only be deleted from a registry" in directory.stderr) == (1, True)


def test_prune_deletes_what_only_the_replaced_catalog_needs(mirror: Mirror) -> None:
    first, second = mirror.catalogs
    reef, atoll = mirror.bundles
    name = ("--target-catalog", "current:1")
    mirror.opm("mirror", first, "--to", mirror.to, *name)
    mirror.delete(first, "--yes")
    before = mirror.tags()
    plan = mirror.opm.attempt("mirror", second, "--to", mirror.to, *name, "--prune", "--dry-run", "--output", "json")
    states = {
        each["target"].split("/")[-1].split(":")[0]: each["state"]
        for each in json.loads(plan.stdout)["pruned"]["images"]
    }
    assert states == {
        "atoll-bundle": "kept",
        "kelp": "kept",
        "reef-bundle": "delete",
        "fish": "delete",
        "current": "delete",
    }
    assert sorted(json.loads(plan.stdout)["pruned"]["kept_catalogs"]) == [
        f"{mirror.to}/current:1",
        mirror.at(second),
    ]
    assert mirror.tags() == before
    done = mirror.opm.attempt("mirror", second, "--to", mirror.to, *name, "--prune")
    assert (done.returncode, "3 images deleted with 4 manifests" in done.stderr) == (0, True), done.stderr
    assert mirror.has(reef.image, reef.images[0], atoll.image, *atoll.images) == [False, False, True, True]
    assert [tag for tag in mirror.tags() if "replaced" in tag] == []
    assert incomplete_tags(mirror.host) == []
    again = mirror.opm.attempt("mirror", second, "--to", mirror.to, *name, "--prune")
    assert (again.returncode, "0 images deleted" in again.stderr) == (0, True), again.stderr


def test_catalog_with_the_same_path_in_another_registry(mirror: Mirror, tmp_path: Path) -> None:
    """It is another catalog, although it has the same name in the target."""
    first = mirror.catalogs[0]
    with Registry() as other:
        (tmp_path / "other").mkdir()
        site = MirrorSite(other.host, mirror.site.prefix, tmp_path / "other")
        theirs = site.push_catalog([site.sample()[1]], "1")
        assert theirs.partition("/")[2] == first.partition("/")[2]
        refused = mirror.opm.attempt("mirror", theirs, "--to", mirror.to, "--prune")
        assert (refused.returncode, mirror.has(first, mirror.bundles[0].image)) == (1, [True, True])
        assert "refusing to move the tag" in refused.stderr
        mirror.opm("mirror", theirs, "--to", mirror.to, "--overwrite-tags")
    assert digest_at(mirror.at(first)) != digest_at(first)


def test_prune_that_failed_is_repeated(mirror: Mirror) -> None:
    first, second = mirror.catalogs
    reef = mirror.bundles[0]
    name = ("--target-catalog", "current:1", "--prune")
    mirror.opm("mirror", first, "--to", mirror.to, *name)
    mirror.delete(first, "--yes")
    with FaultProxy(mirror.host, Fault("DELETE", "/v2/", Answer(405), times=ALWAYS)) as proxy:
        failed = mirror.opm.attempt("mirror", second, "--to", f"{proxy.host}/m", *name)
    assert (failed.returncode, "does not delete images" in failed.stderr) == (1, True)
    assert mirror.has(reef.image, reef.images[0]) == [True, True]
    assert digest_of(f"{mirror.to}/current:1") == digest_of(second)
    done = mirror.opm.attempt("mirror", second, "--to", mirror.to, *name)
    assert (done.returncode, mirror.has(reef.image, reef.images[0])) == (0, [False, False]), done.stderr


def test_prune_after_loading_an_archive(mirror: Mirror) -> None:
    """Images of the archive that no catalog needs are kept."""
    first, second = mirror.catalogs
    extra = mirror.site.push_operand("tools/shell", 33)
    document: dict[str, Any] = {"apiVersion": "mirror.openshift.io/v2alpha1", "kind": "ImageSetConfiguration"}
    for file, catalog in (("1.tar", first), ("2.tar", second)):
        operators = [{"catalog": catalog, "full": True, "targetCatalog": "current", "targetTag": "1"}]
        content = {"operators": operators, "additionalImages": [{"name": extra}]}
        (mirror.site.scratch / "set.yaml").write_text(json.dumps({**document, "mirror": content}))
        mirror.opm("mirror", "--config", str(mirror.site.scratch / "set.yaml"), "--to", f"oci-archive:{file}")
    mirror.opm("mirror", "1.tar", "--to", mirror.to)
    mirror.delete(first, "--yes")
    done = mirror.opm.attempt("mirror", "2.tar", "--to", mirror.to, "--prune")
    assert (done.returncode, "3 images deleted" in done.stderr) == (0, True), done.stderr
    assert mirror.has(mirror.bundles[0].image, extra, *mirror.bundles[1].images) == [False, True, True]


def test_prune_flags(mirror: Mirror) -> None:
    first = mirror.catalogs[0]
    for arguments, message in (
        (("--keep", "x"), "--keep and --no-search require --prune"),
        (("--prune", "--shard", "1/2"), "--prune and --shard cannot be used together"),
    ):
        done = mirror.opm.attempt("mirror", first, "--to", mirror.to, *arguments)
        assert (done.returncode, message in done.stderr) == (1, True), done.stderr
    done = mirror.opm.attempt("mirror", first, "--to", "./mirror", "--prune")
    assert (done.returncode, "--prune requires a registry" in done.stderr) == (1, True)
