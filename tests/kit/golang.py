"""Programs written in Go, built where Go is there."""

from __future__ import annotations

import os
import pwd
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest
from filelock import FileLock

from tests.kit.requirements import require

GRPCURL = "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.4"
H2SPEC = "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible"
GOCLIENT = Path(__file__).with_name("goclient")
_BUILD = ("-gcflags=all=-N -l", "-ldflags=-s -w", "-buildvcs=false")  # which takes the least time


def goclient(cache: Path) -> Path:
    """The program in ``goclient``; built below ``cache``, unless that has it already."""
    sources = [path for path in sorted(GOCLIENT.iterdir()) if path.is_file()]
    key = sha256(b"".join(path.read_bytes() for path in sources))
    program = _place(cache, "goclient", key.hexdigest())
    with FileLock(program.with_suffix(".lock")):
        if not program.exists():
            fetched = _go("mod", "download")
            if fetched.returncode:
                pytest.skip(f"Go can't fetch what goclient needs: {_last_line(fetched)}")
            built = _go("build", *_BUILD, "-o", str(program), ".")
            assert built.returncode == 0, built.stderr
    return program


def grpcurl(cache: Path) -> Path:
    """The client of any gRPC service; likewise."""
    program = _place(cache, "grpcurl", sha256(GRPCURL.encode()).hexdigest())
    with FileLock(program.with_suffix(".lock")):
        if not program.exists():
            installed = _go("install", *_BUILD, GRPCURL, GOBIN=str(program.parent))
            if installed.returncode:
                pytest.skip(f"Go can't install grpcurl: {_last_line(installed)}")
    return program


def h2spec(cache: Path) -> Path:
    """Return the conformance test for HTTP/2, built below ``cache``; the test is skipped only where Go is missing."""
    program = _place(cache, "h2spec", sha256(H2SPEC.encode()).hexdigest())
    with FileLock(program.with_suffix(".lock")):
        if not program.exists():
            installed = _go("install", *_BUILD, H2SPEC, GOBIN=str(program.parent))
            assert installed.returncode == 0, installed.stderr
    return program


def _place(cache: Path, name: str, key: str) -> Path:
    require("go")
    directory = cache / key[:16]
    directory.mkdir(parents=True, exist_ok=True)
    return directory / name


def _go(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    home = pwd.getpwuid(os.getuid()).pw_dir  # where modules and builds are kept; tests have another
    return subprocess.run(
        [require("go"), *arguments],
        cwd=GOCLIENT,
        env={**os.environ, "HOME": home, "CGO_ENABLED": "0", **env},
        capture_output=True,
        text=True,
        check=False,
    )


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
