"""Mirrored, relocated, blocked and insecure registries, compared with skopeo and podman."""

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
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from opmkit.imagetools.spec import Manifest

HTTP = RegistryOptions(plain_http=True)
NAME = "registry.test/team/app"


@dataclass(frozen=True)
class Site:
    """Two registries, a closed port, and the home directory of a user with settings for them."""

    home: Path
    primary: str
    mirror: str
    closed: str

    def configure(self, text: str) -> None:
        """Write the user's settings, with PRIMARY, MIRROR and CLOSED replaced by the hosts."""
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


def push_image(host: str, repository: str, seed: int) -> Manifest:
    """Push an image to one of the registries."""
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


def registry_table(*mirrors: str, location: str = "PRIMARY/hosts", **more: str) -> str:
    """Return a [[registry]] table for registry.test with its mirrors, all insecure."""
    lines = [f'prefix = "registry.test"\nlocation = "{location}"\ninsecure = true']
    lines += [f"{key.replace('_', '-')} = {value}" for key, value in more.items()]
    tables = [f"[[registry.mirror]]\ninsecure = true\n{mirror}" for mirror in mirrors]
    return "\n".join(["[[registry]]", *lines, *tables, ""])


@dataclass(frozen=True)
class Case:
    """Settings, a reference by "tag" or "digest", and the registry it is read from: "" if it is not found."""

    settings: str
    by: str
    expected: str


TO_MIRROR, TO_CLOSED, TO_MISSING = 'location = "MIRROR/copy"', 'location = "CLOSED/copy"', 'location = "MIRROR/other"'
DIGESTS, TAGS = 'pull-from-mirror = "digest-only"', 'pull-from-mirror = "tag-only"'
CASES = {
    "location": Case(registry_table(), "tag", "primary"),
    "mirror": Case(registry_table(TO_MIRROR), "tag", "mirror"),
    "unreachable mirror": Case(registry_table(TO_CLOSED, TO_MIRROR), "tag", "mirror"),
    "mirror without the image": Case(registry_table(TO_MISSING), "tag", "primary"),
    "all mirrors without the image": Case(registry_table(TO_CLOSED, TO_MISSING), "tag", "primary"),
    "not found": Case(registry_table(TO_CLOSED, TO_MISSING, location="PRIMARY/other"), "tag", ""),
    "unreachable primary": Case(registry_table(TO_MIRROR, location="CLOSED/hosts"), "tag", "mirror"),
    "digest-only, by tag": Case(registry_table(f"{TO_MIRROR}\n{DIGESTS}"), "tag", "primary"),
    "digest-only, by digest": Case(registry_table(f"{TO_MIRROR}\n{DIGESTS}"), "digest", "mirror"),
    "tag-only, by tag": Case(registry_table(f"{TO_MIRROR}\n{TAGS}"), "tag", "mirror"),
    "tag-only, by digest": Case(registry_table(f"{TO_MIRROR}\n{TAGS}"), "digest", ""),
    "by digest only": Case(registry_table(TO_MIRROR, mirror_by_digest_only="true"), "tag", "primary"),
    "blocked": Case(registry_table().replace("PRIMARY/hosts", "registry.test") + "blocked = true\n", "tag", ""),
    "blocked but for a mirror": Case(
        registry_table(TO_MIRROR, blocked="true").replace("PRIMARY/hosts", "registry.test"), "tag", "mirror"
    ),
    "blocked mirror": Case(
        registry_table(TO_MIRROR) + '[[registry]]\nlocation = "MIRROR/copy"\nblocked = true\n', "tag", "primary"
    ),
    "wildcard": Case(registry_table().replace('"registry.test"', '"*.test"'), "tag", "primary"),
}


@pytest.mark.parametrize("name", CASES)
def test_images_are_read_from_the_same_registry_as_by_skopeo(site: Site, name: str) -> None:
    case = CASES[name]
    images = {
        "primary": push_image(site.primary, "hosts/team/app", 1),
        "mirror": push_image(site.mirror, "copy/team/app", 2),
    }
    site.configure(case.settings)
    reference = f"{NAME}:1" if case.by == "tag" else f"{NAME}@{images['mirror'].digest}"
    inspected = site.skopeo("inspect", "--no-tags", f"docker://{reference}")
    assert (json.loads(inspected.stdout)["Digest"] if inspected.returncode == 0 else "") == (
        images[case.expected].digest if case.expected else ""
    ), inspected.stderr
    parsed = Reference.parse(reference)
    repository = site.client().repository(parsed)
    if not case.expected:
        with pytest.raises(ImageToolsError):
            repository.get_manifest(parsed.identifier)
        return
    manifest = repository.get_manifest(parsed.identifier)
    assert manifest == images[case.expected]
    assert repository.resolve(parsed.identifier) == manifest.descriptor
    assert repository.name == NAME
    with repository.open_blob(images[case.expected].layers[0]) as stream:
        assert stream.read() == noise(20_000, 1 if case.expected == "primary" else 2)
    assert repository.get_config(images[case.expected].config)


