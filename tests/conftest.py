"""Fixtures that tests of every package use."""

from __future__ import annotations

import gc
import logging
import os
import random
import sys
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.kit.cluster.cluster import Cluster
from tests.kit.engines import DockerDaemon, Engine
from tests.kit.forkserver import ForkServer
from tests.kit.opm import Opm
from tests.kit.registry import Registry
from tests.kit.tokenserver import TokenServer

if TYPE_CHECKING:
    from collections.abc import Iterator

sys.dont_write_bytecode = False  # rewriting the assertions of all modules takes longer than their collection
gc.disable()  # until all tests are collected, because what is collected stays

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("untimed"), max_examples=20)  # for the tests of `just unit`
settings.load_profile("untimed")  # durations depend on the machine

_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
_USER_SETTINGS = (
    *("REGISTRY_AUTH_FILE", "DOCKER_CONFIG", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "SOURCE_DATE_EPOCH"),
    *("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "CONTAINER_HOST", "CONTAINER_SSHKEY"),
    *("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"),
    *("OPM_COMPAT", "OPM_COMPAT_VERSION", "OPM_OPERATOR_SDK_VERSION"),
    *("CONTAINERS_REGISTRIES_CONF", "CONTAINERS_REGISTRIES_CONF_OVERRIDE", "XDG_CACHE_HOME"),
    *_PROXIES,
    *map(str.upper, _PROXIES),
)


UNIT_DIRECTORIES = frozenset(
    {"api", "author", "bundle", "cli", "client", "core", "documents", "imagetools", "index", "kube", "server", "supply"}
)
REAL_COMPONENTS = frozenset(
    {
        "basic_registry",
        "cluster",
        "container_storage",
        "docker_daemon",
        "forkserver",
        "gopolicy",
        "mtls_registry",
        "registry",
        "tls_registry",
        "token_registry",
    }
)
"""Fixtures that start other programs; tests that use one are not unit tests."""


_STORES = count()
"""Numbers of image stores: each test has its own, which most do not create."""
ALL = "OPMKIT_TEST_ALL"
"""Variable that selects the long tests, too."""
ORDER_SEED = "OPMKIT_ORDER_SEED"
"""Variable with the seed of a random order of the tests."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run the tests marked long, too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the unit tests, and deselect the long ones unless they are asked for."""
    if seed := os.environ.get(ORDER_SEED):
        random.Random(seed).shuffle(items)
    for item in items:
        if _is_unit_test(item):
            item.add_marker(pytest.mark.unit)
    if not _selects_long_tests(config):
        long = [item for item in items if item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if not item.get_closest_marker("long")]


def _is_unit_test(item: pytest.Item) -> bool:
    """Return whether a test is one of a package that is neither slow nor long and starts no other program."""
    in_package = item.path.relative_to(Path(__file__).parent).parts[0] in UNIT_DIRECTORIES
    is_pure = REAL_COMPONENTS.isdisjoint(getattr(item, "fixturenames", ()))
    return in_package and is_pure and not any(map(item.get_closest_marker, ("slow", "long")))


def _selects_long_tests(config: pytest.Config) -> bool:
    """Return whether all tests are to run, long ones in particular, or single tests by name."""
    by_name = any("::" in argument for argument in config.args)
    return bool(config.getoption("--all") or os.environ.get(ALL)) or by_name or "long" in config.option.markexpr


def pytest_collection_finish() -> None:
    """Enable the garbage collector again, which ignores what has been collected."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def _isolated_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Isolate tests from the settings, credentials and image store of the user."""
    for name in _USER_SETTINGS:
        monkeypatch.delenv(name, raising=False)
    home = tmp_path_factory.getbasetemp() / "home"
    home.mkdir(exist_ok=True)
    for name in ("HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(home))
    monkeypatch.setenv("OPM_STORE", str(home / f"store-{next(_STORES)}"))


@pytest.fixture(autouse=True)
def _reset_logging() -> Iterator[None]:
    """Undo the logging settings of commands that ran in this process, so that ``caplog`` works."""
    yield
    logger = logging.getLogger("opmkit")
    logger.handlers, logger.propagate = [], True
    logger.setLevel(logging.NOTSET)


@pytest.fixture(scope="session")
def forkserver() -> Iterator[ForkServer]:
    """Return the fork server for commands, one per worker."""
    with ForkServer() as started:
        yield started


@pytest.fixture
def opm(tmp_path: Path, forkserver: ForkServer) -> Opm:
    """Return the command in an empty working directory."""
    return Opm(tmp_path, forkserver=forkserver)


@pytest.fixture
def opm_http(opm: Opm) -> Opm:
    """Return the command in an empty working directory with ``--use-http``."""
    return replace(opm, flags=("--use-http",))


@pytest.fixture(scope="session")
def registry() -> Iterator[Registry]:
    """Start a plain HTTP registry without authentication, one per worker: tests use distinct repository names."""
    with Registry() as started:
        yield started


@pytest.fixture
def basic_registry() -> Iterator[Registry]:
    """Start a plain HTTP registry with basic authentication for ``tester``/``secret``."""
    with Registry(users={"tester": "secret"}) as started:
        yield started


@pytest.fixture
def tls_registry() -> Iterator[Registry]:
    """Start an HTTPS registry with a certificate of the private authority ``tls_registry.ca_file``."""
    with Registry(tls=True) as started:
        yield started


@pytest.fixture
def token_server() -> Iterator[TokenServer]:
    """Start a token server for ``tester``/``secret``, with anonymous pulls of ``public/...``."""
    with TokenServer({"tester": "secret"}, identity_tokens={"identity": "tester"}) as started:
        yield started


@pytest.fixture
def token_registry(token_server: TokenServer) -> Iterator[Registry]:
    """Start a plain HTTP registry that accepts the tokens of ``token_server``."""
    with Registry(tokens=token_server) as started:
        yield started


@pytest.fixture(scope="session")
def docker_daemon() -> Iterator[DockerDaemon]:
    """Start dockerd, one per worker: tests use distinct image names."""
    with DockerDaemon() as started:
        yield started


@pytest.fixture(scope="session")
def container_storage() -> Iterator[Engine]:
    """Create storage for podman and buildah, one per worker."""
    with Engine("podman") as engine:
        yield engine


@pytest.fixture(scope="session")
def started_cluster() -> Iterator[Cluster]:
    """Start a Kubernetes API server with OLM, one per worker."""
    with Cluster() as started:
        yield started


@pytest.fixture
def cluster(started_cluster: Cluster) -> Iterator[Cluster]:
    """Return the cluster, and remove what the test has created."""
    yield started_cluster
    started_cluster.restore()
