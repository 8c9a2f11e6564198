"""Command lines as callers of the Go tool write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer

from opmkit.cli.errors import UsageProblem
from opmkit.cli.go_commands import GoGroup, csv_record, given_flags, require_flags
from opmkit.cli.registration import command, group
from opmkit.cli.registry_flags import Connection
from opmkit.imagetools.errors import OpmkitError


def parse(*argv: str) -> dict[str, Any]:
    """What a command that has flags of every kind is called with."""
    seen: dict[str, Any] = {}

    def probe(
        ctx: typer.Context,
        connection: Connection,
        names: Annotated[list[str] | None, typer.Option("--names", "-n")] = None,
        tag: Annotated[str, typer.Option("--tag", "-t")] = "default",
        generate: Annotated[bool, typer.Option("--generate", "-g")] = False,
        gzip: Annotated[bool, typer.Option("--gzip", "-z")] = False,
        words: Annotated[list[str] | None, typer.Argument()] = None,
    ) -> None:
        seen.update(connection=connection, names=names or [], tag=tag, generate=generate, gzip=gzip, words=words or [])
        seen["given"] = given_flags(ctx)

    def needy(ctx: typer.Context, bundles: Annotated[list[str] | None, typer.Option("--bundles", "-b")] = None) -> None:
        require_flags(ctx, "bundles")
        seen["bundles"] = bundles

    app = typer.Typer(cls=GoGroup, add_completion=False)
    app.callback()(lambda: None)
    app.add_typer(group("go", "A group.", [("probe", probe), ("needy", needy)]))
    command(app, "probe", probe)
    app(args=list(argv), prog_name="opm", standalone_mode=False)
    return seen


@pytest.mark.parametrize(
    "argv", [["--tag", "x"], ["--tag=x"], ["-t", "x"], ["-tx"], ["-t=x"], ["-gtx"], ["-zt", "x"], ["-gzt=x"]]
)
def test_every_spelling_of_a_value(argv: list[str]) -> None:
    assert parse("probe", *argv)["tag"] == "x"


@pytest.mark.parametrize("text", ["1", "t", "T", "TRUE", "true", "True"])
def test_a_switch_takes_the_true_forms_with_an_equals_sign(text: str) -> None:
    assert parse("probe", f"--generate={text}")["generate"] is True
    assert parse("probe", f"-g={text}")["generate"] is True


@pytest.mark.parametrize("text", ["0", "f", "F", "FALSE", "false", "False"])
def test_a_switch_takes_the_false_forms_and_counts_as_given(text: str) -> None:
    seen = parse("probe", "--generate", f"--generate={text}")
    assert seen["generate"] is False
    assert "generate" in seen["given"]


def test_a_switch_never_takes_the_next_word() -> None:
    seen = parse("probe", "--generate", "false")
    assert seen["generate"] is True
    assert seen["words"] == ["false"]


@pytest.mark.parametrize(
    ("value", "items"),
    [
        ("a,b", ["a", "b"]),
        ('"a,b",c', ["a,b", "c"]),
        ("", []),
        ('""', []),
        (" a, b", [" a", " b"]),
        ("a,,b", ["a", "", "b"]),
    ],
)
def test_lists_are_csv_records(value: str, items: list[str]) -> None:
    assert csv_record(value) == items
    assert parse("probe", "--names", value)["names"] == items


def test_lists_repeat_and_items_may_look_like_flags() -> None:
    assert parse("probe", "-n", "a,b", "--names=-c", "-nd")["names"] == ["a", "b", "-c", "d"]


def test_flags_and_words_mix_until_the_double_dash() -> None:
    seen = parse("probe", "one", "-g", "two", "--", "-z", "--tag")
    assert seen["words"] == ["one", "two", "-z", "--tag"]
    assert seen["generate"] is True
    assert seen["gzip"] is False


@pytest.mark.parametrize(
    "argv",
    [
        ["--use-http", "probe"],
        ["probe", "--use-http"],
        ["go", "--use-http", "probe"],
        ["--use-http=true", "go", "probe"],
    ],
)
def test_global_flags_stand_anywhere(argv: list[str]) -> None:
    assert parse(*argv)["connection"] == Connection(use_http=True)


@pytest.mark.parametrize("other", ["--use-http", "--use-http=false", "--skip-tls-verify=false"])
def test_the_old_name_of_plain_http_goes_with_no_new_one(other: str) -> None:
    with pytest.raises(UsageProblem, match="--skip-tls cannot be combined"):
        parse("--skip-tls", "probe", other)


def test_global_flags_with_a_value_stand_anywhere() -> None:
    assert parse("--ca-file", "ca.pem", "go", "probe", "x")["connection"].ca_file == Path("ca.pem")


def test_a_command_without_use_for_a_global_flag_ignores_it() -> None:
    assert parse("go", "needy", "--use-http", "--ca-file", "x", "-b", "")["bundles"] in (None, [])


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["probe", "--nonsense"], "unknown flag: --nonsense"),
        (["probe", "--tags=x"], "unknown flag: --tags"),
        (["probe", "--ta", "x"], "unknown flag: --ta"),
        (["probe", "-gx"], "unknown shorthand flag: 'x' in -gx"),
        (["probe", "--tag"], "flag needs an argument: --tag"),
        (["probe", "-t"], "flag needs an argument: -t"),
        (["probe", "--generate=yes"], 'invalid argument "yes" for "--generate" flag: must be true or false'),
        (["go", "needy"], 'required flag(s) "bundles" not set'),
        (["bogus"], 'unknown command "bogus" for "opm"'),
    ],
)
def test_problems_are_told_in_the_words_callers_know(argv: list[str], message: str) -> None:
    with pytest.raises(UsageProblem) as problem:
        parse(*argv)
    assert str(problem.value) == message
    assert "--help" in str(problem.value.hint)


@pytest.mark.parametrize(
    ("argv", "question"),
    [
        (["prob"], "did you mean 'opm probe'? run 'opm --help'"),
        (["probe", "--tagg", "x"], "did you mean --tag? run 'opm probe --help'"),
        (["probe", "--authfil=x"], "did you mean --authfile? "),
        (["probe", "--gen"], "did you mean --generate? "),
        (["probe", "--xyz"], "run 'opm probe --help'"),
        (["probe", "-x"], "run 'opm probe --help'"),
        (["xyz"], "run 'opm --help'"),
    ],
)
def test_unknown_names_are_answered_with_similar_ones(argv: list[str], question: str) -> None:
    with pytest.raises(UsageProblem) as problem:
        parse(*argv)
    assert str(problem.value.hint).startswith(question)


@pytest.mark.parametrize("argv", [["--nonsense", "probe"], ["go", "--nonsense", "needy"]])
def test_unknown_flags_of_groups(argv: list[str]) -> None:
    with pytest.raises(UsageProblem, match=r"^unknown flag: --nonsense$"):
        parse(*argv)


def test_an_unknown_shorthand_flag_of_a_group() -> None:
    with pytest.raises(UsageProblem, match=r"^unknown shorthand flag: 'z' in -zx$"):
        parse("go", "-zx", "needy")


def fail_with(capsys: pytest.CaptureFixture[str], error: Exception, *argv: str) -> str:
    """Return what a command that fails, with flags for its form, writes to stdout."""

    def report(
        output: Annotated[str, typer.Option("--output", "-o")] = "text",
        names: Annotated[list[str] | None, typer.Option("--names", "-n")] = None,
    ) -> None:
        raise error

    def write(output: Annotated[Path, typer.Option("--output", "-o")] = Path()) -> None:
        raise error

    app = typer.Typer(cls=GoGroup, add_completion=False)
    app.callback()(lambda: None)
    for name, function in (("report", report), ("validate", report), ("write", write)):
        command(app, name, function)
    with pytest.raises((OpmkitError, OSError, typer.TyperException)):
        app(args=list(argv), prog_name="opm", standalone_mode=False)
    return capsys.readouterr().out


FAILURE = OpmkitError("x: not found", hint="Look elsewhere.")


@pytest.mark.parametrize(
    "flags", [["--output", "json"], ["--output=json"], ["-o", "json"], ["-o=json"], ["-ojson"], ["-n", "x", "-ojson"]]
)
def test_failures_are_json_where_json_is_asked_for(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    failure = {"error": {"message": "x: not found", "hint": "look elsewhere", "exit_code": 1}}
    assert json.loads(fail_with(capsys, FAILURE, "report", *flags)) == failure
    assert json.loads(fail_with(capsys, FAILURE, "validate", *flags)) == {"passed": False, **failure}


@pytest.mark.parametrize(
    "argv",
    [
        ["report"],
        ["report", "--output", "text"],
        ["report", "-n", "json"],
        ["report", "--names=json"],
        ["write", "--output", "json"],
        ["report", "--", "--output", "json"],
    ],
)
def test_other_failures_write_nothing_to_stdout(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert fail_with(capsys, FAILURE, *argv) == ""


def test_every_failure_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = json.loads(fail_with(capsys, FAILURE, "report", "--bogus", "--output", "json"))["error"]
    assert wrong["message"] == "unknown flag: --bogus"
    disk = json.loads(fail_with(capsys, OSError(28, "No space left", "/x"), "report", "-o", "json"))["error"]
    assert (disk["message"], disk["exit_code"]) == ("/x: No space left", 1)
    tag_moved = type("Moved", (OpmkitError,), {"exit_code": 4})("moved")
    moved = json.loads(fail_with(capsys, tag_moved, "report", "-o", "json"))["error"]
    assert moved == {"message": "moved", "hint": "", "exit_code": 4}
    assert fail_with(capsys, BrokenPipeError(), "report", "-o", "json") == ""


def test_inner_groups_answer_an_unknown_command_with_help_and_success(capsys: pytest.CaptureFixture[str]) -> None:
    parse("go", "bogus")
    captured = capsys.readouterr()
    assert "Usage: opm go" in captured.out
    assert 'unknown command "bogus" for "opm go"' in captured.err