def test_mirrors_and_locations_are_not_pushed_to(site: Site, tmp_path: Path) -> None:
    """Neither by skopeo nor by this client."""
    push_image(site.primary, "hosts/pushed", 3)
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
        for directory in ("elsewhere", "copy"):
            with pytest.raises(NotFound):
                plain.repository(Reference(site.mirror, f"{directory}/{name}")).resolve("1")


def test_error_contains_the_errors_of_all_locations(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.configure(registry_table(TO_CLOSED, TO_MISSING, location="PRIMARY/other"))
    client = site.client()
    with caplog.at_level(logging.WARNING), pytest.raises(NotFound) as caught:
        client.repository(Reference.parse(f"{NAME}:1")).resolve("1")
    message = caught.value.message
    assert message.startswith(f"{NAME}:1: all locations configured for it failed: ")
    for part in (
        f"{site.closed}/copy/team/app:1: connection to {site.closed} failed: connection refused",
        f"{site.mirror}/other/team/app:1: not found",
        f"{site.primary}/other/team/app:1: not found",
    ):
        assert part in message
    assert "check the name" in str(caught.value.hint)
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_unavailable_mirror_is_not_tried_again(site: Site) -> None:
    with FaultProxy(site.primary, Fault("HEAD", ".*", Answer(503), times=99)) as broken:
        site.configure(registry_table(f'location = "{broken.host}/x"'))
        push_image(site.primary, "hosts/team/app", 1)
        client = site.client()
        for _ in range(3):
            client.repository(Reference.parse(f"{NAME}:1")).resolve("1")
        assert broken.count("HEAD") == RetryPolicy().max_attempts


def test_mirror_that_denies_access_is_skipped(site: Site, basic_registry: Registry) -> None:
    site.configure(registry_table(f'location = "{basic_registry.host}/x"'))
    manifest = push_image(site.primary, "hosts/team/app", 1)
    assert site.client().repository(Reference.parse(NAME)).get_manifest("1") == manifest
    site.configure(registry_table(location=f"{basic_registry.host}/x"))
    with pytest.raises(AuthenticationFailed, match="no credentials"):
        site.client().repository(Reference.parse(NAME)).get_manifest("1")


def test_mirror_with_damaged_content_is_skipped(site: Site) -> None:
    manifest = push_image(site.primary, "hosts/team/app", 1)
    damaged = Answer(200, {"Content-Type": manifest.media_type}, b"{}")
    with FaultProxy(site.primary, Fault("GET", ".*/manifests/.*", damaged, times=9)) as proxy:
        site.configure(registry_table(f'location = "{proxy.host}/hosts"'))
        assert site.client().repository(Reference.parse(NAME)).get_manifest(manifest.digest) == manifest


def test_blob_that_a_mirror_lacks_is_read_from_the_next_location(site: Site) -> None:
    manifest = push_image(site.primary, "hosts/team/app", 1)
    with FaultProxy(site.primary, Fault("GET|HEAD", ".*/blobs/.*", Answer(404), times=9)) as proxy:
        site.configure(registry_table(f'location = "{proxy.host}/hosts"'))
        repository = site.client().repository(Reference.parse(NAME))
        with repository.open_blob(manifest.layers[0]) as stream:
            assert stream.read() == noise(20_000, 1)
        assert proxy.count("GET", ".*/blobs/") == 1
        assert repository.has_blob(manifest.layers[0])
        assert not repository.has_blob(described(b"missing"))


def test_download_continues_at_the_next_location(site: Site, registry: Registry) -> None:
    content = noise(3_000_000, 7)
    plain = RegistryClient(HTTP).repository(Reference(site.primary, "hosts/large"))
    layer = put_image(plain, "1", content).layers[0]
    with FaultProxy(site.primary, Fault("GET", ".*/blobs/.*", Reset(1_000_000))) as proxy:
        proxy.faults.append(Fault("GET", ".*/blobs/.*", Answer(503), times=99))
        site.configure(registry_table(f'location = "{proxy.host}/hosts"'))
        with site.client().repository(Reference.parse("registry.test/large")).open_blob(layer) as stream:
            assert stream.read() == content
        assert proxy.count("GET") == RetryPolicy().max_attempts
    assert [seen.status for seen in registry.requests() if layer.digest in seen.path][-1] == 206


def test_failed_mirrors_are_tried_once(site: Site, basic_registry: Registry, caplog: pytest.LogCaptureFixture) -> None:
    """Mirrors that lack the image are not tried again either, while another location succeeds."""
    site.configure(registry_table(f'location = "{basic_registry.host}/x"', TO_MISSING))
    manifest = push_image(site.primary, "hosts/team/app", 1)
    repository = site.client().repository(Reference.parse(NAME))
    with caplog.at_level(logging.WARNING):
        assert repository.get_manifest("1") == manifest
        assert repository.get_config(manifest.config)
        assert repository.resolve(manifest.digest)
    assert len([seen for seen in basic_registry.requests() if "/x/" in seen.path]) == 1
    assert len(caplog.records) == 1


def test_tags_are_those_of_the_repository_itself(site: Site) -> None:
    push_image(site.primary, "hosts/tagged", 1)
    put_image(RegistryClient(HTTP).repository(Reference(site.mirror, "copy/tagged")), "old", b"x")
    site.configure(registry_table(TO_MIRROR))
    assert list(site.client().repository(Reference.parse("registry.test/tagged")).tags()) == ["1"]


def test_blob_is_mounted_from_a_mirror_in_the_same_registry(site: Site, mirror: Registry) -> None:
    layer = push_image(site.mirror, "copy/team/app", 2).layers[0]
    site.configure(registry_table(TO_MIRROR))
    site.configure(registry_table(TO_MIRROR) + '[[registry]]\nlocation = "MIRROR"\ninsecure = true\n')
    client = site.client()
    source, target = client.repository(Reference.parse(NAME)), client.target(Reference(site.mirror, "mounted"))

    def unread() -> io.BytesIO:
        raise AssertionError("the blob was opened")

    target.put_blob(layer, unread, mount_from=source)
    assert target.has_blob(layer)


def test_blocked_registry_gets_no_request(site: Site, registry: Registry) -> None:
    site.configure('[[registry]]\nlocation = "PRIMARY"\nblocked = true\n')
    reference = Reference(site.primary, "blocked/x", "1")
    attempts: tuple[Callable[[], object], ...] = (
        lambda: site.client().repository(reference).resolve("1"),
        lambda: put(site.client().target(reference), b"x"),
    )
    for attempt in attempts:
        with pytest.raises(ImageToolsError, match=r"is blocked in .*registries\.conf") as caught:
            attempt()
        assert "blocked = true" in str(caught.value.hint)
    assert not [seen for seen in registry.requests() if "/blocked/" in seen.path]


def test_insecure_registries_with_http_and_https(site: Site, tls_registry: Registry) -> None:
    """HTTPS with any certificate, else HTTP; requests are sent once, by the scheme that works."""
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
    requests = [seen for seen in tls_registry.requests() if seen.path != "/v2/"]
    assert not [seen for seen in requests if seen.status >= 400 and seen.method != "HEAD"]


def test_http_is_not_used_for_secure_registries(site: Site, registry: Registry) -> None:
    site.configure("[[registry]]\nlocation = 'PRIMARY/insecure'\ninsecure = true\n")
    client = site.client()
    client.target(Reference(site.primary, "insecure/a")).has_blob(described(b"x"))
    with pytest.raises(InsecureTransport, match="does not support HTTPS"):
        client.target(Reference(site.primary, "secure/a")).has_blob(described(b"x"))
    assert not [seen for seen in registry.requests() if "/secure/a/" in seen.path]


def test_http_is_not_used_after_https_worked(site: Site) -> None:
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


def test_options_apply_to_all_registries(site: Site, tls_registry: Registry) -> None:
    site.configure(f'[[registry]]\nlocation = "{tls_registry.host}"\n')
    reference = Reference(tls_registry.host, "a")
    site.client(RegistryOptions(verify_tls=False)).repository(reference).has_blob(described(b"x"))
    site.client(HTTP).repository(Reference(site.primary, "a")).has_blob(described(b"x"))
    with pytest.raises(InsecureTransport):
        site.client().repository(reference).has_blob(described(b"x"))


def test_bearer_tokens_of_an_insecure_registry(site: Site, token_registry: Registry) -> None:
    """Credentials are sent to its token server although that uses plain HTTP as well."""
    site.configure(f'[[registry]]\nlocation = "{token_registry.host}"\ninsecure = true\n')
    authfile = site.home / "auth.json"
    authfile.write_text(json.dumps({"auths": {token_registry.host: {"username": "tester", "password": "secret"}}}))
    repository = site.client(RegistryOptions(authfile=authfile)).repository(Reference(token_registry.host, "team/a"))
    manifest = put_image(repository, "1", b"x")
    assert repository.get_manifest("1") == manifest


def test_short_name_alias(site: Site) -> None:
    manifest = push_image(site.primary, "hosts/team/app", 1)
    site.configure(registry_table() + f'[aliases]\n"app" = "{NAME}"\n')
    repository = site.client().repository(Reference.parse("app:1"))
    assert repository.name == NAME
    assert repository.get_manifest("1") == manifest


def test_short_names_resolve_as_in_podman(site: Site, tmp_path: Path) -> None:
    """An alias takes precedence over the only unqualified-search registry."""
    built = small_image(tmp_path, {"a": b"x"})
    copy_image(built, RegistryClient(HTTP).repository(Reference(site.primary, "hosts/short/app")), "1")
    text = 'unqualified-search-registries = ["registry.test"]\n' + registry_table()
    site.configure(text + '[aliases]\n"other" = "registry.test/short/app"\n')
    with Engine("podman") as podman:
        shutil.copy(site.home / ".config/containers/registries.conf", podman.path / "registries.conf")
        for name in ("other:1", "short/app:1"):
            assert site.client().repository(Reference.parse(name)).resolve("1").digest == built.digest
            podman.run("pull", "--quiet", name)
            assert podman.run("image", "inspect", "--format", "{{.Digest}}", name) == built.digest
