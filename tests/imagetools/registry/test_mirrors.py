"""Mirrors, locations, blocked and insecure registries with real ones, judged by what skopeo does with the same file."""

from __future__ import annotations

import json
import logging
import os
import shutil
import socket
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.copy import copy_image
from opmkit.imagetools.errors import AuthenticationFailed, ImageToolsError, InsecureTransport, NotFound
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions, RetryPolicy
from opmkit.imagetools.registry_config import RegistrySettings
from tests.kit.content import described, noise, put, put_image
from tests.kit.engines import Engine
from tests.kit.faults import Answer, Fault, FaultProxy, Reset
from tests.kit.images import small_image
from tests.kit.registry import Registry
from tests.kit.requirements import require

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator
    from pathlib import Path

    from opmkit.imagetools.spec import Manifest

HTTP = RegistryOptions(plain_http=True)
NAME = "registry.test/team/app"


@dataclass(frozen=True)
class Site:
    """Two registries and a closed port, and a user whose settings are about them."""

    home: Path
    primary: str
    mirror: str
    closed: str

    def configure(self, text: str) -> None:
        """Write the user's settings, with the names of the hosts in place of PRIMARY, MIRROR and CLOSED."""
        path = self.home / ".config/containers/registries.conf"
        path.parent.mkdir(parents=True, exist_ok=True)
        for name, host in (("PRIMARY", self.primary), ("MIRROR", self.mirror), ("CLOSED", self.closed)):
            text = text.replace(name, host)
        path.write_text(text)

    def client(self, options: RegistryOptions | None = None) -> RegistryClient:
        return RegistryClient(
            options, retry=RetryPolicy(sleep=lambda _: None), settings=RegistrySettings({"HOME": str(self.home)})
        )

    def skopeo(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "HOME": str(self.home), "XDG_RUNTIME_DIR": str(self.home)}
        return subprocess.run(
            [require("skopeo"), *arguments], env=environment, capture_output=True, text=True, check=False
        )


def image(host: str, repository: str, seed: int) -> Manifest:
    """An image that is in one registry alone."""
    return put_image(RegistryClient(HTTP).repository(Reference(host, repository)), "1", noise(20_000, seed))


@pytest.fixture(scope="module")
def mirror() -> Iterator[Registry]:
    with Registry() as started:
        yield started


@pytest.fixture
def site(registry: Registry, mirror: Registry, tmp_path: Path) -> Iterator[Site]:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        yield Site(tmp_path / "home", registry.host, mirror.host, f"127.0.0.1:{closed.getsockname()[1]}")


def settings(*mirrors: str, location: str = "PRIMARY/hosts", **more: str) -> str:
    """A [[registry]] for registry.test and its mirrors, which are without encryption as well."""
    top = [f'prefix = "registry.test"\nlocation = "{location}"\ninsecure = true']
    top += [f"{key.replace('_', '-')} = {value}" for key, value in more.items()]
    tables = [f"[[registry.mirror]]\ninsecure = true\n{mirror}" for mirror in mirrors]
    return "\n".join(["[[registry]]", *top, *tables, ""])


@dataclass(frozen=True)
class Case:
    """Settings, what is asked for by "tag" or "digest", and whose image that gives: "" if none."""

    settings: str
    by: str
    found: str


TO_MIRROR, TO_CLOSED, TO_OTHER = 'location = "MIRROR/copy"', 'location = "CLOSED/copy"', 'location = "MIRROR/other"'
DIGESTS, TAGS = 'pull-from-mirror = "digest-only"', 'pull-from-mirror = "tag-only"'
CASES = {
    "location": Case(settings(), "tag", "primary"),
    "mirror": Case(settings(TO_MIRROR), "tag", "mirror"),
    "unreachable mirror": Case(settings(TO_CLOSED, TO_MIRROR), "tag", "mirror"),
    "mirror without it": Case(settings(TO_OTHER), "tag", "primary"),
    "all mirrors without it": Case(settings(TO_CLOSED, TO_OTHER), "tag", "primary"),
    "nowhere": Case(settings(TO_CLOSED, TO_OTHER, location="PRIMARY/other"), "tag", ""),
    "unreachable primary": Case(settings(TO_MIRROR, location="CLOSED/hosts"), "tag", "mirror"),
    "digest-only, by tag": Case(settings(f"{TO_MIRROR}\n{DIGESTS}"), "tag", "primary"),
    "digest-only, by digest": Case(settings(f"{TO_MIRROR}\n{DIGESTS}"), "digest", "mirror"),
    "tag-only, by tag": Case(settings(f"{TO_MIRROR}\n{TAGS}"), "tag", "mirror"),
    "tag-only, by digest": Case(settings(f"{TO_MIRROR}\n{TAGS}"), "digest", ""),
    "by digest only": Case(settings(TO_MIRROR, mirror_by_digest_only="true"), "tag", "primary"),
    "blocked": Case(settings().replace("PRIMARY/hosts", "registry.test") + "blocked = true\n", "tag", ""),
    "blocked but for a mirror": Case(
        settings(TO_MIRROR, blocked="true").replace("PRIMARY/hosts", "registry.test"), "tag", "mirror"
    ),
    "blocked mirror": Case(
        settings(TO_MIRROR) + '[[registry]]\nlocation = "MIRROR/copy"\nblocked = true\n', "tag", "primary"
    ),
    "wildcard": Case(settings().replace('"registry.test"', '"*.test"'), "tag", "primary"),
}


