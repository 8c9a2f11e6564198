"""``opm mirror`` when it is killed or interrupted, and with faulty registries."""

from __future__ import annotations

import base64
import json
import signal
import subprocess
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.registry import RetryPolicy
from tests.e2e.test_kill import KillingProxy, run_through
from tests.kit.faults import Answer, Corrupt, Delay, Fault, FaultProxy, Reset, ResetUpload, Truncate
from tests.kit.forkserver import Command
from tests.kit.mirror_site import MirrorSite, SampleBundle, digest_at, images_of, incomplete_tags
from tests.kit.opm import run
from tests.kit.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kit.forkserver import ForkServer
    from tests.kit.opm import Opm

ALWAYS = 1 << 20
BLOB = r"/v2/.*/blobs/sha256"


@dataclass(frozen=True)
class Site:
    """A catalog in a registry behind a proxy, which is the host that the catalog names."""

    proxy: FaultProxy
    catalog: str
    bundles: list[SampleBundle]

    def at(self, to: str) -> list[str]:
        """Return the names of all images in a mirror, the catalog first."""
        return [f"{to}/{image.partition('/')[2]}" for image in (self.catalog, *images_of(self.bundles))]

    def reads(self) -> list[str]:
        """Return the paths of the blobs that were read, without those of the catalog."""
        paths = [seen.path for seen in self.proxy.seen if seen.method == "GET"]
        return [path for path in paths if "/blobs/" in path and "/catalog/" not in path]


@pytest.fixture(scope="module")
def _site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Registry() as registry, FaultProxy(registry.host) as proxy:
        site = MirrorSite(proxy.host, "src", tmp_path_factory.mktemp("site"))
        bundles = site.sample()
        yield Site(proxy, site.push_catalog(bundles), bundles)


@pytest.fixture
def source(_site: Site) -> Site:
    """Return a catalog that tests only read, without faults."""
    _site.proxy.faults.clear()
    _site.proxy.seen.clear()
    return _site


@pytest.fixture
def target() -> Iterator[Registry]:
    """Start an empty registry."""
    with Registry() as registry:
        yield registry


