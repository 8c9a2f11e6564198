"""Random mirrors, prunes, deletions and pushes of people in one registry: nothing that is needed is ever lost."""

from __future__ import annotations

import copy
import itertools
import random
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from tests.kit.memory_registry import Killed
from tests.kit.mirror_world import CATALOGS, MirrorWorld
from tests.kit.rounds import rounds

from opmkit.core.errors import OpmkitError
from opmkit.imagetools.errors import NotFound
from opmkit.supply.mirror.image_set import ImageSet

if TYPE_CHECKING:
    from pathlib import Path

STEPS = 20


def step(world: MirrorWorld) -> None:
    """Do something, perhaps killed, and perhaps with a registry that lies to a deletion."""
    random = world.random
    before = copy.deepcopy(world.registry.repositories)
    choice = random.choices(("mirror", "delete", "people", "source"), (5, 4, 3, 2))[0]
    if choice == "people":
        return world.push_of_people()
    if choice == "source":
        return world.move_catalog(random.choice(CATALOGS)) if random.random() < 0.5 else world.move_operand()
    key = random.choice(("", "", *world.sets))
    content: str | ImageSet = world.sets[key] if key else random.choice(CATALOGS)
    named = [each.index.partition("/")[2] for each in content.catalogs] if isinstance(content, ImageSet) else [content]
    subjects = {key, *named} - {""}
    world.registry.kill_at = world.registry.requests + random.randint(1, 150) if random.random() < 0.4 else 0
    label = f"{choice} {key or content}, killed at {world.registry.kill_at - world.registry.requests}"
    try:
        if choice == "mirror":
            world.mirror(content, prune=random.random() < 0.4)
            world.mirrored |= {key} - {""}
        else:
            world.registry.lie = world.lie_about() if random.random() < 0.3 else lambda *_: None
            world.mirrored -= {key}
            world.delete(content)
    except (OpmkitError, Killed):
        pass
    finally:
        world.registry.kill_at, world.registry.lie = 0, lambda *_: None
    deleted = [f"{world.prefix}/{each}".removeprefix("/") for each in named] if choice == "delete" else []
    world.check(before, deleted, label)
    if choice == "mirror":
        world.check_tags(before, subjects, label)
    return None


@pytest.mark.parametrize("seed", rounds(400, 25))
def test_nothing_needed_is_lost(seed: int, tmp_path: Path) -> None:
    world = MirrorWorld(random.Random(seed), tmp_path)
    for _ in range(STEPS):
        step(world)


@pytest.mark.parametrize("command", ["mirror", "prune", "delete"])
def test_killed_at_every_request(command: str, tmp_path: Path) -> None:
    """Whatever a command has done when it is killed, nothing is lost, and repeating it completes it."""
    world = MirrorWorld(random.Random(7), tmp_path)
    for name in CATALOGS:
        world.mirror(name, continue_on_errors=True)
    content, registry = CATALOGS[1], world.registry
    world.move_catalog(content)
    before = copy.deepcopy(registry.repositories)
    deleted = [f"{world.prefix}/{content}".removeprefix("/")] if command == "delete" else []

    def run() -> None:
        if command == "delete":
            world.delete(content)
        else:
            world.mirror(content, prune=command == "prune", continue_on_errors=True)

    for at in itertools.count(1, 2):
        registry.repositories, registry.kill_at = copy.deepcopy(before), registry.requests + at
        try:
            run()
        except Killed:
            world.check(before, deleted, f"{command}, killed at {at}")
        else:
            break
        registry.kill_at = 0
        with suppress(NotFound):  # the killed deletion was complete
            run()
        world.check(before, deleted, f"{command}, repeated after {at}")
    assert at > 20
