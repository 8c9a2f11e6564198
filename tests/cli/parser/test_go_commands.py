"""Commands and groups with the flags and the errors of cobra."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pytest
import typer

from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.output.errors import UsageError
from opmkit.cli.parser.go_commands import GoGroup, given_flags, parse_csv_record, require_flags
from opmkit.cli.parser.registration import add_command


def parse(*argv: str) -> dict[str, Any]:
    """Return the arguments that a command with flags of every kind is called with."""
    seen: dict[str, Any] = {}

    def probe(
        ctx: typer.Context,
        registry_flags: RegistryFlags,
        names: Annotated[list[str] | None, typer.Option("--names", "-n")] = None,
        tag: Annotated[str, typer.Option("--tag", "-t")] = "default",
        generate: Annotated[bool, typer.Option("--generate", "-g")] = False,
        gzip: Annotated[bool, typer.Option("--gzip", "-z")] = False,
        verify: Annotated[bool, typer.Option("--verify/--no-verify")] = True,
        words: Annotated[list[str] | None, typer.Argument()] = None,
    ) -> None:
        seen.update(
            registry_flags=registry_flags, names=names or [], tag=tag, generate=generate, gzip=gzip, words=words or []
        )
        seen["given"], seen["verify"] = given_flags(ctx), verify

    def strict(
        ctx: typer.Context, bundles: Annotated[list[str] | None, typer.Option("--bundles", "-b")] = None
    ) -> None:
        require_flags(ctx, "bundles")
        seen["bundles"] = bundles

    app = typer.Typer(cls=GoGroup, add_completion=False)
    app.callback()(lambda: None)
    group = typer.Typer(name="go", help="A group.", cls=GoGroup, add_completion=False)
    group.callback()(lambda: None)
    add_command(group, "probe", probe)
    add_command(group, "strict", strict)
    app.add_typer(group)
    add_command(app, "probe", probe)
    app(args=list(argv), prog_name="opm", standalone_mode=False)
    return seen


@pytest.mark.parametrize(
    "argv", [["--tag", "x"], ["--tag=x"], ["-t", "x"], ["-tx"], ["-t=x"], ["-gtx"], ["-zt", "x"], ["-gzt=x"]]
)
def test_spellings_of_a_value(argv: list[str]) -> None:
    assert parse("probe", *argv)["tag"] == "x"


@pytest.mark.parametrize(
    ("argv", "value"),
    [
        ([], True),
        (["--no-verify"], False),
        (["--verify=false"], False),
        (["--no-verify=false"], True),
        (["--no-verify", "--verify"], True),
    ],
)
def test_switches_with_a_negative_name(argv: list[str], value: bool) -> None:
    assert parse("probe", *argv)["verify"] is value


@pytest.mark.parametrize("text", ["1", "t", "T", "TRUE", "true", "True"])
def test_a_switch_accepts_true_values_after_an_equals_sign(text: str) -> None:
    assert parse("probe", f"--generate={text}")["generate"] is True
    assert parse("probe", f"-g={text}")["generate"] is True


@pytest.mark.parametrize("text", ["0", "f", "F", "FALSE", "false", "False"])
def test_a_switch_set_to_false_counts_as_given(text: str) -> None:
    seen = parse("probe", "--generate", f"--generate={text}")
    assert seen["generate"] is False
    assert "generate" in seen["given"]


def test_a_switch_does_not_consume_the_next_argument() -> None:
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
def test_lists_are_parse_csv_records(value: str, items: list[str]) -> None:
    assert parse_csv_record(value) == items
    assert parse("probe", "--names", value)["names"] == items


def test_lists_may_be_repeated_and_items_may_look_like_flags() -> None:
    assert parse("probe", "-n", "a,b", "--names=-c", "-nd")["names"] == ["a", "b", "-c", "d"]


def test_flags_and_arguments_may_be_mixed_before_a_double_dash() -> None:
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
def test_global_flags_are_valid_anywhere(argv: list[str]) -> None:
    assert parse(*argv)["registry_flags"] == RegistryFlags(use_http=True)


@pytest.mark.parametrize("other", ["--use-http", "--use-http=false", "--skip-tls-verify=false"])
def test_the_deprecated_flag_for_plain_http_conflicts_with_the_new_ones(other: str) -> None:
    with pytest.raises(UsageError, match="--skip-tls cannot be combined"):
        parse("--skip-tls", "probe", other)


def test_global_flags_with_values_are_valid_anywhere() -> None:
    assert parse("--ca-file", "ca.pem", "go", "probe", "x")["registry_flags"].ca_file == Path("ca.pem")


def test_global_flags_that_a_command_does_not_have_are_ignored() -> None:
    assert parse("go", "strict", "--use-http", "--ca-file", "x", "-b", "")["bundles"] in (None, [])


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
        (["go", "strict"], 'required flag(s) "bundles" not set'),
        (["bogus"], 'unknown command "bogus" for "opm"'),
        (["go", "bogus"], 'unknown command "bogus" for "opm go"'),
    ],
)
def test_errors_have_the_messages_of_cobra(argv: list[str], message: str) -> None:
    with pytest.raises(UsageError) as problem:
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
def test_hints_suggest_similar_names(argv: list[str], question: str) -> None:
    with pytest.raises(UsageError) as problem:
        parse(*argv)
    assert str(problem.value.hint).startswith(question)


@pytest.mark.parametrize("argv", [["--nonsense", "probe"], ["go", "--nonsense", "strict"]])
def test_unknown_flags_of_groups(argv: list[str]) -> None:
    with pytest.raises(UsageError, match=r"^unknown flag: --nonsense$"):
        parse(*argv)


def test_an_unknown_shorthand_flag_of_a_group() -> None:
    with pytest.raises(UsageError, match=r"^unknown shorthand flag: 'z' in -zx$"):
        parse("go", "-zx", "strict")
