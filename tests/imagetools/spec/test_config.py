"""Parsing and changing of image configurations."""

from __future__ import annotations

import json
from typing import Any

import pytest

from opmkit.imagetools.errors import InvalidImage
from opmkit.imagetools.spec import EPOCH, ConfigChanges, ImageConfig, Platform, sha256_digest

DIGEST = "sha256:" + "a" * 64
OTHER = "sha256:" + "b" * 64
CONFIG = {
    "architecture": "arm64",
    "os": "linux",
    "variant": "v8",
    "created": "2024-01-02T03:04:05Z",
    "x-unknown": {"preserved": True},
    "config": {
        "Labels": {"b": "1", "a": "2"},
        "Env": ["PATH=/bin", "A=1"],
        "Entrypoint": None,
        "Cmd": ["sh"],
        "ExposedPorts": {"80/tcp": {}},
        "User": "1001",
        "WorkingDir": "/w",
        "StopSignal": "TERM",
    },
    "rootfs": {"type": "layers", "diff_ids": [DIGEST, OTHER]},
    "history": [
        {"created_by": "one"},
        {"created_by": "nothing", "empty_layer": True},
        {"created_by": "two"},
    ],
}


def parse(**changes: Any) -> ImageConfig:
    return ImageConfig.parse(json.dumps(CONFIG | changes).encode())


def test_parse() -> None:
    config = parse()
    assert config.platform == Platform("linux", "arm64", "v8")
    assert config.labels == {"a": "2", "b": "1"}
    assert (config.env, config.entrypoint, config.cmd) == (("PATH=/bin", "A=1"), (), ("sh",))
    assert (config.exposed_ports, config.user, config.working_dir) == (("80/tcp",), "1001", "/w")
    assert config.diff_ids == (DIGEST, OTHER)
    assert [entry.empty_layer for entry in config.history] == [False, True, False]
    assert config.digest == sha256_digest(config.raw)


def test_with_changes() -> None:
    changes = ConfigChanges(
        labels={"c": "3", "a": "x"},
        env={"Z": "9", "A": "2", "B": "3"},
        exposed_ports=["50051/tcp"],
        entrypoint=["/bin/opm"],
        cmd=[],
        user="",
    )
    changed = parse().with_changes(changes, ["sha256:" + "c" * 64], created_by="test")
    assert changed.labels == {"a": "x", "b": "1", "c": "3"}
    assert changed.env == ("PATH=/bin", "A=2", "B=3", "Z=9")
    assert changed.exposed_ports == ("50051/tcp", "80/tcp")
    assert (changed.entrypoint, changed.cmd, changed.user, changed.working_dir) == (("/bin/opm",), (), "", "/w")
    assert changed.diff_ids == (DIGEST, OTHER, "sha256:" + "c" * 64)
    assert [entry.created_by for entry in changed.history] == ["one", "nothing", "two", "test"]
    assert changed.created == EPOCH
    value = json.loads(changed.raw)
    assert value["x-unknown"] == {"preserved": True}
    assert value["config"]["StopSignal"] == "TERM"


def test_change_without_layers_adds_an_empty_layer_to_the_history() -> None:
    assert parse().with_changes(ConfigChanges(cmd=["x"]), created="2020-01-01T00:00:00Z").history[-1].empty_layer


def test_digest_is_independent_of_order() -> None:
    changed = parse().with_changes(ConfigChanges(labels={"x": "1", "y": "2"}, env={"P": "1", "Q": "2"}))
    shuffled = ImageConfig.parse(json.dumps(dict(reversed(CONFIG.items()))).encode())
    assert changed == shuffled.with_changes(ConfigChanges(labels={"y": "2", "x": "1"}, env={"Q": "2", "P": "1"}))


def test_without_layers_removes_their_history() -> None:
    config = parse().without_layers({0})
    assert config.diff_ids == (OTHER,)
    assert [entry.created_by for entry in config.history] == ["nothing", "two"]
    assert parse().without_layers({1, 0}).history[0].created_by == "nothing"
    assert json.loads(parse().raw)["history"] == CONFIG["history"]


@pytest.mark.parametrize("history", [[], None, [{"created_by": "one"}], [{}, {}, {}]])
def test_history_that_does_not_match_the_layers_is_dropped(history: object) -> None:
    assert parse(history=history).with_changes(ConfigChanges(), [DIGEST]).history == ()
    assert parse(history=history).without_layers({0}).history == ()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"config": {"Labels": {"a": 1}}}, "config.config.Labels.a"),
        ({"config": []}, "config.config"),
        ({"config": {"Env": ["A=1", 2]}}, "config.config.Env[1]"),
        ({"rootfs": {"diff_ids": ["x"]}}, "invalid digest 'x'"),
        ({"history": [{"empty_layer": "yes"}]}, "config.history[0].empty_layer"),
        ({"os": 5}, "config.os"),
    ],
)
def test_errors_name_the_field(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidImage) as caught:
        parse(**changes)
    assert message in caught.value.message


def test_scratch() -> None:
    scratch = ImageConfig.scratch(Platform.parse("linux/arm/v7"))
    assert str(scratch.platform) == "linux/arm/v7"
    assert scratch.diff_ids == ()
    assert b"variant" not in ImageConfig.scratch(Platform.parse("linux/amd64")).raw
