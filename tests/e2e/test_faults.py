"""Commands with a faulty registry: they succeed after retries, or fail with one error that names the image."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.registry import RetryPolicy
from opmkit.imagetools.spec import media_types
from tests.kit.bundles import bundle_image, push_image, resolve_digest
from tests.kit.faults import (
    Answer,
    Corrupt,
    CorruptUpload,
    Fault,
    FaultProxy,
    Reset,
    ResetUpload,
    Rewrite,
    Trickle,
    Truncate,
)
from tests.kit.opm import run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.registry import Registry
    from tests.kit.tokenserver import TokenServer

ALWAYS = 1 << 20
IMAGE = "quay.io/tests/a:1.0.0"
"""The recorded reference of the bundle, which is constant so that the digest of the index is, too."""


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the delays between attempts."""
    hasty = partial(RetryPolicy, sleep=lambda seconds: None)
    monkeypatch.setattr("opmkit.imagetools.registry.client.RetryPolicy", hasty)


@dataclass(frozen=True)
class PublishedImages:
    """A bundle in a registry, its digest, and the digest of an index with only this bundle."""

    bundle: str
    bundle_digest: str
    index_digest: str


@dataclass(frozen=True)
class Setting:
    """A proxy to the registry, the bundle, and a tag that the test overwrites with the index."""

    registry: Registry
    proxy: FaultProxy
    published: PublishedImages
    catalog: str

    def proxied(self, reference: str) -> str:
        """Return a reference with the host of the proxy."""
        return reference.replace(self.registry.host, self.proxy.host)


def add(bundle: str, catalog: str) -> tuple[str, ...]:
    return ("index", "add", "-b", f"{bundle}={IMAGE}", "-i", "scratch", "-t", catalog, "--push", "--use-http")


@pytest.fixture(scope="module")
def published(registry: Registry, tmp_path_factory: pytest.TempPathFactory) -> PublishedImages:
    scratch = tmp_path_factory.mktemp("published")
    bundle = push_image(f"{registry.host}/faulty/a:1.0.0", bundle_image("a", "1.0.0", scratch))
    index = f"{registry.host}/faulty/index:1"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPM_STORE", str(scratch / "store"))
        assert run([*add(bundle, index)]) == 0
    return PublishedImages(bundle, resolve_digest(bundle), resolve_digest(index))


@pytest.fixture
def setting(registry: Registry, published: PublishedImages, tmp_path: Path) -> Iterator[Setting]:
    name = tmp_path.name.replace("_", "-").lower()
    catalog = push_image(f"{registry.host}/{name}/catalog:latest", bundle_image("before", "1.0.0", tmp_path))
    with FaultProxy(registry.host) as proxy:
        yield Setting(registry, proxy, published, catalog)


READ_FAULTS = {
    "429": (Fault("GET", "/v2/.*/a/manifests", Answer(429, {"Retry-After": "3"}), times=2), ""),
    "500": (Fault("GET", "/v2/.*/a/", Answer(500), times=3), ""),
    "502": (Fault("GET", "/v2/.*/a/blobs", Answer(502), skip=1), ""),
    "reset at once": (Fault("GET", "/v2/.*/a/", Reset(), times=2), ""),
    "reset within a blob": (Fault("GET", "/v2/.*/a/blobs", Reset(100), skip=1), ""),
    "truncated blob": (Fault("GET", "/v2/.*/a/blobs", Truncate(100), skip=1), ""),
    "slow trickle": (Fault("GET", "/v2/.*/a/", Trickle(100, 0.01), times=ALWAYS), ""),
    "type of something else": (
        Fault("GET", "/v2/.*/a/manifests", Rewrite({"Content-Type": media_types.OCI_INDEX}), times=ALWAYS),
        "ambiguous manifest: mediaType is",
    ),
    "type of nothing": (Fault("GET", "/v2/.*/a/manifests", Rewrite({"Content-Type": "text/html"}), times=ALWAYS), ""),
    "digest of something else": (
        Fault("GET", "/v2/.*/a/manifests", Rewrite({"Docker-Content-Digest": f"sha256:{'0' * 64}"}), times=ALWAYS),
        "the registry sent another manifest",
    ),
    "corrupted manifest": (Fault("GET", "/v2/.*/a/manifests", Corrupt(30)), "the registry sent another manifest"),
    "corrupted config": (Fault("GET", "/v2/.*/a/blobs", Corrupt(50)), "digest mismatch"),
    "corrupted blob": (Fault("GET", "/v2/.*/a/blobs", Corrupt(50), skip=1), "digest mismatch"),
    "short blob": (
        Fault("GET", "/v2/.*/a/blobs", Answer(200, body=b"x"), skip=1, times=ALWAYS),
        "size mismatch",
    ),
    "missing layer": (Fault("GET", "/v2/.*/a/blobs", Answer(404), skip=1, times=ALWAYS), "not found in the registry"),
    "never well": (Fault("GET", "/v2/.*/a/", Answer(503), times=ALWAYS), "gave up after 6 attempts"),
}