@pytest.mark.parametrize("name", CASES)
def test_images_come_from_where_skopeo_takes_them(site: Site, name: str) -> None:
    case = CASES[name]
    images = {
        "primary": image(site.primary, "hosts/team/app", 1),
        "mirror": image(site.mirror, "copy/team/app", 2),
    }
    site.configure(case.settings)
    reference = f"{NAME}:1" if case.by == "tag" else f"{NAME}@{images['mirror'].digest}"
    told = site.skopeo("inspect", "--no-tags", f"docker://{reference}")
    assert (json.loads(told.stdout)["Digest"] if told.returncode == 0 else "") == (
        images[case.found].digest if case.found else ""
    ), told.stderr
    parsed = Reference.parse(reference)
    repository = site.client().repository(parsed)
    if not case.found:
        with pytest.raises(ImageToolsError):
            repository.get_manifest(parsed.identifier)
        return
    manifest = repository.get_manifest(parsed.identifier)
    assert manifest == images[case.found]
    assert repository.resolve(parsed.identifier) == manifest.descriptor
    assert repository.name == NAME
    with repository.open_blob(images[case.found].layers[0]) as stream:
        assert stream.read() == noise(20_000, 1 if case.found == "primary" else 2)
    assert repository.get_config(images[case.found].config)


def test_nothing_is_pushed_to_mirrors_and_locations(site: Site, tmp_path: Path) -> None:
    """Neither by skopeo nor here."""
    image(site.primary, "hosts/pushed", 3)
    layout = f"oci:{tmp_path}/layout:1"
    done = site.skopeo("copy", "--src-tls-verify=false", f"docker://{site.primary}/hosts/pushed:1", layout)
    assert done.returncode == 0, done.stderr
    site.configure(
        '[[registry]]\nprefix = "PRIMARY/target"\nlocation = "MIRROR/elsewhere"\ninsecure = true\n'
        '[[registry.mirror]]\nlocation = "MIRROR/copy"\ninsecure = true\n'
    )
    done = site.skopeo("copy", layout, f"docker://{site.primary}/target/a:1")
    assert done.returncode == 0, done.stderr
    put_image(site.client().target(Reference(site.primary, "target/b")), "1", b"x")
    put_image(site.client().repository(Reference(site.primary, "target/c")), "1", b"x")
    plain = RegistryClient(HTTP, settings=RegistrySettings({}))
    for name in ("a", "b", "c"):
        assert plain.repository(Reference(site.primary, f"target/{name}")).resolve("1")
        for folder in ("elsewhere", "copy"):
            with pytest.raises(NotFound):
                plain.repository(Reference(site.mirror, f"{folder}/{name}")).resolve("1")