@pytest.fixture
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the delays between attempts of commands in this process."""
    hasty = partial(RetryPolicy, sleep=lambda seconds: None)
    monkeypatch.setattr("opmkit.imagetools.registry.client.RetryPolicy", hasty)


def test_killed_mirror_leaves_only_complete_images_and_is_resumed(
    opm_http: Opm, source: Site, target: Registry
) -> None:
    to = f"{target.host}/m"
    for at in (20, 60, 90):
        with KillingProxy(target.host, at) as proxy:
            status = run_through(proxy, opm_http, ("mirror", source.catalog, "--to", f"{proxy.host}/m"))
        assert incomplete_tags(target.host) == []
        assert status == 0 or not digest_at(source.at(to)[0])
    opm_http("mirror", source.catalog, "--to", to)
    assert all(map(digest_at, source.at(to)))


def test_resumed_mirror_does_not_read_what_the_target_has(opm_http: Opm, source: Site, target: Registry) -> None:
    fish = Fault("GET", r"/v2/src/team/fish/blobs/", Answer(404), times=ALWAYS)
    source.proxy.faults.append(fish)
    failed = opm_http.attempt("mirror", source.catalog, "--to", f"{target.host}/m")
    assert (failed.returncode, "src/team/fish" in failed.stderr) == (1, True)
    assert "needed by bundle reef.v1.0.0" in failed.stderr
    assert not digest_at(source.at(f"{target.host}/m")[0])
    incomplete = opm_http.attempt("mirror", source.catalog, "--to", f"{target.host}/m", "--continue")
    assert (incomplete.returncode, ", 1 failed\n" in incomplete.stderr) == (5, True)
    source.proxy.faults.clear()
    source.proxy.seen.clear()
    done = opm_http.attempt("mirror", source.catalog, "--to", f"{target.host}/m")
    assert (done.returncode, done.stderr[:15]) == (0, "1 image copied ")
    assert {path.split("/")[4] for path in source.reads()} == {"fish"}
    assert all(map(digest_at, source.at(f"{target.host}/m")))


def test_interrupted_mirror_ends_promptly_with_a_summary(opm_http: Opm, source: Site, target: Registry) -> None:
    source.proxy.faults.append(Fault("GET", r"/v2/src/kelp/blobs/", Delay(10), times=ALWAYS))
    argv = opm_http.argv("mirror", source.catalog, "--to", f"{target.host}/m")
    with subprocess.Popen(argv, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        while not target_has(target, "reef-bundle"):
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=20)
    assert (process.returncode, output) == (143, "")
    summary, *others = errors.splitlines()
    assert "copied (" in summary
    assert others == ["Error: interrupted by SIGTERM"]
    assert incomplete_tags(target.host) == []


def target_has(target: Registry, name: str) -> bool:
    return any(name in each.path and each.method == "PUT" and "/manifests/" in each.path for each in target.requests())


@pytest.mark.usefixtures("_no_waits")
@pytest.mark.parametrize(
    ("side", "fault"),
    [
        ("source", Fault("GET", BLOB, Answer(503), times=ALWAYS, every=3)),
        ("source", Fault("GET", BLOB, Reset(2000), times=ALWAYS, every=2)),
        ("source", Fault("GET", BLOB, Truncate(1000), times=ALWAYS, every=2)),
        ("source", Fault("GET", r"/v2/.*/manifests/", Answer(429, {"Retry-After": "1"}), times=ALWAYS, every=3)),
        ("target", Fault("PUT", r"/v2/.*/blobs/uploads", Answer(500), times=ALWAYS, every=3)),
        ("target", Fault("PUT", r"/v2/.*/blobs/uploads", ResetUpload(100), times=ALWAYS, every=3)),
        ("target", Fault("(POST|HEAD)", "/v2/", Answer(429), times=ALWAYS, every=4)),
        ("target", Fault("PUT", r"/v2/.*/manifests/", Reset(), times=ALWAYS, every=2)),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value.method} {value.action}",
)
def test_mirror_survives_faults(source: Site, target: Registry, side: str, fault: Fault) -> None:
    fault.matched = 0
    with FaultProxy(target.host) as proxy:
        (source.proxy if side == "source" else proxy).faults.append(fault)
        assert run(["mirror", source.catalog, "--to", f"{proxy.host}/m", "--use-http"]) == 0
    assert fault.matched > fault.every
    source.proxy.faults.clear()
    assert all(map(digest_at, source.at(f"{target.host}/m")))
    assert incomplete_tags(target.host) == []


@pytest.mark.usefixtures("_no_waits")
def test_content_with_another_digest_is_not_copied(
    source: Site, target: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    source.proxy.faults += [
        Fault("GET", r"/v2/src/team/fish/blobs/", Corrupt(), times=ALWAYS),
        Fault("GET", r"/v2/src/reef-bundle/manifests/", Corrupt(), times=ALWAYS),
    ]
    argv = ["mirror", source.catalog, "--to", f"{target.host}/m", "--use-http"]
    assert run([*argv, "--continue", "--output", "json"]) == 5
    report = json.loads(capsys.readouterr().out)
    assert sorted(failure["image"].split("/")[2].split("@")[0] for failure in report["failures"]) == [
        "reef-bundle",
        "team",
    ]
    assert all("digest mismatch" in failure["message"] for failure in report["failures"])
    source.proxy.faults.clear()
    catalog, reef, fish, kelp, *others = map(digest_at, source.at(f"{target.host}/m"))
    assert (reef, fish) == ("", "")
    assert all([catalog, kelp, *others])


@pytest.mark.usefixtures("_no_waits")
def test_unusable_target_ends_the_mirror(source: Site, target: Registry, capsys: pytest.CaptureFixture[str]) -> None:
    for status, message in (
        (403, "access denied"),
        (405, "405 (Method Not Allowed)"),
    ):  # 405 is that of a read-only one
        with FaultProxy(target.host, Fault("POST", "/v2/", Answer(status), times=ALWAYS)) as proxy:
            argv = ["mirror", source.catalog, "--to", f"{proxy.host}/m", "--use-http", "--continue"]
            assert run(argv) != 0
        assert message in capsys.readouterr().err
    with FaultProxy(target.host, Fault("HEAD", "/v2/", Answer(500), times=ALWAYS)) as proxy:
        assert run(["mirror", source.catalog, "--to", f"{proxy.host}/m", "--use-http", "--continue"]) == 1
    assert not source.reads()


def test_mirrors_to_one_target_at_once(opm_http: Opm, source: Site, target: Registry) -> None:
    argv = opm_http.argv("mirror", source.catalog, "--to", f"{target.host}/m")
    processes = [subprocess.Popen(argv, stdout=subprocess.DEVNULL) for _ in range(3)]
    assert [process.wait(timeout=60) for process in processes] == [0, 0, 0]
    assert all(map(digest_at, source.at(f"{target.host}/m")))
    assert incomplete_tags(target.host) == []


def test_mirrors_to_one_directory_at_once(opm_http: Opm, source: Site) -> None:
    argv = opm_http.argv("mirror", source.catalog, "--to", "./mirror")
    processes = [subprocess.Popen(argv, stdout=subprocess.DEVNULL, cwd=opm_http.directory) for _ in range(3)]
    assert [process.wait(timeout=60) for process in processes] == [0, 0, 0]
    index = json.loads((opm_http.directory / "mirror" / "index.json").read_text())
    assert len(index["manifests"]) == 5


@pytest.mark.parametrize("step", ["os.replace", "os.fsync"])
def test_killed_mirror_to_a_directory_is_resumed(
    opm_http: Opm, forkserver: ForkServer, source: Site, step: str
) -> None:
    argv = ["mirror", source.catalog, "--to", "./mirror", "--use-http"]
    index = opm_http.directory / "mirror" / "index.json"
    for at in (2, 9, 17):
        (killed,) = forkserver.run([Command(argv, directory=opm_http.directory, killed_at=(step, at))])
        assert killed.status in (0, -signal.SIGKILL), killed.stderr
        listed = json.loads(index.read_text())["manifests"] if index.exists() else []
        for manifest in listed:
            opm_http("image", "inspect", f"oci:mirror@{manifest['digest']}")
    opm_http(*argv[:-1])
    assert len(json.loads(index.read_text())["manifests"]) == 5


def test_registry_that_requires_credentials_is_reported(opm_http: Opm, source: Site, basic_registry: Registry) -> None:
    to = f"{basic_registry.host}/m"
    denied = opm_http.attempt("mirror", source.catalog, "--to", to)
    assert (denied.returncode, denied.stdout) == (1, "")
    assert "log in" in denied.stderr
    credentials = {"auths": {basic_registry.host: {"auth": base64.b64encode(b"tester:secret").decode()}}}
    (opm_http.directory / "auth.json").write_text(json.dumps(credentials))
    opm_http("mirror", source.catalog, "--to", to, "--authfile", "auth.json")