WRITE_FAULTS = {
    "429": (Fault("POST", "/v2/.*/catalog/", Answer(429, {"Retry-After": "3"}), times=2), ""),
    "500": (Fault("PUT", "/v2/.*/catalog/blobs", Answer(500), times=2), ""),
    "502": (Fault("PUT", "/v2/.*/catalog/manifests", Answer(502), times=2), ""),
    "reset at once": (Fault("HEAD|POST|PUT", "/v2/.*/catalog/", Reset(), times=3), ""),
    "reset within a blob": (Fault("PUT", "/v2/.*/catalog/blobs", ResetUpload(50)), ""),
    "upload that vanishes": (Fault("PUT", "/v2/.*/catalog/blobs", Answer(404), times=2), ""),
    "corrupted blob": (Fault("PUT", "/v2/.*/catalog/blobs", CorruptUpload(50), times=ALWAYS), "DIGEST_INVALID"),
    "blob said to be there": (Fault("HEAD", "/v2/.*/catalog/blobs", Answer(200), times=ALWAYS), "BLOB_UNKNOWN"),
    "never well": (Fault("PUT", "/v2/.*/catalog/", Answer(503), times=ALWAYS), "gave up after 6 attempts"),
}


def run_and_check(
    setting: Setting, argv: tuple[str, ...], expected_error: str, stderr: pytest.CaptureFixture[str]
) -> bool:
    """Run a command, which must fail with ``expected_error`` if given, and return whether it succeeded."""
    stderr.readouterr()
    fault = setting.proxy.faults[-1]
    status = run(list(argv))
    assert fault.matched > fault.skip
    errors_text = stderr.readouterr().err
    errors = [line for line in errors_text.splitlines() if line.startswith("Error: ")]
    assert (status, len(errors)) == ((1, 1) if expected_error else (0, 0)), errors_text
    assert all(expected_error in error and setting.proxy.host in error for error in errors), errors_text
    assert "Traceback" not in errors_text
    return status == 0


