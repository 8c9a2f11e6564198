"""The base image of ``scripts/build-runtime``: an index built on it is served in a container as an arbitrary user."""

from __future__ import annotations

import json
import os
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
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.utils import canonicalize_name

from opmkit.client import CatalogClient, ServerUnreachable
from opmkit.imagetools.spec import Platform
from tests.kit.catalogs import free_port
from tests.kit.opm import FIXTURES, LAGOON, Opm
from tests.kit.requirements import require

if TYPE_CHECKING:
    from pathlib import Path

BUILD = FIXTURES.parent / "scripts" / "build_runtime.py"
PROGRAMS = ("opm", "initializer", "registry-server", "configmap-server", "grpc_health_probe")
PATIENCE = 60
IMPORT_COMPILED = """
import importlib, pathlib, sys
modules = [
    ".".join((*path.relative_to(root).parts[:-1], path.name.partition(".")[0]))
    for root in map(pathlib.Path, reversed(sys.path))
    for path in root.rglob("*.so")
    if not {"site-packages", "dist-packages", "lib-dynload"} & set(path.relative_to(root).parts)
]
print(len([importlib.import_module(name) for name in modules]))
"""


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


def build_runtime(script: Path, directory: Path, umask: int = -1, **environment: str) -> str:
    """Build the base image as ``images:runtime`` in a directory, and return its digest."""
    argv = [sys.executable, str(script), "--tag", f"oci:{directory}/images:runtime"]
    settings = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000", **environment}
    done = subprocess.run(argv, check=True, cwd=directory, umask=umask, env=settings, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip().partition("@")[2]


def bake(directory: Path) -> str:
    """Build an index of one bundle on the base image in the directory, and return its reference."""
    layout = f"oci:{directory}/images"
    opm = Opm(directory)
    opm.build_bundle("0.1.0", f"{layout}:bundle")
    opm("index", "add", "-b", f"{directory}/bundle-0.1.0", "-i", f"{layout}:runtime", "-t", f"{layout}:catalog")
    return f"{layout}:catalog"


def test_index_on_the_runtime_image_is_served_as_in_a_cluster(tmp_path: Path) -> None:
    """This is a single test because building the image takes long."""
    runtime = build_runtime(BUILD, tmp_path)
    assert runtime.startswith("sha256:")
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
    root = tmp_path / "bundle" / "rootfs"
    assert bake_elsewhere(tmp_path / "elsewhere") == runtime
    check_bill_of_materials(root)
    import_compiled_modules(root)
    check_documented_sizes(root, sum(layer["size"] for layer in platform["layers"][:3]))
    serve_recipe(root)
    assert not [path for path in root.rglob("*sh") if path.name in {"sh", "bash", "dash"}]


def bake_elsewhere(directory: Path) -> str:
    """Build the base image from another checkout, by a user with other settings, and return its digest."""
    checkout = directory / "checkout"
    for name in ("scripts", "src"):
        shutil.copytree(BUILD.parents[1] / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
    settings = {"TZ": "Pacific/Kiritimati", "HOME": str(directory), "LC_ALL": "C", "PYTHONHASHSEED": "7"}
    return build_runtime(
        checkout / "scripts" / BUILD.name, directory, umask=0o077, PYTHONPATH=f"{checkout}/src", **settings
    )


def check_bill_of_materials(root: Path) -> None:
    """Check that the bill follows the schema of its format and lists all packages and shared libraries of the image."""
    text = (root / "opt" / "opmkit" / "sbom.cdx.json").read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    parts = json.loads(text)["components"]
    installed = {path.name.removesuffix(".dist-info") for path in root.rglob("*.dist-info")}
    listed = {f"{part['name']}-{part['version']}" for part in parts if part.get("purl")}
    assert {canonicalize_name(name) for name in installed} == {canonicalize_name(name) for name in listed}
    files = {part["name"]: part["hashes"][0]["content"] for part in parts if part["type"] == "file"}
    libraries = {f"/{path.relative_to(root)}" for path in root.glob("*lib*/**/*.so*") if path.is_file()}
    assert files == {name: sha256((root / name[1:]).read_bytes()).hexdigest() for name in libraries}
    assert any(name.endswith("/libc.so.6") for name in files)


def import_compiled_modules(root: Path) -> None:
    """Import all modules that are linked to shared libraries, so that none is missing."""
    done = subprocess.run(
        ["chroot", "--userspec=1001:0", str(root), "/opt/opmkit/bin/python", "-I", "-c", IMPORT_COMPILED],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) > 40  # distributions link some modules into the interpreter


def check_documented_sizes(root: Path, compressed: int) -> None:
    """Compare the table in the docs, which is of one version of Python on amd64, with the files of the image."""
    document = (FIXTURES.parent / "docs" / "installation.md").read_text()
    if f"Python {sys.version_info[0]}.{sys.version_info[1]} on {Platform.from_host().architecture}" not in document:
        return
    documented = {name: int(size) for name, size in re.findall(r"^\| (.+?) \| (\d+) MB \|$", document, re.MULTILINE)}
    [library] = (root / "opt" / "opmkit" / "lib").glob("python*")
    modules = library / "site-packages"
    if not modules.is_dir():  # Debian's Python has packages elsewhere
        return
    sizes = {
        "gRPC": size(modules / "grpc"),
        "cryptography": size(modules / "cryptography"),
        "opmkit, with its source": size(modules / "opmkit"),
        "standard library of Python": size(library) - size(modules),
        "all files": size(root),
        "compressed layers": compressed,
    }
    named = sum(map(size, (modules / "grpc", modules / "cryptography", modules / "opmkit")))
    sizes["other packages"] = size(modules) - named
    sizes["interpreter and shared libraries"] = size(root) - size(library)
    assert {name: round(value / 1e6) for name, value in sizes.items()} == {
        name: pytest.approx(value, rel=0.1, abs=2) for name, value in documented.items()
    }


def size(directory: Path) -> int:
    """Return the total size in bytes of the files in a directory."""
    return sum(path.lstat().st_size for path in directory.rglob("*") if path.is_file() and not path.is_symlink())


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
            "from opmkit.core.errors import OpmkitError",
            "from opmkit.imagetools.spec import Platform",
            "amd, arm = (b.Image.scratch(Platform('linux', name)) for name in ('amd64', 'arm64'))",
            "assert b.combined(amd) is amd",
            "assert b.combined(amd, arm).digest == b.combined(arm, b.combined(amd)).digest",
            "index = b.combined(arm, amd)",
            "print([one.platform.architecture for one in index.index.images])",
            "try: b.combined(amd, index)",
            "except OpmkitError as error: print(error.message)",
        ]
    )
    argv = [sys.executable, "-c", script, str(BUILD.parent)]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["['amd64', 'arm64']", "two images have the same platform"]


def bill_of_materials(library: Path, **environment: str) -> bytes:
    """Return the bill of materials of this environment and one shared library, written by a new process."""
    script = "\n".join(
        [
            "import sys; from importlib import metadata; from pathlib import Path; sys.path.insert(0, sys.argv[1])",
            "from image_sources import HostSource; from sbom import cyclonedx_json",
            "root, libraries = metadata.distribution('opmkit'), {'/lib/libx.so': Path(sys.argv[2])}",
            "needed = HostSource.running().dependencies('opmkit')",
            "sys.stdout.buffer.write(cyclonedx_json(root, needed, libraries, 1700000000, '3.11.7'))",
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
    assert parts["CPython"]["version"] == "3.11.7"
    assert parts["/lib/libx.so"]["hashes"] == [{"alg": "SHA-256", "content": sha256(b"library").hexdigest()}]
    assert not {"pytest", "hatchling", "cyclonedx-python-lib"} & parts.keys()
    edges = {each["ref"]: each.get("dependsOn", []) for each in bill["dependencies"]}
    assert parts["urllib3"]["bom-ref"] in edges[parts["requests"]["bom-ref"]]
    assert parts["grpcio"]["bom-ref"] in edges[bill["metadata"]["component"]["bom-ref"]]
