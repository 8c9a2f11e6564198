"""Search for the preferred selection that satisfies constraints, as OLM v0 and its solver do.

OLM's solver (operator-lifecycle-manager 0.38, ``pkg/controller/registry/resolver/solver``) makes choices in turn: first
the variables that every solution contains, then, for each selected variable, one of the alternatives of each of its
requirements, the preferred one first. A choice that a selected variable satisfies already is skipped. All other
constraints exclude variables, so what was selected when no choice is left is the solution, and a SAT solver is not
necessary to find it. The search goes back to the latest choice that has a part in a failure, not to the one before,
which skips no solution.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from opmkit.core.errors import LimitExceeded

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

MAX_DECISIONS = 200_000
"""Maximum number of decisions of a search: catalogs can be made so that it would take years."""

V = TypeVar("V", bound="Hashable")


class Alternatives(Struct, Generic[V], frozen=True):
    """A requirement of a variable: one of these must be selected with it.

    Attributes:
        options: The variables that satisfy it, the preferred one first.
        reason: Why it is required, for people; any value.
    """

    options: tuple[V, ...]
    reason: Any = None


class AtMostOne(Struct, Generic[V], frozen=True):
    """Variables of which only one can be selected."""

    members: frozenset[V]
    reason: Any = None


class Prohibition(Struct, Generic[V], frozen=True):
    """A variable that cannot be selected."""

    member: V
    reason: Any = None


class ChoiceProblem(Struct, Generic[V], frozen=True):
    """Variables and their constraints.

    Attributes:
        anchors: Choices of which every solution makes one each, in order.
        requirements: The requirements of variables.
        exclusions: Groups of variables that exclude each other.
        prohibitions: Variables that cannot be selected.
    """

    anchors: tuple[Alternatives[V], ...]
    requirements: Mapping[V, Sequence[Alternatives[V]]] = {}
    exclusions: tuple[AtMostOne[V], ...] = ()
    prohibitions: tuple[Prohibition[V], ...] = ()


class Solution(Struct, Generic[V], frozen=True):
    """The preferred selection.

    Attributes:
        selected: The selected variables, in the order of the choices.
        abandoned: Choices that the search went back behind. OLM's solver does not start them anew, but accepts any
            option, so that another selection is possible, too.
        was_obstructed: Whether an option was not possible.
    """

    selected: tuple[V, ...]
    abandoned: tuple[Alternatives[V], ...] = ()
    was_obstructed: bool = False


class Contradiction(Struct, Generic[V], frozen=True):
    """Constraints that cannot all hold.

    Attributes:
        anchors: The choices that cannot all be made.
        constraints: The constraints that have a part in it, in the order in which the search met them.
    """

    anchors: tuple[Alternatives[V], ...]
    constraints: tuple[Alternatives[V] | AtMostOne[V] | Prohibition[V], ...]


def search(problem: ChoiceProblem[V]) -> Solution[V] | Contradiction[V]:
    """Return the preferred selection, or why there is none.

    The choices of a contradiction are minimal: without any one of them there is a selection.

    Raises:
        LimitExceeded: The search takes too long.
    """
    found = _Search(problem).run()
    if not isinstance(found, Contradiction):
        return found
    needed = list(problem.anchors)
    for anchor in problem.anchors:
        others = [each for each in needed if each is not anchor]
        smaller = _Search(replace(problem, anchors=tuple(others))).run()
        if isinstance(smaller, Contradiction):
            needed, found = others, smaller
    return Contradiction(tuple(needed), found.constraints)


class _Choice(Struct, Generic[V]):
    """A choice to make, or made.

    Attributes:
        alternatives: What to choose from.
        parent: Position of the choice that requires it, -1 for an anchor.
        next: Index of the next option to try.
        selected: The selected option, None if none was necessary.
        children: Number of choices that the selection added.
        blame: Positions of choices that exclude the options tried so far.
    """

    alternatives: Alternatives[V]
    parent: int = -1
    next: int = 0
    selected: V | None = None
    children: int = 0
    blame: set[int] = set()


class _Search(Generic[V]):
    def __init__(self, problem: ChoiceProblem[V]) -> None:
        self._problem = problem
        self._choices = [_Choice(anchor) for anchor in problem.anchors]
        self._position_of: dict[V, int] = {}
        self._groups: defaultdict[V, list[AtMostOne[V]]] = defaultdict(list)
        for group in problem.exclusions:
            for member in group.members:
                self._groups[member].append(group)
        self._taken: dict[AtMostOne[V], V] = {}
        self._prohibited = {item.member: item for item in problem.prohibitions}
        self._core: dict[Alternatives[V] | AtMostOne[V] | Prohibition[V], None] = {}
        self._abandoned: dict[Alternatives[V], None] = {}

    def run(self) -> Solution[V] | Contradiction[V]:
        """Make the choices in turn, and go back to the latest one that has a part in a failure."""
        position = decisions = 0
        while position < len(self._choices):
            decisions += 1
            if decisions > MAX_DECISIONS:
                raise LimitExceeded(f"no solution found after {MAX_DECISIONS} decisions")
            if self._decide(position):
                position += 1
                continue
            failed = self._choices[position]
            culprits = failed.blame | ({failed.parent} if failed.parent >= 0 else set())
            failed.next, failed.blame = 0, set()
            if not culprits:
                return Contradiction(self._problem.anchors, tuple(self._core))
            target = max(culprits)
            for index in range(position - 1, target - 1, -1):
                self._undo(index)
                if index > target:
                    self._choices[index].next = 0
                    self._choices[index].blame = set()
            self._choices[target].blame |= culprits - {target}
            self._abandoned |= dict.fromkeys(choice.alternatives for choice in self._choices[target + 1 : position + 1])
            position = target
        selected = tuple(choice.selected for choice in self._choices if choice.selected is not None)
        return Solution(selected, tuple(self._abandoned), was_obstructed=bool(self._core))

    def _decide(self, position: int) -> bool:
        """Select the next possible option, unless one is selected already; return false if there is none."""
        choice = self._choices[position]
        options = choice.alternatives.options
        if any(option in self._position_of for option in options):
            return True
        while choice.next < len(options):
            option = options[choice.next]
            choice.next += 1
            obstacles = self._obstacles(option)
            if obstacles is None:
                self._select(position, option)
                return True
            choice.blame |= obstacles
        self._core[choice.alternatives] = None
        return False

    def _obstacles(self, option: V) -> set[int] | None:
        """Return the positions of the choices that exclude an option, None if it can be selected."""
        if option in self._prohibited:
            self._core[self._prohibited[option]] = None
            return set()
        for group in self._groups[option]:
            if group in self._taken:
                self._core[group] = None
                return {self._position_of[self._taken[group]]}
        return None

    def _select(self, position: int, option: V) -> None:
        choice = self._choices[position]
        choice.selected = option
        self._position_of[option] = position
        for group in self._groups[option]:
            self._taken[group] = option
        added = [_Choice(item, position) for item in self._problem.requirements.get(option, ())]
        choice.children = len(added)
        self._choices += added

    def _undo(self, position: int) -> None:
        choice = self._choices[position]
        if choice.selected is None:
            return
        del self._choices[len(self._choices) - choice.children :]
        for group in self._groups[choice.selected]:
            del self._taken[group]
        del self._position_of[choice.selected]
        choice.selected, choice.children = None, 0
