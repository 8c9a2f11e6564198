from __future__ import annotations

import random
from itertools import product

import pytest

from opmkit.core.errors import LimitExceeded
from opmkit.index.plan.search import Alternatives, AtMostOne, ChoiceProblem, Contradiction, Prohibition, search


def one(*names: str) -> Alternatives[str]:
    return Alternatives(names, names)


def test_the_preferred_options_are_selected() -> None:
    found = search(ChoiceProblem((one("a", "b"), one("c")), {"a": [one("x", "y")]}))
    assert not isinstance(found, Contradiction)
    assert (found.selected, found.abandoned) == (("a", "c", "x"), ())


def test_a_requirement_that_a_selected_option_meets_adds_nothing() -> None:
    found = search(ChoiceProblem((one("a"), one("y")), {"a": [one("x", "y")]}))
    assert not isinstance(found, Contradiction)
    assert found.selected == ("a", "y")


def test_the_search_goes_back_to_the_choice_with_a_part_in_the_failure() -> None:
    exclusions = (AtMostOne(frozenset({"a", "x"})),)
    found = search(ChoiceProblem((one("a", "b"), one("m", "n"), one("x")), {}, exclusions))
    assert not isinstance(found, Contradiction)
    assert (found.selected, found.abandoned) == (("b", "m", "x"), (one("m", "n"), one("x")))


def test_a_contradiction_has_the_choices_that_cannot_all_be_made() -> None:
    problem = ChoiceProblem((one("a"), one("b"), one("c")), {}, (AtMostOne(frozenset({"a", "c"}), "pair"),))
    found = search(problem)
    assert isinstance(found, Contradiction)
    assert found.anchors == (one("a"), one("c"))
    assert "pair" in {constraint.reason for constraint in found.constraints}


def test_prohibited_and_missing_options() -> None:
    found = search(ChoiceProblem((one("a"),), {}, (), (Prohibition("a", "old"),)))
    assert isinstance(found, Contradiction)
    assert "old" in {constraint.reason for constraint in found.constraints}
    assert isinstance(search(ChoiceProblem((one("a"),), {"a": [one()]})), Contradiction)


def test_random_problems_have_a_selection_if_and_only_if_a_model_exists() -> None:
    rng = random.Random(1)
    names = "abcdefg"
    counts = {True: 0, False: 0}
    for _ in range(500):
        options = [one(*rng.sample(names, rng.randint(1, 3))) for _ in range(rng.randint(1, 4))]
        requirements = {
            name: [one(*rng.sample(names, rng.randint(0, 2))) for _ in range(rng.randint(0, 2))]
            for name in names
            if rng.random() < 0.5
        }
        exclusions = tuple(AtMostOne(frozenset(rng.sample(names, 3)), number) for number in range(rng.randint(0, 3)))
        problem = ChoiceProblem(tuple(options), requirements, exclusions)
        found = search(problem)
        if not isinstance(found, Contradiction):
            assert is_model(problem, set(found.selected))
        exists = any(is_model(problem, model) for model in models(names))
        assert exists is not isinstance(found, Contradiction)
        counts[exists] += 1
    assert min(counts.values()) > 50


def models(names: str) -> list[set[str]]:
    return [
        {name for name, chosen in zip(names, mask, strict=True) if chosen}
        for mask in product((False, True), repeat=len(names))
    ]


def is_model(problem: ChoiceProblem[str], selected: set[str]) -> bool:
    required = [*problem.anchors, *(each for name in selected for each in problem.requirements.get(name, ()))]
    return all(selected & {*each.options} for each in required) and all(
        len(selected & group.members) < 2 for group in problem.exclusions
    )


@pytest.mark.slow
def test_a_search_that_would_take_years_fails() -> None:
    """Twelve pigeons do not fit into eleven holes, which only a try of all ways shows."""
    holes = [[f"{pigeon} in {hole}" for hole in range(11)] for pigeon in range(12)]
    exclusions = tuple(AtMostOne(frozenset(column), number) for number, column in enumerate(zip(*holes, strict=True)))
    with pytest.raises(LimitExceeded):
        search(ChoiceProblem(tuple(Alternatives(tuple(row)) for row in holes), {}, exclusions))
