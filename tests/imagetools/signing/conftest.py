"""Keys and an image to sign."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from opmkit.imagetools.signing.keys import PrivateKey
from opmkit.imagetools.store import LayoutRepository
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
