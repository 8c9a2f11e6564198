"""Sources of OLM releases."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.olm_release import RELEASE
from tests.kit.webserver import QuietHandler, WebServer

from opmkit.author.install import release as sources
from opmkit.author.install.release import ReleaseReader, parse_release, tag_of
from opmkit.author.run.errors import InvalidRelease, ReleaseUnavailable
from opmkit.imagetools.registry import RegistryOptions

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit.imagetools.tools.registry import RegistryTool


def no_images() -> RegistryTool:
    raise AssertionError("no image is read")


READER = ReleaseReader(RegistryOptions(), no_images)
FILES = {path.name: path.read_bytes() for path in sorted(RELEASE.iterdir())}


def test_directories_and_files(tmp_path: Path) -> None:
    release = READER.read(str(RELEASE))
    assert (release.version, release.namespace, len(release.objects)) == ("1.2.3", "olm", 11)
    manifests = tmp_path / "olm" / "manifests"
    manifests.mkdir(parents=True)
    for number, content in enumerate(FILES.values()):
        (manifests / f"0000_{number}.yaml").write_bytes(content)
    (manifests / "README.md").write_text("no manifest")
    joined = tmp_path / "all.yaml"
    joined.write_bytes(b"\n---\n".join(FILES.values()))
    for source in (tmp_path / "olm", manifests, joined):
        assert READER.read(str(source)).objects == release.objects


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\n---\n".join(FILES.values()))))
    assert len(READER.read("-").objects) == 11


def test_downloads(monkeypatch: pytest.MonkeyPatch) -> None:
    class Handler(QuietHandler):
        def do_GET(self) -> None:  # noqa: N802 (http.server names it)
            directory, _, name = self.path.rpartition("/")
            if directory in ("/download/v1.2.3", "/latest/download"):
                self.answer(200, FILES[name])
            else:
                self.answer(404)

    with WebServer(Handler) as web:
        monkeypatch.setattr(sources, "RELEASES", f"http://{web.host}")
        assert READER.download("1.2.3").version == "1.2.3"
        assert READER.download("latest").source == f"http://{web.host}/latest/download"
        assert READER.read(f"http://{web.host}/download/v1.2.3/").version == "1.2.3"
        with pytest.raises(ReleaseUnavailable, match=r"/download/v9.9.9/crds.yaml: not found") as failure:
            READER.download("9.9.9")
        assert "from" in str(failure.value.hint)
    with pytest.raises(ReleaseUnavailable, match="failed: connection refused"):
        READER.download("1.2.3")


@pytest.mark.parametrize(
    ("version", "tag"),
    [
        ("0.38.0", "v0.38.0"),
        ("v0.38.0", "v0.38.0"),
        ("1.0.0-rc.1", "v1.0.0-rc.1"),
        ("0.16.1", "0.16.1"),
        ("v0.16.1", "0.16.1"),
        ("0.17.0", "v0.17.0"),
        ("nightly", "nightly"),
        ("v", "v"),
    ],
)
def test_tags(version: str, tag: str) -> None:
    assert tag_of(version) == tag


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [", "olm.yaml:2:1: "),
        ("- x\n", "olm.yaml:1: not a Kubernetes object: apiVersion"),
        ("apiVersion: v1\nkind: 1\n", "olm.yaml:1: not a Kubernetes object: kind"),
        ("apiVersion: v1\nkind: A\n---\n\napiVersion: v1\nkind: A\n", "olm.yaml:1: .*metadata.name"),
        ("apiVersion: v1\nkind: A\nmetadata: [x]\n", "metadata.name"),
        ("apiVersion: v1\nkind: A\nmetadata: {name: a, namespace: 1}\n", "metadata.namespace: not a string"),
        ("apiVersion: v1\nkind: A\nmetadata: {name: a}\n", "not a release of OLM: no CustomResourceDefinitions"),
        ("", "not a release"),
    ],
)
def test_invalid_files(text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "olm.yaml").write_text(text)
    with pytest.raises(InvalidRelease, match=problem):
        READER.read(str(tmp_path))


def test_incomplete_releases(tmp_path: Path) -> None:
    with pytest.raises(InvalidRelease, match="no Deployments of OLM"):
        parse_release({"crds.yaml": FILES["crds.yaml"]}, "x")
    with pytest.raises(InvalidRelease, match="is defined twice"):
        parse_release({**FILES, "again.yaml": FILES["olm.yaml"]}, "x")
    with pytest.raises(InvalidRelease, match="no manifests found"):
        READER.read(str(tmp_path))
    with pytest.raises(ReleaseUnavailable, match="no such file or directory"):
        READER.read("./missing")


def test_lists_are_expanded() -> None:
    import orjson
    import yaml

    entries: list[Any] = [each for content in FILES.values() for each in yaml.safe_load_all(content)]
    listed = {"apiVersion": "v1", "kind": "List", "items": entries}
    assert len(parse_release({"all.json": orjson.dumps(listed)}, "x").objects) == 11
