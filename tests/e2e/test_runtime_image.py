"""The base image of ``scripts/build-runtime``: an index built on it is served in a container as an arbitrary user."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
import uuid
from hashlib import sha256
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Self

import pytest

from opmkit.index.client import CatalogClient, ServerUnreachable
from tests.kit.catalogs import free_port
from tests.kit.opm import FIXTURES, LAGOON, Opm
from tests.kit.requirements import require

if TYPE_CHECKING:
    from pathlib import Path

BUILD = FIXTURES.parent / "scripts" / "build_runtime.py"
PROGRAMS = ("opm", "initializer", "registry-server", "configmap-server", "grpc_health_probe")
PATIENCE = 60


class Container:
    """A runc container of an image in a layout, in the host network, with additional arguments of the entry point.

    As in clusters with a restricted policy, it runs as an arbitrary user who can write temporary files only.
    """

    def __init__(self, image: str, directory: Path, *arguments: str) -> None:
        if os.getuid():
            pytest.skip("only root can run containers with runc")
        self._runc = [require("runc"), "--root", str(directory / "state")]
        self._bundle = directory / "bundle"
        self._name = f"opmkit-{uuid.uuid4().hex[:12]}"
        subprocess.run(
            [require("umoci"), "unpack", "--image", image.removeprefix("oci:"), str(self._bundle)],
            check=True,
            capture_output=True,
        )
        path = self._bundle / "config.json"
        path.write_text(json.dumps(_confined(json.loads(path.read_text()), arguments)))

    def __enter__(self) -> Self:
        self.process = subprocess.Popen([*self._runc, "run", "--bundle", str(self._bundle), self._name])
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run([*self._runc, "delete", "--force", self._name], check=False, capture_output=True)
        self.process.wait(PATIENCE)

    def run(self, *command: str) -> str:
        """Run a command in the container as its user and return its stdout; raise on failure."""
        argv = [*self._runc, "exec", self._name, *command]
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout

    def stop(self) -> int:
        """Send SIGTERM and return the exit status."""
        subprocess.run([*self._runc, "kill", self._name, "TERM"], check=True)
        return self.process.wait(PATIENCE)


def _confined(config: dict[str, Any], arguments: tuple[str, ...]) -> dict[str, Any]:
    """Return the runtime configuration without the settings that tests have no permission for."""
    process, linux = config["process"], config["linux"]
    process |= {"terminal": False, "noNewPrivileges": True, "rlimits": [], "user": {"uid": 12345, "gid": 0}}
    process["args"] = [*process["args"], *arguments]
    mounts = [mount for mount in config["mounts"] if mount["type"] != "cgroup"]
    mounts.append({"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["mode=1777"]})
    linux["namespaces"] = [each for each in linux["namespaces"] if each["type"] != "network"]
    linux.pop("resources", None)
    return {**config, "mounts": mounts, "root": {**config["root"], "readonly": True}}


def wait_for(address: str) -> None:
    """Wait until a server responds."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            with CatalogClient.connect(address) as client:
                assert client.is_healthy()
                return
        except ServerUnreachable:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def bake(directory: Path) -> str:
    """Build the base image and an index of one bundle on it, and return its reference."""
    layout = f"oci:{directory}/images"
    subprocess.run([sys.executable, BUILD, "--tag", f"{layout}:runtime"], check=True, cwd=directory)
    opm = Opm(directory)
    opm.build_bundle("0.1.0", f"{layout}:bundle")
    opm("index", "add", "-b", f"{directory}/bundle-0.1.0", "-i", f"{layout}:runtime", "-t", f"{layout}:catalog")
    return f"{layout}:catalog"


def test_index_on_the_runtime_image_is_served_as_in_a_cluster(tmp_path: Path) -> None:
    """This is a single test because building the image takes long."""
    image, port = bake(tmp_path), free_port()
    [platform] = json.loads(Opm(tmp_path)("image", "inspect", image, "--output", "json"))["images"]
    assert platform["entrypoint"] == ["/bin/opm"]
    assert platform["cmd"] == ["registry", "serve", "--database", "/database/index.db"]
    assert len(platform["layers"]) == 4
    with Container(image, tmp_path, "--port", str(port)) as container:
        wait_for(f"127.0.0.1:{port}")
        with CatalogClient.connect(f"127.0.0.1:{port}") as client:
            assert list(client.list_packages()) == ["lagoon-operator"]
            assert {bundle.name for bundle in client.list_bundles()} == {"lagoon-operator.v0.1.0"}
        assert container.run("grpc_health_probe", f"-addr=:{port}") == "status: SERVING\n"
        for program in PROGRAMS:
            assert "usage" in container.run(f"/bin/{program}", "--help").lower()
        made = container.run("opm", "index", "add", "-b", "", "-i", "scratch", "-t", "oci:/tmp/images:1")
        assert made.startswith("oci:/tmp/images:1@sha256:")
        assert container.stop() == 0
    bill = json.loads((tmp_path / "bundle" / "rootfs" / "opt" / "opmkit" / "sbom.cdx.json").read_text())
    names = {part["name"] for part in bill["components"]}
    assert {"grpcio", "requests", "CPython"} <= names
    assert any(name.endswith("/libc.so.6") for name in names)

    serve_recipe(tmp_path / "bundle" / "rootfs")
    assert not [path for path in (tmp_path / "bundle" / "rootfs").rglob("*sh") if path.name in {"sh", "bash", "dash"}]


