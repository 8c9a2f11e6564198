"""Go programs, built on first use and cached."""

from __future__ import annotations

import os
import pwd
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest
from filelock import FileLock

from tests.kit.requirements import require

ACTIONLINT = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12"
DISTRIBUTION = "github.com/distribution/distribution/v3/cmd/registry@v3.1.2"
GRPCURL = "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.4"
HELM = "helm.sh/helm/v3/cmd/helm@v3.19.0"
H2SPEC = "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible"
GOCLIENT = Path(__file__).with_name("goclient")
GOPOLICY = Path(__file__).with_name("gopolicy")
GOREGISTRY = Path(__file__).with_name("goregistry")
_BUILD = ("-gcflags=all=-N -l", "-ldflags=-s -w", "-buildvcs=false")  # the quickest to build


def goclient(cache: Path) -> Path:
    """Return the program in ``goclient``, built below ``cache``; skip the test if it cannot be built."""
    return _build(cache, GOCLIENT)


def gopolicy(cache: Path) -> Path:
    """Return the program in ``gopolicy``, built below ``cache``; skip the test if it cannot be built."""
    return _build(cache, GOPOLICY, "-tags=containers_image_openpgp")


def goregistry(cache: Path) -> Path:
    """Return the program in ``goregistry``, built below ``cache``; skip the test if it cannot be built."""
    return _build(cache, GOREGISTRY)


def distribution(cache: Path) -> Path:
    """Return the registry of distribution 3, built below ``cache``; skip the test if it cannot be built."""
    return _install(cache, "registry", DISTRIBUTION)


def _build(cache: Path, directory: Path, *flags: str) -> Path:
    sources = [path for path in sorted(directory.iterdir()) if path.is_file()]
    key = sha256(b"".join(path.read_bytes() for path in sources))
    program = _program_path(cache, directory.name, key.hexdigest())
    with FileLock(program.with_suffix(".lock")):
        if not program.exists():
            fetched = _go("mod", "download", cwd=directory)
            if fetched.returncode:
                pytest.skip(f"go mod download failed: {_last_line(fetched)}")
            built = _go("build", *_BUILD, *flags, "-o", str(program), ".", cwd=directory)
            assert built.returncode == 0, built.stderr
    return program


def actionlint(cache: Path) -> Path:
    """Return actionlint, built below ``cache``; skip the test if it cannot be built."""
    return _install(cache, "actionlint", ACTIONLINT)


def grpcurl(cache: Path) -> Path:
    """Return grpcurl, built below ``cache``; skip the test if it cannot be built."""
    return _install(cache, "grpcurl", GRPCURL)


def helm(cache: Path) -> Path:
    """Return helm, built below ``cache``; skip the test if it cannot be built."""
    return _install(cache, "helm", HELM)


def _install(cache: Path, name: str, package: str) -> Path:
    program = _program_path(cache, name, sha256(package.encode()).hexdigest())
    with FileLock(program.with_suffix(".lock")):
        if not program.exists():
            installed = _go("install", *_BUILD, package, GOBIN=str(program.parent))
            if installed.returncode:
                pytest.skip(f"go install {package} failed: {_last_line(installed)}")
    return program


def h2spec(cache: Path) -> Path:
    """Return the conformance test for HTTP/2, built below ``cache``; skip the test if Go is not installed."""
    program = _program_path(cache, "h2spec", sha256(H2SPEC.encode()).hexdigest())
    with FileLock(program.with_suffix(".lock")):
        if not program.exists():
            installed = _go("install", *_BUILD, H2SPEC, GOBIN=str(program.parent))
            assert installed.returncode == 0, installed.stderr
    return program


def _program_path(cache: Path, name: str, key: str) -> Path:
    require("go")
    directory = cache / key[:16]
    directory.mkdir(parents=True, exist_ok=True)
    return directory / name


def _go(*arguments: str, cwd: Path = GOCLIENT, **env: str) -> subprocess.CompletedProcess[str]:
    home = pwd.getpwuid(os.getuid()).pw_dir  # the Go caches are there; tests have another HOME
    return subprocess.run(
        [require("go"), *arguments],
        cwd=cwd,
        env={**os.environ, "HOME": home, "CGO_ENABLED": "0", **env},
        capture_output=True,
        text=True,
        check=False,
    )


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
