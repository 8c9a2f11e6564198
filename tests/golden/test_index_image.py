"""Recorded index images of Go opm, compared with those that opmkit builds in a registry and in OCI layouts."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from opmkit.imagetools.copy import copy_image
from opmkit.imagetools.image import Image, load_image
from opmkit.imagetools.layer import LayerFile, extract_tree, write_layer
from opmkit.imagetools.spec import ConfigChanges
from opmkit.index.image.dockerfile import DEFAULT_BINARY_IMAGE
from tests.kit.opm import run
from tests.kit.shared import Case, assert_equal_index, cases, needs_shared

if TYPE_CHECKING:
    from tests.kit.corpus import Corpus

pytestmark = needs_shared

GO_DEFAULT_BASE = "quay.io/operator-framework/opm:latest"


@dataclass(frozen=True)
class CaseImages:
    """The images of a case: its bundles, its base and its index."""

    corpus: Corpus
    name: str

    @property
    def base(self) -> str:
        return f"{self.corpus.prefix}/base/opm:latest"

    @property
    def index(self) -> str:
        return f"{self.corpus.prefix}/{self.name}"

    def fill(self, argv: list[str]) -> list[str]:
        argv = [part.replace("{base}", self.base).replace("{index}", self.index) for part in argv]
        flags = [] if "--generate" in argv else ["--push"]
        return [*self.corpus.fill(argv), "--use-http", *flags, *TOOL_FLAGS.get(self.name, ())]

    def push_base(self, config: dict[str, Any] | None) -> None:
        env = dict(variable.split("=", 1) for variable in (config or {}).get("Env") or [])
        with tempfile.TemporaryDirectory() as directory:
            layer = write_layer([LayerFile("bin/opm", b"the server")], Path(directory))
            image = Image.scratch().append([layer], ConfigChanges(env=env))
            copy_image(image, self.corpus.repository("base/opm"), "latest")


TOOL_FLAGS = {"index-add-build-and-pull-tool-error": ("--build-tool", "podman")}
"""Flags for tools, which the records omit, of the case that tests them."""


@pytest.mark.parametrize("case", cases("index-image"), ids=str)
@pytest.mark.parametrize("corpus", ["registry", "layouts"], indirect=True)
def test_index_image_equals_the_record(
    case: Case, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = case.record
    images = CaseImages(corpus, f"index-{case.name}")
    images.push_base(record.get("base_config"))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    assert [run(images.fill(step["argv"])) for step in record["steps"]] == [step["exit"] for step in record["steps"]]
    failed = any(step["exit"] for step in record["steps"])  # Go opm leaves temporary files then
    assert sorted(path.name for path in work.iterdir()) == ([] if failed else record["left_in_working_directory"])
    if "config" in record:
        _assert_equal_image(record, images, tmp_path)
    if "dockerfile" in record:
        _assert_equal_dockerfile(record["dockerfile"], images, work)
    if "database_file" in record and not failed:
        assert_equal_index(record, work / record["database_file"], corpus.prefix)


def _assert_equal_image(record: dict[str, Any], images: CaseImages, tmp_path: Path) -> None:
    tag = next(
        step["argv"][step["argv"].index("--tag") + 1] for step in reversed(record["steps"]) if "--tag" in step["argv"]
    )
    image = load_image(images.corpus.repository(images.name), tag.rpartition(":")[2])
    base = load_image(images.corpus.repository("base/opm"), "latest")
    assert image.manifest.layers[:-1] == base.manifest.layers
    assert len(image.manifest.layers) - len(base.manifest.layers) == record["layers_added"]
    config, expected = image.config, record["config"]
    assert dict(config.labels) == expected["Labels"]
    assert list(config.entrypoint) == expected["Entrypoint"]
    assert list(config.cmd) == expected["Cmd"]
    assert list(config.exposed_ports) == list(expected["ExposedPorts"])
    assert (config.user, config.working_dir) == (expected["User"], expected["WorkingDir"])
    assert list(config.env) == expected["Env"]
    assert (config.os, config.architecture) == (record["os"], record["architecture"])
    extracted = tmp_path / "extracted"
    extract_tree([image.layers[-1]], extracted)
    files = [
        {"path": path.relative_to(extracted).as_posix(), "type": "dir" if path.is_dir() else "file", "mode": mode}
        for path in sorted(extracted.rglob("*"))
        for mode in [f"0o{path.stat().st_mode:o}"]
    ]
    assert files == [{key: file[key] for key in ("path", "type", "mode")} for file in record["added_files"]]
    database = extracted / "database" / "index.db"
    assert_equal_index(record, database, images.corpus.prefix)


def _assert_equal_dockerfile(expected: dict[str, Any], images: CaseImages, work: Path) -> None:
    lines = (work / expected["name"]).read_text().splitlines()
    instructions = [line.split(" ", 1) for line in lines if line and not line.startswith("#")]
    names = {"{host}/base/opm:latest": images.base, GO_DEFAULT_BASE: DEFAULT_BINARY_IMAGE}
    assert instructions == [[word, names.get(rest, rest)] for word, rest in expected["instructions"]]
