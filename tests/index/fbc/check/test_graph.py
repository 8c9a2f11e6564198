"""Rules for update graphs."""

from __future__ import annotations

import pytest

from opmkit.index.fbc.blobs import EntryBlob
from opmkit.index.fbc.check.graph import channel_heads, check_graph


def entries(text: str) -> list[EntryBlob]:
    """Parse entries such as ``v2<v1-v0``: v2 replaces v1 and skips v0."""
    parsed = []
    for word in text.split():
        name, *skips = word.split("-")
        name, _, replaces = name.partition("<")
        parsed.append(EntryBlob(name, replaces, tuple(skips)))
    return parsed


@pytest.mark.parametrize("text", ["", "v1", "v1 v2<v1", "v2<v1", "v1 v2 v3<v2 v4<v3-v1", "v1<v2 v2<v1 v3<v2-v1-v2"])
def test_valid_graphs(text: str) -> None:
    assert check_graph(entries(text)) is None


@pytest.mark.parametrize(
    ("text", "message", "explanation", "hint"),
    [
        ("v1 v2", "multiple channel heads found in graph: v1, v2", "no entry of the channel", "skips: [v1]"),
        ("v9 v10", "multiple channel heads found in graph: v10, v9", "no entry of the channel", "if it is v10"),
        (
            "v1 v2<v1 v3<w1",
            "multiple channel heads found in graph: v2, v3",
            "v3 replaces w1, which is not in the channel",
            "or correct what v3 replaces",
        ),
        (
            "v1 v2<v0 v3<w1",
            "multiple channel heads found in graph: v1, v2, v3",
            "v2 replaces v0, v3 replaces w1, which are not in the channel",
            "or correct what v2 and v3 replace.",
        ),
        ("v1<v2 v2<v1", "no channel head found in graph", "v1 replaces v2, v2 replaces v1", "v1 replaces v2"),
        ("v1-v1", "no channel head found in graph", "v1 skips v1", "v1 skips v1"),
        (
            "v1<v2 v2<v1 v3<v2",
            "detected cycle in replaces chain of upgrade graph: v2 -> v1 -> v2",
            "from the head v3",
            "v1 replaces v2",
        ),
        (
            "v1 v2<v1 v3<v0-v2",
            "channel contains one or more stranded bundles: v1",
            "the head: v3 -> v0",
            "skips: [v1]",
        ),
        (
            "v1 v2<v1 v3<v2 v4<v3-v2",
            "channel contains one or more stranded bundles: v1",
            "v4 -> v3, which ends there because v2 is skipped",
            "skips: [v1]",
        ),
    ],
)
def test_invalid_graphs_are_explained(text: str, message: str, explanation: str, hint: str) -> None:
    problem = check_graph(entries(text))
    assert problem is not None
    assert problem.message == message
    assert explanation in problem.explanation
    assert hint in problem.hint


def test_long_chains_are_shortened_in_explanations() -> None:
    chain = " ".join(f"v{number}<v{number - 1}" for number in range(2, 199))
    problem = check_graph(entries(f"v0 skipped<v0 {chain} v199<v198-skipped"))
    assert problem is not None
    assert problem.message.endswith(": v0")
    assert problem.explanation.endswith("v199 -> v198 -> v197 -> v196 -> v195 -> v194 -> ... -> v1")


def test_several_heads() -> None:
    assert channel_heads(entries("v3<v2 v2<v1 v1 w1-w0")) == ("v3", "w1")
