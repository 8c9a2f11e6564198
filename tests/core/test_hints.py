"""Hints of errors."""

from __future__ import annotations

import pickle

from opmkit.core.errors import OpmkitError
from opmkit.core.hints import Hint
from opmkit.imagetools.hint_terms import ImageOperation, ImageSetting
from opmkit.index.hint_terms import IndexSetting

AUTHORITY = Hint("trust {}", ImageSetting.CA_FILE)
RETRY = Hint("retry with {}", IndexSetting.ON_CONFLICT.with_value("rebase"))


def test_texts_of_the_library_have_names_of_settings() -> None:
    assert str(AUTHORITY) == "trust ca_file"
    assert str(RETRY) == "retry with on_conflict=rebase"
    assert str(Hint("run {}", ImageOperation.COPY_IMAGE)) == "run copy_image"
    assert str(OpmkitError("x: not found", hint=AUTHORITY).hint) == "trust ca_file"


def test_names_are_replaced() -> None:
    assert RETRY.render({"on_conflict": "--on-conflict"}) == "retry with --on-conflict rebase"
    assert RETRY.render({}) == ""


def test_alternatives_are_joined_and_left_out_if_a_name_is_missing() -> None:
    hint = Hint.any_of("wait", AUTHORITY, RETRY)
    assert str(hint) == "wait, trust ca_file, or retry with on_conflict=rebase"
    assert hint.render({"ca_file": "--ca-file"}) == "wait, or trust --ca-file"
    assert hint.render({}) == "wait"
    assert Hint.any_of(hint, "wait", AUTHORITY) == hint


def test_several_hints_are_sentences() -> None:
    hint = Hint.all_of("did you mean x?", "wait", AUTHORITY, "", "wait")
    assert str(hint) == "did you mean x? wait; trust ca_file"
    assert hint.render({}) == "did you mean x? wait"
    assert str(Hint.any_of(hint, "try again")) == "try again; did you mean x? wait; trust ca_file"


def test_hints_may_be_empty() -> None:
    assert not Hint()
    assert not Hint.any_of("", Hint())
    assert not Hint.all_of("", Hint())
    assert not OpmkitError("x").hint
    assert str(Hint()) == ""


def test_texts_without_terms_are_not_templates() -> None:
    assert str(Hint("write {{.Version}} or {}")) == "write {{.Version}} or {}"
    assert str(Hint("write {} to {}", "{x}", IndexSetting.TAG)) == "write {x} to tag"


def test_hints_are_values() -> None:
    assert Hint("a") == Hint("a")
    assert pickle.loads(pickle.dumps(Hint.any_of(AUTHORITY, RETRY))) == Hint.any_of(AUTHORITY, RETRY)
    error = pickle.loads(pickle.dumps(OpmkitError("x", hint=RETRY, details=["y"])))
    assert (error.message, error.lines, error.hint) == ("x\ny", ("x", "y"), RETRY)
