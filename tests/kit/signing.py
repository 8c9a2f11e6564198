"""Keys, an image to sign, and the opinion of containers/image about it."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from opmkit.imagetools.signatures.keys import PrivateKey
from opmkit.imagetools.store import LayoutRepository
from tests.kit import golang
from tests.kit.content import put_image

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit.imagetools.repository import Repository
    from opmkit.imagetools.spec import Descriptor
    from tests.kit.registry import Registry

NAME = "quay.io/me/app"


@cache
def private_key(kind: str) -> PrivateKey:
    """Return a key of a type, the same each time."""
    match kind:
        case "rsa":
            return PrivateKey(rsa.generate_private_key(65537, 2048), kind)
        case "ed25519":
            return PrivateKey(ed25519.Ed25519PrivateKey.generate(), kind)
        case "p384":
            return PrivateKey(ec.generate_private_key(ec.SECP384R1()), kind)
        case _:
            return PrivateKey(ec.generate_private_key(ec.SECP256R1()), kind)


@dataclass(frozen=True)
class Signed:
    """An image in a repository, by its descriptor."""

    repository: Repository
    image: Descriptor


@pytest.fixture
def signed(tmp_path: Path) -> Signed:
    """Return an image in a layout, which is not signed yet."""
    repository = LayoutRepository(tmp_path / "layout")
    return Signed(repository, put_image(repository, "1", b"x").descriptor)


@pytest.fixture
def pushed(registry: Registry, request: pytest.FixtureRequest) -> Signed:
    """Return an image in a registry, which is not signed yet."""
    name = "signing/" + re.sub("[^a-z]", "", request.node.name.lower())
    repository = RegistryClient(RegistryOptions(plain_http=True)).target(Reference(registry.host, name))
    return Signed(repository, put_image(repository, "1", b"x").descriptor)


@dataclass(frozen=True)
class Question:
    """A question to containers/image."""

    policy: str
    image: str = ""
    registriesDir: str = ""  # noqa: N815 - as in the program
    registries: str = ""


@pytest.fixture(scope="session")
def gopolicy(pytestconfig: pytest.Config) -> Path:
    """Return the program that asks containers/image."""
    return golang.gopolicy(pytestconfig.cache.mkdir("opmkit-go"))


def ask(program: Path, questions: list[Question]) -> list[dict[str, Any]]:
    """Return the answers of containers/image."""
    asked = json.dumps([asdict(question) for question in questions])
    done = subprocess.run([program], input=asked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    return answers
