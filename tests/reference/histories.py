"""Hypothesis strategies for random packages and histories of an index."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st

from opmkit.index.graph import precedence
from tests.reference.comparison import Step
from tests.reference.samples import Api, Sample

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hypothesis.strategies import DrawFn

T = TypeVar("T")
Test = TypeVar("Test", bound="Callable[..., None]")

FLAVOURS = ("replaces", "semver", "semver-skippatch", "mixed", "overwrite", "substitutes", "deprecate")
"""Kinds of histories: an update mode, two modes in turn, an alpha feature, or removals from complete packages."""

HISTORIES = int(os.environ.get("OPMKIT_HISTORIES", "525"))
"""Number of histories that are compared; OPMKIT_HISTORIES_SEED is their seed."""

_PACKAGES = ("ape", "bee", "cat")
_CHANNELS = ("alpha", "beta", "stable")
_REMOVALS = ("deprecatetruncate", "deprecatetruncate", "deprecatetruncate", "rm", "prune", "prune-stranded")
_APIS = (Api("Kiln", ("v1",)), Api("Kiln", ("v1", "v1beta1")), Api("Oven", ("v1",)))
_VERSIONS = [f"{major}.{minor}.{patch}" for major in (0, 1) for minor in (1, 2, 10) for patch in (0, 1)]
_PRERELEASES = ["1.2.0-alpha", "1.2.0-rc.2", "1.2.0-rc.10", "0.2.0-1"]
_BUILDS = ["0.2.0+1", "0.2.0+b", "1.2.0+7", "1.2.1-z.1+b.2"]
_ANY_VERSION = [*_VERSIONS, *_PRERELEASES, *_BUILDS, ""]


def share_of_histories(share: float) -> Callable[[Test], Test]:
    """Run a test with its share of `HISTORIES`, the same ones in each run, without an example database."""

    def decorate(test: Test) -> Test:
        chosen = settings(
            max_examples=max(1, round(HISTORIES * share)),
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        return chosen(seed(int(os.environ.get("OPMKIT_HISTORIES_SEED", "0")))(test))

    return decorate


@st.composite
def histories(draw: DrawFn, flavour: str) -> tuple[Step, ...]:
    """Draw one to five commands that add up to three packages to an index, and remove parts of it."""
    packages = draw(st.integers(1, len(_PACKAGES)))
    samples = [sample for name in _PACKAGES[:packages] for sample in draw(package(name, flavour))]
    if draw(st.booleans()):  # otherwise package by package
        samples.sort(key=lambda sample: precedence(sample.version))
    index = _PlannedIndex(flavour, tuple(samples))
    steps: list[Step] = []
    for _ in range(draw(st.integers(1, 5))):
        usual = "deprecatetruncate" if flavour == "deprecate" else "add"
        command = draw(_often(usual, *_REMOVALS, odds=bool(index.pending))) if index.added else "add"
        step, index = draw(additions(index) if command == "add" else removals(command, index))
        steps.append(step)
    return tuple(steps)


@st.composite
def package(draw: DrawFn, name: str, flavour: str) -> list[Sample]:
    """Draw the bundles of a package, the lowest version first, mostly with a connected graph."""
    pool = st.sampled_from(_VERSIONS) | st.sampled_from(_ANY_VERSION)
    number = draw(st.integers(1, 7))
    versions = sorted(draw(st.lists(pool, min_size=number, max_size=number, unique=True)), key=precedence)
    channels = draw(st.lists(st.sampled_from(_CHANNELS), min_size=1, max_size=3, unique=True))
    consistent = draw(_often(True, False))
    unusual = [f"{name}.v0.0.9", f"{name}.v{versions[-1]}", "bee.v0.1.0"]
    samples: list[Sample] = []
    for version in versions:
        below = [sample.name for sample in samples]
        own = [channels[0], *(channel for channel in channels[1:] if draw(_often(True, False)))]
        sample = Sample(
            name,
            version,
            tuple(own if consistent else draw(st.permutations(own))[: draw(st.integers(1, 3))]),
            channels[0] if consistent else draw(_often(channels[0], "", *channels)),
            draw(_often(below[-1] if below else "", "", *below, *unusual, odds=30)),
            tuple(draw(_some([*below, *unusual]))),
            draw(_often("", "<1.0.0", ">=0.1.0 <0.3.0")),
            provided=draw(_often((), *((api,) for api in _APIS), _APIS[1:])),
            required=draw(_often((), *((api,) for api in _APIS))),
            dependencies=draw(_often((), ("bee",), ("bee", "bee", "dog"))),
            images=tuple(draw(_some(["one", "two"]))),
        )
        samples.append(sample)
        if flavour == "substitutes" and version:
            samples += draw(substitutes(sample))
    return samples


@st.composite
def substitutes(draw: DrawFn, sample: Sample) -> list[Sample]:
    """Draw bundles that substitute a sample, or each other."""
    result: list[Sample] = []
    for build in range(1, 1 + draw(st.sampled_from((0, 0, 1, 1, 2)))):
        version = f"{sample.version}{'.' if '+' in sample.version else '+'}{build + 7}"
        target = draw(st.sampled_from([sample, *result[-1:]]))
        result.append(
            replace(sample, version=version, substitutes_for=target.name, skips=draw(_often(sample.skips, ())))
        )
    return result


@dataclass(frozen=True)
class _PlannedIndex:
    """An index in a planned history: bundles that are not added yet, and those that are."""

    flavour: str
    pending: tuple[Sample, ...]
    added: tuple[Sample, ...] = ()
    skipping: frozenset[str] = frozenset()


@st.composite
def additions(draw: DrawFn, index: _PlannedIndex) -> tuple[Step, _PlannedIndex]:
    """Draw a command that adds bundles, mostly the next pending ones, and the index after it."""
    pending, chosen = list(index.pending), list[Sample]()
    for _ in range(12 if index.flavour == "deprecate" else draw(st.integers(1, 4))):
        if pending:
            chosen.append(pending.pop(draw(_often(0, *range(min(4, len(pending))), odds=20))))
    overwrites = index.flavour == "overwrite" and index.added and draw(st.booleans())
    if overwrites:
        chosen = [draw(revised(index.added)), *chosen[: draw(st.integers(0, 2))]]
    elif not chosen or draw(_often(False, True, odds=15)):
        chosen.append(draw(st.sampled_from(index.added or index.pending)))
    chosen = list(dict.fromkeys(chosen))
    flags = ["--use-http", *draw(_mode(index, chosen))]
    flags += ["--overwrite-latest"] * (index.flavour == "overwrite")
    flags += ["--enable-alpha"] * (index.flavour == "substitutes" and draw(_often(True, False, odds=15)))
    step = Step("add", tuple(flags), tuple(draw(st.permutations(chosen))))
    skipping = {sample.package for sample in chosen} if "semver-skippatch" in flags else set[str]()
    pending = [sample for sample in index.pending if sample not in chosen]
    return step, _PlannedIndex(index.flavour, tuple(pending), (*index.added, *chosen), index.skipping | skipping)


@st.composite
def revised(draw: DrawFn, added: Sequence[Sample]) -> Sample:
    """Draw a new revision of an added bundle, preferably one of the last two."""
    sample = draw(st.sampled_from(added[-2:]) | st.sampled_from(added))
    return replace(
        sample,
        revision=sample.revision + 1,
        channels=draw(_often(sample.channels, ("alpha",), ("beta", "stable"))),
        replaces=draw(_often(sample.replaces, "")),
        skips=draw(_often(sample.skips, ())),
        default=draw(_often(sample.default, "", "beta")),
    )


@st.composite
def removals(draw: DrawFn, command: str, index: _PlannedIndex) -> tuple[Step, _PlannedIndex]:
    """Draw a command that removes from an index, and the index after it, to which the bundles can be added again."""
    if command == "prune-stranded":
        return Step(command), index
    present = sorted({sample.package for sample in index.added})
    if command == "deprecatetruncate":
        name = draw(st.sampled_from(present))
        own = [sample for sample in index.added if sample.package == name]
        own.sort(key=lambda sample: precedence(sample.version))
        if draw(st.booleans()):
            heads = own[-draw(st.integers(1, 3)) :]
            return Step(command, ("--allow-package-removal",), tuple(heads)), index
        below = st.sampled_from(own[:-1] or own) | st.sampled_from(index.added + index.pending[:1])
        return Step(command, bundles=tuple(draw(st.lists(below, min_size=1, max_size=3, unique=True)))), index
    names = draw(st.lists(st.sampled_from([*present * 4, "dog"]), min_size=1, max_size=2, unique=True))
    names += names[: draw(_often(0, 1, odds=9))]
    removed = [sample for sample in index.added if (sample.package in names) == (command == "rm")]
    pending = sorted({*index.pending, *removed}, key=lambda sample: precedence(sample.version))
    flags = ("--permissive",) if command == "prune" else ()  # otherwise opmkit rejects unknown names, unlike Go opm
    return Step(command, flags, packages=tuple(names)), replace(index, pending=tuple(pending))


def _mode(index: _PlannedIndex, chosen: Sequence[Sample]) -> st.SearchStrategy[list[str]]:
    if index.flavour == "semver":
        return st.just(["--mode", "semver"])
    if index.flavour == "mixed":
        return st.sampled_from([[], ["--mode", "semver"]])
    if index.flavour == "semver-skippatch":
        return st.just(["--mode", _skip_patch_mode(index, chosen)])
    return st.just([])


def _skip_patch_mode(index: _PlannedIndex, chosen: Sequence[Sample]) -> str:
    """Return a mode for which Go opm builds a valid graph.

    At each add, Go opm adds skipped bundles to the graph again, and leaves it broken. So skip-patch mode is used only
    if the highest bundle of a package is added alone and last, and each lower MAJOR.MINOR has a single bundle.
    """
    for name in {sample.package for sample in chosen}:
        members = {sample.version: sample for sample in (*index.added, *chosen) if sample.package == name}
        added_now = [sample for sample in chosen if sample.package == name]
        ordered = sorted(members, key=precedence)
        minors = [precedence(version)[:2] for version in ordered]
        if name in index.skipping and len(set(minors)) < len(minors):
            return "replaces"
        if len(set(minors)) < len(minors):
            lower = [minor for minor in minors if minor != minors[-1]]
            if [sample.version for sample in added_now] != ordered[-1:] or len(set(lower)) < len(lower):
                return "semver"
    return "semver-skippatch"


def _often(usual: T, *others: T, odds: int = 5) -> st.SearchStrategy[T]:
    """Draw the first value ``odds`` times out of ``odds + 1``, otherwise any of the values."""
    anything = st.sampled_from([usual, *others])
    return st.integers(0, odds).flatmap(lambda number: anything if number == odds else st.just(usual))


def _some(values: Sequence[T]) -> st.SearchStrategy[list[T]]:
    """Draw an empty list mostly, otherwise one or two of the values."""
    none: list[T] = []
    return _often(none, *([value] for value in values), list(values)[:2], odds=2)
