"""Images that are built but not pushed, and registries that the containers configuration marks as insecure."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.copy import copy_image
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from tests.kit.images import small_image
from tests.kit.opm import LAGOON
from tests.kit.requirements import require

if TYPE_CHECKING:
    from tests.kit.engines import Engine
    from tests.kit.installed import InstalledOpm
    from tests.kit.registry import Registry

LONG_TOOLS = tuple(pytest.param(name, marks=pytest.mark.long) for name in ("buildah", "docker"))
BUNDLE = ("bundle", "build", "-d", str(LAGOON / "0.1.0" / "manifests"), "-p", "lagoon-operator", "-c", "alpha")


@pytest.fixture
def namespace(registry: Registry, tmp_path: Path) -> str:
    return f"{registry.host}/{tmp_path.name.replace('_', '-').lower()}"


@pytest.fixture
def user(newcomer: InstalledOpm, registry: Registry, namespace: str) -> InstalledOpm:
    """Return a user whose settings call the test registry insecure and take the images of operator-registry from it."""
    settings = newcomer.home / ".config/containers/registries.conf"
    settings.parent.mkdir(parents=True)
    settings.write_text(
        f'[[registry]]\nlocation = "{registry.host}"\ninsecure = true\n'
        f'[[registry]]\nprefix = "quay.io/operator-framework"\nlocation = "{namespace}"\ninsecure = true\n'
    )
    return newcomer.with_env(CONTAINERS_REGISTRIES_CONF=str(settings))


def build_bundle(user: InstalledOpm, name: str, *flags: str) -> str:
    """Build the bundle of the sample operator under a name, and return what the command prints to stderr."""
    done = user.attempt(*BUNDLE, "--output-dir", "bundle", "--overwrite", "-t", name, *flags)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(name)
    return done.stderr


def test_images_in_the_embedded_store_are_reported_with_the_command_that_pushes_them(
    user: InstalledOpm, namespace: str
) -> None:
    store = user.home / ".local/share/opmkit"
    bundle, catalog = f"{namespace}/lagoon:0.1.0", f"{namespace}/catalog:1"
    printed = build_bundle(user, bundle)
    place = f"stored in the embedded store {store}, not in that of podman or docker"
    assert printed.endswith(f"{bundle}: built but not pushed: {place}; push with 'opm image push {bundle}'\n")
    assert "not pushed" not in build_bundle(user, "oci:images:1")

    added = user.attempt("index", "add", "-b", bundle, "-i", "scratch", "-t", catalog)
    assert added.stdout == ""  # as of Go opm
    command = added.stderr.splitlines()[-1].split("'")[1]
    assert command == f"opm image push {catalog}"
    pushed = user.shell_out(command.split())
    again = user.attempt("index", "add", "-b", bundle, "-i", "scratch", "-t", catalog, "--output", "text")
    assert pushed.stdout == again.stdout != "", pushed.stderr
    assert "not pushed" not in user.attempt("index", "prune-stranded", "-f", catalog, "-t", catalog, "--push").stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("index", "rm", "-o", "lagoon-operator"),
        ("index", "update", "--rm", "lagoon-operator", "--also-tag", "quay.io/me/more:1"),
        ("index", "filter", "lagoon-operator", "--to-fbc"),
        pytest.param(("index", "prune", "-p", "lagoon-operator"), marks=pytest.mark.long),
        pytest.param(("index", "prune-stranded"), marks=pytest.mark.long),
        pytest.param(("index", "deprecatetruncate", "-b", "", "--permissive"), marks=pytest.mark.long),
        pytest.param(
            ("index", "deprecate", "--package", "lagoon-operator", "-m", "Use another.", "--to-fbc"),
            marks=pytest.mark.long,
        ),
    ],
    ids=lambda arguments: arguments[1],
)
def test_every_command_that_builds_reports_where_the_image_is(
    user: InstalledOpm, namespace: str, arguments: tuple[str, ...]
) -> None:
    user("registry", "add", "-d", "index.db", "-b", add_directory(user))
    done = user.attempt(*arguments, "-f", "index.db", "-i", "scratch", "-t", "quay.io/me/catalog:1", "--output", "json")
    assert done.returncode == 0, done.stderr
    names = json.loads(done.stdout)["references"]
    command = " && ".join(f"opm image push {name}" for name in names)
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"{', '.join(names)}: built but not pushed: stored in the embedded store ")
    assert last.endswith(f"; push with '{command}'")


def add_directory(user: InstalledOpm) -> str:
    """Write the bundle directory of the sample operator and return the name under which an index records it."""
    user(*BUNDLE[:1], "generate", *BUNDLE[2:], "--output-dir", "bundle")
    return "./bundle=quay.io/me/lagoon:0.1.0"


def engine_user(user: InstalledOpm, tool: str, request: pytest.FixtureRequest) -> InstalledOpm:
    """Return the user with private storage for an engine."""
    require(tool)
    if tool == "docker":
        engine: Engine = request.getfixturevalue("docker_daemon")
        return user.with_env(DOCKER_HOST=engine.settings["DOCKER_HOST"])
    engine = request.getfixturevalue("container_storage")
    settings = {name: value for name, value in engine.settings.items() if name != "CONTAINERS_REGISTRIES_CONF"}
    return user.with_env(**settings)


@pytest.mark.parametrize("tool", ["podman", *LONG_TOOLS])
def test_the_makefile_of_operator_sdk_works_with_an_insecure_registry_of_the_settings(
    user: InstalledOpm, namespace: str, tool: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    user = engine_user(user, tool, request)
    bundle, catalog = f"{namespace}/lagoon:0.1.0", f"{namespace}/catalog-{tool}:1"
    build_bundle(user, bundle, "--push")
    put_base(f"{namespace}/opm:v1.73.0", tmp_path)
    base = f"--binary-image={namespace}/opm:v1.73.0" if tool == "docker" else ""  # docker has no mirrors of quay.io
    (user.directory / "Makefile").write_text(
        "catalog-build:\n"
        f"\topm index add --container-tool {tool} --mode semver --tag {catalog} --bundles {bundle} {base}\n"
        "catalog-push:\n"
        f"\t{tool} push {catalog}\n"
    )
    built = user.shell_out(["make", "-s", "catalog-build"])
    assert built.returncode == 0, built.stderr
    assert built.stdout == ""
    place = f"stored in the storage of {tool}; push with '{tool} push {catalog}'\n"
    assert built.stderr.endswith(f"{catalog}: built but not pushed: {place}")

    exists = {"docker": ("docker", "image", "inspect"), "buildah": ("buildah", "inspect", "--type", "image")}
    inspected = user.shell_out([*exists.get(tool, ("podman", "image", "exists")), catalog])
    assert inspected.returncode == 0, inspected.stderr
    pushed = user.shell_out(["make", "-s", "catalog-push"])
    assert pushed.returncode == 0, pushed.stderr
    assert "lagoon-operator.v0.1.0" in user("render", catalog)


@pytest.mark.parametrize("tool", ["podman", "buildah"])
def test_flags_still_make_a_registry_insecure(
    newcomer: InstalledOpm, namespace: str, tool: str, request: pytest.FixtureRequest
) -> None:
    empty = newcomer.home / "registries.conf"
    empty.touch()
    user = engine_user(newcomer.with_env(CONTAINERS_REGISTRIES_CONF=str(empty)), tool, request)
    bundle = f"{namespace}/lagoon:0.1.0"
    build_bundle(user, bundle, "--push", "--use-http")
    unpack = ("bundle", "unpack", bundle, "--container-tool", tool, "--out", "unpacked")
    refused = user.attempt(*unpack)
    assert refused.returncode == 1
    assert "registries.conf" in refused.stderr
    user(*unpack, "--skip-tls-verify")


def put_base(name: str, scratch: Path) -> None:
    """Put an image into the registry for indexes to be layered on."""
    reference = Reference.parse(name)
    image = small_image(scratch, {"bin/opm": b"a server"})
    copy_image(image, RegistryClient(RegistryOptions(plain_http=True)).repository(reference), reference.tag)


@pytest.mark.parametrize("tool", ["podman", "buildah", "docker"])
def test_unreachable_base_image_is_reported_as_the_default(
    user: InstalledOpm, namespace: str, tool: str, request: pytest.FixtureRequest
) -> None:
    user = engine_user(user, tool, request)
    source = add_directory(user)
    user.shell_out([tool, "rmi", "--force", "quay.io/operator-framework/opm:v1.73.0"])  # of other tests, if any
    new = ("index", "add", "-b", source, "--pull-tool", "none", "--build-tool", tool, "-t", f"{namespace}/catalog:1")
    done = user.attempt(*new)
    assert done.returncode == 1
    assert "Error: default base image quay.io/operator-framework/opm:v1.73.0: " in done.stderr
    assert "or choose another base image, or scratch, with --binary-image" in done.stderr
    named = user.attempt(*new, "--binary-image", f"{namespace}/missing:1")
    assert named.returncode == 1
    assert "base image" not in named.stderr
    user(*new, "--binary-image", "scratch")


def test_podman_service_ends_with_the_command(
    user: InstalledOpm, namespace: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    user = engine_user(user, "podman", request)
    bundle, catalog = f"{namespace}/lagoon:0.1.0", f"{namespace}/catalog:1"
    build_bundle(user, bundle, "--push")
    put_base(f"{namespace}/opm:v1.73.0", tmp_path)
    with TemporaryDirectory() as scratch:  # with a short name, as that of a socket must be
        user = user.with_env(TMPDIR=scratch)
        done = user.attempt("index", "add", "--container-tool", "podman", "--tag", catalog, "--bundles", bundle)
        assert done.returncode == 0, done.stderr
        assert not list(Path(scratch).glob("opm-podman-*"))
        assert user.shell_out(["pgrep", "--full", scratch]).stdout == ""