@pytest.mark.parametrize("fault", READ_FAULTS)
def test_bundles_are_read_from_a_faulty_registry(
    setting: Setting, fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = resolve_digest(setting.catalog)
    failing, expected_error = READ_FAULTS[fault]
    setting.proxy.faults = [replace(failing)]
    argv = add(setting.proxied(setting.published.bundle), setting.catalog)
    done = run_and_check(setting, argv, expected_error, capsys)
    assert resolve_digest(setting.catalog) == (setting.published.index_digest if done else before)


@pytest.mark.parametrize("fault", WRITE_FAULTS)
def test_index_is_pushed_to_a_faulty_registry(setting: Setting, fault: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = resolve_digest(setting.catalog)
    failing, expected_error = WRITE_FAULTS[fault]
    setting.proxy.faults = [replace(failing)]
    argv = add(setting.published.bundle, setting.proxied(setting.catalog))
    done = run_and_check(setting, argv, expected_error, capsys)
    assert resolve_digest(setting.catalog) == (setting.published.index_digest if done else before)


@pytest.mark.parametrize("fault", [*READ_FAULTS, *(f"{name}, writing" for name in WRITE_FAULTS)])
def test_images_are_copied_between_faulty_registries(
    setting: Setting, fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = resolve_digest(setting.catalog)
    failing, expected_error = READ_FAULTS.get(fault) or WRITE_FAULTS[fault.removesuffix(", writing")]
    setting.proxy.faults = [Fault("POST", ".*mount=", Answer(403), times=ALWAYS), replace(failing)]
    argv = ("image", "copy", setting.proxied(setting.published.bundle), setting.proxied(setting.catalog), "--use-http")
    done = run_and_check(setting, argv, expected_error, capsys)
    assert resolve_digest(setting.catalog) == (setting.published.bundle_digest if done else before)


@pytest.mark.parametrize("failure", [Reset(), Answer(503)])
@pytest.mark.parametrize("phase", range(3))
def test_every_third_request_fails(
    setting: Setting, phase: int, failure: Reset | Answer, capsys: pytest.CaptureFixture[str]
) -> None:
    setting.proxy.faults = [Fault(".*", ".*", failure, times=ALWAYS, skip=phase, every=3)]
    run_and_check(setting, add(setting.proxied(setting.published.bundle), setting.proxied(setting.catalog)), "", capsys)
    assert resolve_digest(setting.catalog) == setting.published.index_digest
    assert sum(fault.matched for fault in setting.proxy.faults) > 10


def authfile(directory: Path, host: str) -> str:
    path = directory / "auth.json"
    path.write_text(json.dumps({"auths": {host: {"auth": base64.b64encode(b"tester:secret").decode()}}}))
    return str(path)


def test_expired_tokens_are_renewed(
    setting: Setting, token_registry: Registry, token_server: TokenServer, tmp_path: Path
) -> None:
    expired = Answer(401, {"WWW-Authenticate": f'Bearer realm="{token_server.realm}",service="registry-tests"'})
    faults = [Fault(method, "/v2/team/", expired, skip=1) for method in ("HEAD", "POST", "PUT")]
    with FaultProxy(token_registry.host, *faults) as proxy:
        access = ("--authfile", authfile(tmp_path, proxy.host), "--use-http")
        catalog, copy = f"{proxy.host}/team/catalog:1", f"oci:{tmp_path}/copy:1"
        assert run([*add(setting.published.bundle, catalog), *access]) == 0
        assert run(["image", "copy", catalog, copy, *access]) == 0
    assert resolve_digest(copy) == setting.published.index_digest
    assert len(token_server.issued) > 3


def test_credentials_are_not_sent_to_redirect_targets(
    setting: Setting, basic_registry: Registry, tmp_path: Path
) -> None:
    digests = [part.digest for part in bundle_image("a", "1.0.0", tmp_path).manifest.children]
    moves = [
        Fault(
            "GET",
            f"/v2/safe/a/blobs/{digest}",
            Answer(307, {"Location": f"http://{setting.proxy.host}/v2/faulty/a/blobs/{digest}"}),
        )
        for digest in digests
    ]
    with FaultProxy(basic_registry.host) as proxy:
        access = ("--authfile", authfile(tmp_path, proxy.host), "--use-http")
        safe, copy = f"{proxy.host}/safe/a:1", f"oci:{tmp_path}/copy:1"
        assert run(["image", "copy", setting.published.bundle, safe, *access]) == 0
        proxy.faults = moves
        assert run(["image", "copy", safe, copy, *access]) == 0
        assert any("Authorization" in seen.headers for seen in proxy.seen)
    assert resolve_digest(copy) == setting.published.bundle_digest
    assert setting.proxy.count("GET") == len(digests)
    assert not any("Authorization" in seen.headers for seen in setting.proxy.seen)
