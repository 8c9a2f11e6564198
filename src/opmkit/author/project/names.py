"""Names in generated ClusterServiceVersions: display names of identifiers, and plurals of kinds."""

from __future__ import annotations

import re

_SEPARATORS = re.compile(r"[.\-_\s]+")
_FIRST_LETTER = re.compile(r"[^\W\d_]")

_UNCOUNTABLE = frozenset(
    ("equipment", "information", "rice", "money", "species", "series", "fish", "sheep", "jeans", "police")
)
_IRREGULAR = {"ox": "oxen", "oxen": "oxen", "quiz": "quizzes"}
_ENDINGS = tuple(
    (re.compile(rf"(?:{ending})$"), plural)
    for ending, plural in (
        ("humans?", "humans"),
        ("campus(?:es)?", "campuses"),
        ("status(?:es)?", "statuses"),
        ("zombies?", "zombies"),
        ("moves?", "moves"),
        ("sex(?:es)?", "sexes"),
        ("child(?:ren)?", "children"),
        ("m[ae]n", "men"),
        ("people|person", "people"),
        ("ress", "resses"),
        ("lice|louse", "lice"),
        ("mice|mouse", "mice"),
        ("indix|index", "indices"),
        ("vertix|vertex", "vertices"),
        ("matrix|matrex", "matrices"),
        ("(sh|ss|ch|x)", r"\1es"),
        ("([b-df-hj-np-tv-xz])y", r"\1ies"),
        ("quy", "quies"),
        ("hive", "hives"),
        ("([a-eg-z])fe", r"\1ves"),
        ("([rl])f", r"\1ves"),
        ("sis", "ses"),
        ("(ia|ta)", r"\1"),
        ("(i|t)um", r"\1a"),
        ("(tomato|buffalo|bus|alias)", r"\1es"),
        ("(vir|octop)(?:i|us)", r"\1i"),
        ("(ax|test)is", r"\1es"),
        ("s", "s"),
    )
)
"""Endings and their plurals, in the order of precedence; other words get an s."""


def display_name(name: str) -> str:
    """Return the words of an identifier in title case.

    >>> display_name("my-op_v2.fooBar"), display_name("ETCDCluster")
    ('My Op V2 Foo Bar', 'ETCDCluster')
    """
    words = []
    for word in filter(None, _SEPARATORS.split(name)):
        spaced = "".join(
            f" {letter}" if letter.isupper() and number and not word[number - 1].isupper() else letter
            for number, letter in enumerate(word)
        )
        words += spaced.split()
    return " ".join(_FIRST_LETTER.sub(lambda match: match.group().upper(), word, count=1) for word in words)


def plural(word: str) -> str:
    """Return the plural of a word in lower case, as operator-sdk forms it for the names of CRDs.

    >>> plural("policy"), plural("memcached"), plural("nodehealthcheck"), plural("ingress"), plural("kafka")
    ('policies', 'memcacheds', 'nodehealthchecks', 'ingresses', 'kafkas')
    """
    if word in _UNCOUNTABLE:
        return word
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    for ending, replacement in _ENDINGS:
        if ending.search(word):
            return ending.sub(replacement, word)
    return f"{word}s"
