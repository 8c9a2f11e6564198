"""Display names and plurals."""

from __future__ import annotations

import pytest

from opmkit.author.project.base import display_name, plural


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("memcached-operator", "Memcached Operator"),
        ("3scale-operator", "3Scale Operator"),
        ("k8s.op_fooBar", "K8s Op Foo Bar"),
        ("it's-me", "It's Me"),
        ("ABCDef-xYZ", "ABCDef X YZ"),
        ("a1b-2c", "A1b 2C"),
        ("a2--B", "A2 B"),
        ("", ""),
    ],
)
def test_display_names_are_those_of_operator_sdk(name: str, expected: str) -> None:
    assert display_name(name) == expected


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("memcached", "memcacheds"),
        ("policy", "policies"),
        ("gateway", "gateways"),
        ("ingress", "ingresses"),
        ("redis", "redis"),
        ("bus", "buses"),
        ("status", "statuses"),
        ("box", "boxes"),
        ("ox", "oxen"),
        ("batch", "batches"),
        ("mesh", "meshes"),
        ("index", "indices"),
        ("matrix", "matrices"),
        ("kafka", "kafkas"),
        ("quota", "quota"),
        ("media", "media"),
        ("stadium", "stadia"),
        ("analysis", "analyses"),
        ("shelf", "shelves"),
        ("knife", "knives"),
        ("spiffe", "spiffes"),
        ("human", "humans"),
        ("woman", "women"),
        ("series", "series"),
        ("alias", "aliases"),
        ("database", "databases"),
    ],
)
def test_plurals(word: str, expected: str) -> None:
    assert plural(word) == expected
