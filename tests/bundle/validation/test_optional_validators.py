"""Label selectors and the options of optional validators."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opmkit.bundle.validation.compat import Compat, Options
from opmkit.bundle.validation.optional_validators import (
    InvalidOption,
    InvalidSelector,
    Selector,
    read_option_file,
    read_options,
    select_validators,
)

if TYPE_CHECKING:
    from pathlib import Path

LABELS = {"name": "multiarch", "suite": "all", "size": "5"}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("name=multiarch", True),
        ("name == multiarch , suite=all", True),
        ("name=multiarch,suite=other", False),
        ("name!=multiarch", False),
        ("absent!=x", True),
        ("name in (a, multiarch)", True),
        ("name notin (a,multiarch)", False),
        ("absent notin (a)", True),
        ("name", True),
        ("!name", False),
        ("! absent", True),
        ("size>4", True),
        ("size < 5", False),
        ("in=notin", False),
        ("name=", False),
    ],
)
def test_selectors(text: str, matches: bool) -> None:
    assert Selector.parse(text).matches(LABELS) is matches


@pytest.mark.parametrize(
    "text", ["=", "name=a,", ",", "name in", "name in a", "name in(a", "a b", "name=a b", "a/b/c", "name=-", "a>b", "!"]
)
def test_invalid_selectors(text: str) -> None:
    with pytest.raises(InvalidSelector, match="invalid label selector") as error:
        Selector.parse(text)
    assert str(error.value.hint)


@pytest.mark.parametrize(
    ("selector", "compat", "names"),
    [
        ("name=operatorhub", Compat.OPM_1_26, ["operatorhub"]),
        ("name in (community, multiarch)", Compat.OPMKIT, ["community", "multiarch"]),
        (
            "suite=operatorframework",
            Compat.NEWEST,
            ["operatorhubv2", "capabilities", "categories", "alpha-deprecated-apis", "good-practices"],
        ),
        (
            "suite=operatorframework",
            Compat.OPM_1_26,
            ["operatorhub", "alpha-deprecated-apis", "good-practices"],
        ),
    ],
)
def test_select_validators(selector: str, compat: Compat, names: list[str]) -> None:
    assert [validator.name for validator in select_validators(selector, compat)] == names


@pytest.mark.parametrize("selector", ["name=none", "name=operatorhubv2"])
def test_selector_must_match_a_validator(selector: str) -> None:
    with pytest.raises(InvalidSelector, match="selects no optional validator"):
        select_validators(selector, Compat.OPM_1_26)


def test_options() -> None:
    given = read_options(["k8s-version=1.25,index-path=a=b", "k8s-version=1.27"], "categories.json")
    assert (given.k8s_version, given.index_path, given.categories_file) == ("1.27", "a=b", "categories.json")
    assert read_options([]) == Options()
    for invalid in ("k8s=1", "k8s-version", ""):
        with pytest.raises(InvalidOption) as error:
            read_options([invalid])
        assert "k8s-version" in str(error.value.hint)


def test_files_of_options_are_read_once(tmp_path: Path) -> None:
    path, gone = tmp_path / "Dockerfile", tmp_path / "gone"
    path.write_bytes(b"1")
    options = read_options([f"index-path={path}"], str(gone))
    path.write_bytes(b"2")
    gone.touch()
    assert read_option_file(options, str(path)) == b"1"
    with pytest.raises(FileNotFoundError, match=f"No such file or directory: '{gone}'"):
        read_option_file(options, str(gone))
    assert read_options([f"index-path={path}"], str(gone)) != options