def serve_recipe(root: Path) -> None:
    """Run the steps of the Dockerfile in the docs in ``root``, the files of the runtime image, and query its server."""
    document = (FIXTURES.parent / "docs" / "installation.md").read_text()
    recipe = re.findall(r"```dockerfile\n(.*?)```", document, re.DOTALL)[1]
    steps = [(name, value) for name, _, value in (line.partition(" ") for line in recipe.splitlines() if line)]
    assert [name for name, _ in steps] == ["FROM", "COPY", "RUN", "FROM", "COPY", "ENTRYPOINT", "CMD"]
    chroot = ["chroot", "--userspec=1001:0", str(root)]
    bundle = root / steps[1][1].split()[1].lstrip("/")
    shutil.copytree(LAGOON / "0.1.0", bundle / "0.1.0")
    (bundle / "package.yaml").write_text(
        "packageName: lagoon-operator\nchannels:\n- name: stable\n  currentCSV: lagoon-operator.v0.1.0\n"
    )
    subprocess.run([*chroot, *json.loads(steps[2][1])], check=True)
    source, target = steps[4][1].removeprefix("--from=builder ").split()
    shutil.copy2(root / source.lstrip("/"), root / target.lstrip("/"))
    port = free_port()
    argv = [*chroot, *json.loads(steps[5][1]), *json.loads(steps[6][1]), "--port", str(port)]
    with subprocess.Popen(argv) as server:
        try:
            wait_for(f"127.0.0.1:{port}")
            with CatalogClient.connect(f"127.0.0.1:{port}") as client:
                assert [bundle.name for bundle in client.list_bundles()] == ["lagoon-operator.v0.1.0"]
        finally:
            server.terminate()


def test_images_of_platforms_are_combined() -> None:
    """The order does not depend on the platform that builds, and one platform is not accepted twice."""
    script = "\n".join(
        [
            "import sys; sys.path.insert(0, sys.argv[1]); import build_runtime as b",
            "from opmkit.imagetools.errors import OpmkitError",
            "from opmkit.imagetools.spec import Platform",
            "amd, arm = (b.Image.scratch(Platform('linux', name)) for name in ('amd64', 'arm64'))",
            "assert b.combined(amd, []) is amd",
            "assert b.combined(amd, [arm]).digest == b.combined(arm, [b.combined(amd, [])]).digest",
            "index = b.combined(arm, [amd])",
            "print([one.platform.architecture for one in index.index.images])",
            "try: b.combined(amd, [index])",
            "except OpmkitError as error: print(error.message)",
        ]
    )
    argv = [sys.executable, "-c", script, str(BUILD.parent)]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["['amd64', 'arm64']", "--combine-with: two images have the same platform"]


def test_program_layer_is_reproducible(tmp_path: Path) -> None:
    """Only the layer of the project is built twice, which is quick; the same functions write the others."""
    script = "\n".join(
        [
            "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[1]); import build_runtime as b",
            "from opmkit.imagetools.layer import write_tar",
            "stage = Path(sys.argv[2]); b.stage_opmkit(stage); b.compile_modules(stage)",
            "print(write_tar(b.tar(stage, 0), stage.parent).descriptor.digest)",
        ]
    )
    digests = set()
    for name in ("first", "other/second"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        argv = [sys.executable, "-c", script, str(BUILD.parent), str(tmp_path / name)]
        digests.add(subprocess.run(argv, check=True, capture_output=True, text=True).stdout)
    assert len(digests) == 1
    assert list((tmp_path / "first").rglob("*.pyc"))


def bill_of_materials(library: Path, **environment: str) -> bytes:
    """Return the bill of materials of this environment and one shared library, written by a new process."""
    script = "\n".join(
        [
            "import sys; from importlib import metadata; from pathlib import Path; sys.path.insert(0, sys.argv[1])",
            "from build_runtime import dependencies; from sbom import cyclonedx_json",
            "root, libraries = metadata.distribution('opmkit'), {'/lib/libx.so': Path(sys.argv[2])}",
            "sys.stdout.buffer.write(cyclonedx_json(root, dependencies('opmkit'), libraries, 1700000000))",
        ]
    )
    argv = [sys.executable, "-c", script, str(BUILD.parent), str(library)]
    return subprocess.run(argv, check=True, capture_output=True, env={**os.environ, **environment}).stdout


def test_sbom_lists_the_packages(tmp_path: Path) -> None:
    library = tmp_path / "libx.so"
    library.write_bytes(b"library")
    written = bill_of_materials(library, PYTHONHASHSEED="1")
    assert written == bill_of_materials(library, PYTHONHASHSEED="2")
    bill = json.loads(written)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["timestamp"] == "2023-11-14T22:13:20+00:00"
    assert bill["metadata"]["component"]["name"] == "opmkit"
    parts = {part["name"]: part for part in bill["components"]}
    assert parts["grpcio"]["purl"] == f"pkg:pypi/grpcio@{version('grpcio')}"
    assert parts["requests"]["licenses"] == [{"license": {"id": "Apache-2.0"}}]
    assert parts["CPython"]["version"] == platform.python_version()
    assert parts["/lib/libx.so"]["hashes"] == [{"alg": "SHA-256", "content": sha256(b"library").hexdigest()}]
    assert not {"pytest", "hatchling", "cyclonedx-python-lib"} & parts.keys()
    edges = {each["ref"]: each.get("dependsOn", []) for each in bill["dependencies"]}
    assert parts["urllib3"]["bom-ref"] in edges[parts["requests"]["bom-ref"]]
    assert parts["grpcio"]["bom-ref"] in edges[bill["metadata"]["component"]["bom-ref"]]
