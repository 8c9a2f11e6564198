"""Parsing of Dockerfiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opmkit.bundle.dockerfile.instructions import Dockerfile, read_dockerfile
from opmkit.bundle.errors import InvalidDockerfile
from opmkit.core.errors import DiskError

if TYPE_CHECKING:
    from pathlib import Path

VARIABLE_BOMB = "FROM scratch\nARG A0=0123456789\n" + "".join(
    f"ARG A{level}={f'$A{level - 1}' * 10}\n" for level in range(1, 13)
)


def read(directory: Path, text: str | bytes, **arguments: str) -> Dockerfile:
    path = directory / "Dockerfile"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_dockerfile(path, arguments)


def labels(directory: Path, *lines: str, **arguments: str) -> dict[str, str]:
    return dict(read(directory, "\n".join(["FROM scratch", *lines]), **arguments).labels)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("LABEL a=b c=d", {"a": "b", "c": "d"}),
        ("label a=b", {"a": "b"}),
        ('LABEL "a b"="c d" e=\'f "g"\'', {"a b": "c d", "e": 'f "g"'}),
        ("LABEL a=b \\\n  # comment\n  c=d", {"a": "b", "c": "d"}),
        ("LABEL a the value", {"a": "the value"}),
        ("LABEL a=1\nLABEL a=2", {"a": "2"}),
        ("LABEL a=b\\ c", {"a": "b c"}),
        ("LABEL a=", {"a": ""}),
    ],
)
def test_labels(line: str, expected: dict[str, str], tmp_path: Path) -> None:
    assert labels(tmp_path, line) == expected


def test_escape_directive(tmp_path: Path) -> None:
    text = "# syntax=docker/dockerfile:1\n# escape=`\nFROM scratch\nLABEL a=b `\n  c=d`\\e\n"
    assert read(tmp_path, text).labels == {"a": "b", "c": "d\\e"}


def test_variables_are_those_of_the_build_stage(tmp_path: Path) -> None:
    text = (
        "ARG BASE=quay.io/me/base\nARG TAG=1\nFROM ${BASE}:$TAG AS bundle\n"
        "ARG TAG\nARG CHANNEL=alpha OTHER=$CHANNEL\n"
        "LABEL a=$TAG b=${BASE:-none} c=$CHANNEL d='$CHANNEL' e=${OTHER:+set}\n"
    )
    default = read(tmp_path, text)
    assert default.base == "quay.io/me/base:1"
    assert default.labels == {"a": "1", "b": "none", "c": "alpha", "d": "$CHANNEL", "e": "set"}
    given = read(tmp_path, text, TAG="2", CHANNEL="beta", UNKNOWN="x")
    assert given.base == "quay.io/me/base:2"
    assert (given.labels["a"], given.labels["c"]) == ("2", "beta")
    assert given.unused_arguments == ("UNKNOWN",)


def test_copy(tmp_path: Path) -> None:
    text = (
        "FROM scratch\nARG DIR=bundle\nCOPY --chown=0 --chmod=0600 --link $DIR/a $DIR/b /x/\n"
        'ADD ["a file", "/y z"]\nCOPY a \\\n  b \\\n\n  /c/'
    )
    first, second, third = read(tmp_path, text).copies
    assert (first.sources, first.destination, first.mode) == (("bundle/a", "bundle/b"), "/x/", 0o600)
    assert (second.sources, second.destination, second.mode) == (("a file",), "/y z", None)
    assert (third.sources, third.destination, third.location.line) == (("a", "b"), "/c/", 5)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("RUN make", "3: RUN: unsupported instruction; supported are FROM, ARG, LABEL, COPY and ADD"),
        ("ENV a=b", "3: ENV: unsupported instruction"),
        ("USER 1001", "3: USER: unsupported instruction"),
        ("ONBUILD COPY a /b", "3: ONBUILD: unsupported instruction"),
        ('CMD ["a"]', "3: CMD: unsupported instruction"),
        ("FROM other", "3: FROM: unsupported second build stage"),
        ("COPY --from=builder /a /b", "3: COPY: unsupported flag from"),
        ("COPY --chown=me a /b", "3: COPY: unsupported chown 'me'"),
        ("COPY --chmod=u+x a /b", "3: COPY: unsupported chmod 'u+x'"),
        ("COPY --parents a /b", "3: COPY: unsupported flag parents"),
        ("COPY <<EOF /manifests/a\nx\nEOF", "3: COPY: unsupported heredoc"),
        ("ADD https://example.com/a.yaml /a", "3: ADD: unsupported URL https://example.com/a.yaml"),
        ("ADD git@example.com:a.git /a", "3: ADD: unsupported URL git@example.com:a.git"),
        ("LABEL a=${V#*a}", "3: LABEL: unsupported pattern in the variable of '${V#*a}'"),
        ("ARG TARGETARCH", "3: ARG: unsupported variable TARGETARCH"),
    ],
)
def test_unsupported_instructions_name_an_engine(line: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidDockerfile) as failure:
        read(tmp_path, f"FROM scratch\n\n{line}\n")
    assert failure.value.message.startswith(f"{tmp_path}/Dockerfile:{problem}")
    assert str(failure.value.hint).endswith("build the image with 'podman build' or 'docker build'")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", ": no FROM instruction"),
        ("# only a comment\n", ": no FROM instruction"),
        ("LABEL a=b\nFROM scratch", ":1: LABEL: no FROM instruction before it"),
        ("FROM", ":1: FROM: no arguments"),
        ("FROM $NONE", ":1: FROM: empty name '$NONE'"),
        ("FROM a b", ":1: FROM: unexpected 'b' after the image"),
        ("FROM --platform=linux/s390x scratch", ":1: FROM: unsupported flag platform"),
        ("FROM scratch\nFRM x", ":2: unknown instruction: FRM"),
        ("FROM scratch\nLABEL", ":2: LABEL: no arguments"),
        ("FROM scratch\nLABEL a", ":2: LABEL must have two arguments"),
        ("FROM scratch\nLABEL =b", ":2: LABEL: empty name"),
        ('FROM scratch\nLABEL a="b', ":2: LABEL: failed to process"),
        ('FROM scratch\nLABEL a="${b?is required}"', ":2: LABEL: failed to process"),
        ("FROM scratch\nARG =b", ":2: ARG: empty name"),
        ("FROM scratch\nCOPY a", ":2: COPY: source or destination is missing"),
        ('FROM scratch\nCOPY "a b" /c', ":2: COPY: path with a space"),
        ('FROM scratch\nCOPY "" /a', ":2: COPY: empty path"),
        ('FROM scratch\nCOPY ["a\\u0000", "/b"]', ":2: COPY: invalid path 'a\\x00'"),
        ('FROM scratch\nCOPY ["a", 1]', ":2: Only strings are supported in JSON arrays"),
        ("FROM scratch\nCOPY " + "[" * 100_000, ": too deeply nested JSON"),
        ("FROM scratch\nCOPY <<EOF /a\n", ":2: unterminated heredoc"),
        ("# escape=x\nFROM scratch", ":1: "),
        (VARIABLE_BOMB, ":8: ARG: variables expand to more than 2097152 characters"),
        ("FROM scratch\nLABEL a=" + "${A:-" * 1000, ":2: LABEL: failed to process"),
        (b"FROM scratch\xff", ": not UTF-8"),
        (b"FROM scratch\0", ": not a text file"),
        (b"#" * (1 << 20) + b"\n", ": larger than 1048576 bytes"),
    ],
)
@pytest.mark.timeout(30)
def test_invalid_files(text: str | bytes, problem: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidDockerfile) as failure:
        read(tmp_path, text)
    assert failure.value.message.startswith(f"{tmp_path}/Dockerfile{problem}")
    assert len(failure.value.message) < 500
    assert failure.value.hint


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DiskError, match="No such file or directory"):
        read_dockerfile(tmp_path / "none", {})