def test_the_error_tells_of_every_place(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.configure(settings(TO_CLOSED, TO_OTHER, location="PRIMARY/other"))
    client = site.client()
    with caplog.at_level(logging.WARNING), pytest.raises(NotFound) as caught:
        client.repository(Reference.parse(f"{NAME}:1")).resolve("1")
    message = caught.value.message
    assert message.startswith(f"{NAME}:1, by the settings for registry.test: ")
    for part in (
        f"{site.closed}/copy/team/app:1: the connection to {site.closed} failed (connection refused)",
        f"{site.mirror}/other/team/app:1: not found",
        f"{site.primary}/other/team/app:1: not found",
    ):
        assert part in message
    assert "check the name" in str(caught.value.hint)
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_mirror_that_can_not_be_reached_is_left_out_from_then_on(site: Site) -> None:
    with FaultProxy(site.primary, Fault("HEAD", ".*", Answer(503), times=99)) as broken:
        site.configure(settings(f'location = "{broken.host}/x"'))
        image(site.primary, "hosts/team/app", 1)
        client = site.client()
        for _ in range(3):
            client.repository(Reference.parse(f"{NAME}:1")).resolve("1")
        assert broken.count("HEAD") == RetryPolicy().attempts


def test_a_mirror_that_denies_access_is_passed_by(site: Site, basic_registry: Registry) -> None:
    site.configure(settings(f'location = "{basic_registry.host}/x"'))
    manifest = image(site.primary, "hosts/team/app", 1)
    assert site.client().repository(Reference.parse(NAME)).get_manifest("1") == manifest
    site.configure(settings(location=f"{basic_registry.host}/x"))
    with pytest.raises(AuthenticationFailed, match="no credentials"):
        site.client().repository(Reference.parse(NAME)).get_manifest("1")


def test_a_mirror_with_damaged_content_is_passed_by(site: Site) -> None:
    manifest = image(site.primary, "hosts/team/app", 1)
    damaged = Answer(200, {"Content-Type": manifest.media_type}, b"{}")
    with FaultProxy(site.primary, Fault("GET", ".*/manifests/.*", damaged, times=9)) as proxy:
        site.configure(settings(f'location = "{proxy.host}/hosts"'))
        assert site.client().repository(Reference.parse(NAME)).get_manifest(manifest.digest) == manifest


def test_a_blob_that_a_mirror_lacks_comes_from_the_next_place(site: Site) -> None:
    manifest = image(site.primary, "hosts/team/app", 1)
    with FaultProxy(site.primary, Fault("GET|HEAD", ".*/blobs/.*", Answer(404), times=9)) as proxy:
        site.configure(settings(f'location = "{proxy.host}/hosts"'))
        repository = site.client().repository(Reference.parse(NAME))
        with repository.open_blob(manifest.layers[0]) as stream:
            assert stream.read() == noise(20_000, 1)
        assert proxy.count("GET", ".*/blobs/") == 1
        assert repository.has_blob(manifest.layers[0])
        assert not repository.has_blob(described(b"in no place"))


def test_a_blob_goes_on_from_the_next_place_where_a_mirror_breaks_off(site: Site, registry: Registry) -> None:
    content = noise(3_000_000, 7)
    plain = RegistryClient(HTTP).repository(Reference(site.primary, "hosts/large"))
    layer = put_image(plain, "1", content).layers[0]
    with FaultProxy(site.primary, Fault("GET", ".*/blobs/.*", Reset(1_000_000))) as proxy:
        proxy.faults.append(Fault("GET", ".*/blobs/.*", Answer(503), times=99))
        site.configure(settings(f'location = "{proxy.host}/hosts"'))
        with site.client().repository(Reference.parse("registry.test/large")).open_blob(layer) as stream:
            assert stream.read() == content
        assert proxy.count("GET") == RetryPolicy().attempts
    assert [seen.status for seen in registry.requests() if layer.digest in seen.path][-1] == 206


def test_mirrors_that_fail_are_asked_once(
    site: Site, basic_registry: Registry, caplog: pytest.LogCaptureFixture
) -> None:
    """And those that lack the image, as long as the place that has it gives all of it."""
    site.configure(settings(f'location = "{basic_registry.host}/x"', TO_OTHER))
    manifest = image(site.primary, "hosts/team/app", 1)
    repository = site.client().repository(Reference.parse(NAME))
    with caplog.at_level(logging.WARNING):
        assert repository.get_manifest("1") == manifest
        assert repository.get_config(manifest.config)
        assert repository.resolve(manifest.digest)
    assert len([seen for seen in basic_registry.requests() if "/x/" in seen.path]) == 1
    assert len(caplog.records) == 1


def test_the_tags_are_those_of_the_place_itself(site: Site) -> None:
    image(site.primary, "hosts/tagged", 1)
    put_image(RegistryClient(HTTP).repository(Reference(site.mirror, "copy/tagged")), "old", b"x")
    site.configure(settings(TO_MIRROR))
    assert list(site.client().repository(Reference.parse("registry.test/tagged")).tags()) == ["1"]


def test_what_comes_from_a_mirror_is_mounted_from_it_where_it_is_near(site: Site, mirror: Registry) -> None:
    layer = image(site.mirror, "copy/team/app", 2).layers[0]
    site.configure(settings(TO_MIRROR))
    site.configure(settings(TO_MIRROR) + '[[registry]]\nlocation = "MIRROR"\ninsecure = true\n')
    client = site.client()
    source, target = client.repository(Reference.parse(NAME)), client.target(Reference(site.mirror, "mounted"))

    def unread() -> io.BytesIO:
        raise AssertionError("the blob was opened")

    target.put_blob(layer, unread, mount_from=source)
    assert target.has_blob(layer)


def test_a_blocked_registry_gets_no_request(site: Site, registry: Registry) -> None:
    site.configure('[[registry]]\nlocation = "PRIMARY"\nblocked = true\n')
    reference = Reference(site.primary, "blocked/x", "1")
    for ask in (
        lambda: site.client().repository(reference).resolve("1"),
        lambda: put(site.client().target(reference), b"x"),
    ):
        with pytest.raises(ImageToolsError, match=r"is blocked in .*registries\.conf") as caught:
            ask()
        assert "blocked = true" in str(caught.value.hint)
    assert not [seen for seen in registry.requests() if "/blocked/" in seen.path]


def test_an_insecure_registry_is_spoken_to_as_it_speaks(site: Site, tls_registry: Registry) -> None:
    """HTTPS whatever the certificate, else HTTP; every request goes out once by the scheme that works."""
    site.configure(
        f'[[registry]]\nlocation = "PRIMARY"\ninsecure = true\n[[registry]]\nlocation = "{tls_registry.host}"\n'
        "insecure = true\n"
    )
    client = site.client()
    for host in (site.primary, tls_registry.host):
        repository = client.repository(Reference(host, "insecure/app"))
        manifest = put_image(repository, "1", noise(200_000))
        assert repository.get_manifest("1") == manifest
        assert list(repository.tags()) == ["1"]
    encrypted = [seen for seen in tls_registry.requests() if seen.path != "/v2/"]
    assert not [seen for seen in encrypted if seen.status >= 400 and seen.method != "HEAD"]


def test_a_registry_that_is_not_called_insecure_is_not_spoken_to_by_http(site: Site, registry: Registry) -> None:
    site.configure("[[registry]]\nlocation = 'PRIMARY/insecure'\ninsecure = true\n")
    client = site.client()
    client.target(Reference(site.primary, "insecure/a")).has_blob(described(b"x"))
    with pytest.raises(InsecureTransport, match="doesn't speak HTTPS"):
        client.target(Reference(site.primary, "secure/a")).has_blob(described(b"x"))
    assert not [seen for seen in registry.requests() if "/secure/a/" in seen.path]


def test_an_insecure_https_registry_that_fails_is_not_asked_by_http(site: Site) -> None:
    with Registry(tls=True) as tls_registry:
        site.configure(f'[[registry]]\nlocation = "{tls_registry.host}"\ninsecure = true\n')
        client = site.client()
        repository = client.target(Reference(tls_registry.host, "a"))
        assert not repository.has_blob(described(b"x"))
        tls_registry.stop()
        with pytest.raises(ImageToolsError, match="connection refused"):
            repository.has_blob(described(b"x"))
        tls_registry.start()
        assert not repository.has_blob(described(b"x"))


def test_flags_hold_for_every_registry(site: Site, tls_registry: Registry) -> None:
    site.configure(f'[[registry]]\nlocation = "{tls_registry.host}"\n')
    reference = Reference(tls_registry.host, "a")
    site.client(RegistryOptions(verify_tls=False)).repository(reference).has_blob(described(b"x"))
    site.client(HTTP).repository(Reference(site.primary, "a")).has_blob(described(b"x"))
    with pytest.raises(InsecureTransport):
        site.client().repository(reference).has_blob(described(b"x"))


def test_bearer_tokens_of_an_insecure_registry(site: Site, token_registry: Registry) -> None:
    """Its token server speaks plain HTTP, too, and gets credentials all the same."""
    site.configure(f'[[registry]]\nlocation = "{token_registry.host}"\ninsecure = true\n')
    authfile = site.home / "auth.json"
    authfile.write_text(json.dumps({"auths": {token_registry.host: {"username": "tester", "password": "secret"}}}))
    repository = site.client(RegistryOptions(authfile=authfile)).repository(Reference(token_registry.host, "team/a"))
    manifest = put_image(repository, "1", b"x")
    assert repository.get_manifest("1") == manifest


def test_a_short_name_by_its_alias(site: Site) -> None:
    manifest = image(site.primary, "hosts/team/app", 1)
    site.configure(settings() + f'[aliases]\n"app" = "{NAME}"\n')
    repository = site.client().repository(Reference.parse("app:1"))
    assert repository.name == NAME
    assert repository.get_manifest("1") == manifest


def test_podman_resolves_short_names_alike(site: Site, tmp_path: Path) -> None:
    """By an alias first, else with the only registry there is to search."""
    built = small_image(tmp_path, {"a": b"x"})
    copy_image(built, RegistryClient(HTTP).repository(Reference(site.primary, "hosts/short/app")), "1")
    text = 'unqualified-search-registries = ["registry.test"]\n' + settings()
    site.configure(text + '[aliases]\n"other" = "registry.test/short/app"\n')
    with Engine("podman") as podman:
        shutil.copy(site.home / ".config/containers/registries.conf", podman.path / "registries.conf")
        for name in ("other:1", "short/app:1"):
            assert site.client().repository(Reference.parse(name)).resolve("1").digest == built.digest
            podman.run("pull", "--quiet", name)
            assert podman.run("image", "inspect", "--format", "{{.Digest}}", name) == built.digest
