"""Validation of Kubernetes names: the number of problems of each name."""

from __future__ import annotations

import pytest

from opmkit.bundle import kubernetes_names as names


@pytest.mark.parametrize(
    ("name", "subdomain", "label", "letter_first"),
    [
        ("a", 0, 0, 0),
        ("my-name", 0, 0, 0),
        ("1a", 0, 0, 1),
        ("a.b-c.9", 0, 1, 1),
        ("", 1, 1, 1),
        ("A", 1, 1, 1),
        ("a_b", 1, 1, 1),
        ("-a", 1, 1, 1),
        ("a-", 1, 1, 1),
        ("a..b", 1, 1, 1),
        ("a\n", 1, 1, 1),
        ("a" * 63, 0, 0, 0),
        ("a" * 64, 0, 1, 1),
        ("a" * 254, 1, 1, 1),
        ("A" * 254, 2, 2, 2),
        ("ä" * 40, 1, 2, 2),
        ("\ud800", 1, 1, 1),
    ],
)
def test_dns_names(name: str, subdomain: int, label: int, letter_first: int) -> None:
    found = (names.dns1123_subdomain(name), names.dns1123_label(name), names.dns1035_label(name))
    assert tuple(map(len, found)) == (subdomain, label, letter_first)


@pytest.mark.parametrize(
    ("value", "problems"),
    [("", 0), ("A.b_c-9", 0), ("a" * 63, 0), ("a" * 64, 1), ("a b", 1), (".a", 1), (" " * 64, 2), ("a/b", 1)],
)
def test_values_of_labels(value: str, problems: int) -> None:
    assert len(names.label_value(value)) == problems


@pytest.mark.parametrize(
    ("name", "problems"),
    [
        ("Simple_name.1", 0),
        ("example.com/name", 0),
        ("", 2),
        ("/name", 1),
        ("example.com/", 2),
        ("Example.com/name", 1),
        ("Example.com/a b", 2),
        ("a/b/c", 1),
        ("a" * 64, 1),
        ("/", 3),
        ("a b", 1),
    ],
)
def test_qualified_names(name: str, problems: int) -> None:
    assert len(names.qualified_name(name)) == problems


def test_problems_describe_the_name_and_the_rule() -> None:
    assert names.label_value("x" * 70) == ["it has 70 bytes, more than 63"]
    assert names.qualified_name("Up/name") == [
        "in the prefix before the slash, it must consist of lower case letters, digits, '-' and '.', "
        "with a letter or digit at both ends of each part"
    ]
