"""Decoding YAML with ryaml: the values are those of go_yaml."""

from __future__ import annotations

import itertools
import subprocess
import sys
from functools import cache
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opmkit.documents import go_yaml, yaml_decoder
from opmkit.documents.errors import DuplicateKey, InvalidDocument
from tests.kit.broken import BASE
from tests.kit.mutants import TEXTS, mutants
from tests.kit.shared import SHARED, needs_shared

if TYPE_CHECKING:
    from opmkit.documents.json_value import JsonValue

needs_ryaml = pytest.mark.skipif(yaml_decoder._ryaml_loads is None, reason="the extra fast is not installed")

FRAGMENTS = [
    *(":", ": ", "- ", "-", "?", "? ", "|", ">", "|-\n", ">+\n", "|2", "'", '"', "[", "]", "{", "}", ",", "#", " #"),
    *("\n", "\r\n", "\r", "\t", " ", "\n  ", "\n- ", "&a", "*a", "!", "!!str ", "!!int ", "<<", "~", "null", "=", "%"),
    *("---", "\n---\n", "\n...\n", "%TAG ! x\n", "\ufeff", "\x85", "\u2028", "\u2029", "\0", "\x07", "\x7f", "😀"),
    *("\\x41", "\\u0041", "\\ud800", "\\0", "\\N", "\\_", "\\L", "\\/", "\\\n", "`", "@", "%YAML 1.1\n"),
    *(" !", " ! ", "- !", ": !a ", "|| !b(", "\t!c", "&a !b ", "\\x21", "\n!", '"!', "# !\n"),
    *("? a\n: b\n", "[a, b]: c\n", "1: x\n", "true: x\n", "~: x\n", "1.5: x", '{"a":yes}', '{"a":!!str 1}', '{"a":+1}'),
    "a: 1\na: 2\n",
]
NUMBERS = [
    *("0644", "0x1F", "0X1f", "0o17", "0b11", "1_000", "1e3", "5.", "-0.0", "+0x1", ".inf", "-.INF", ".nan", "NaN"),
    *("99999999999999999999", "18446744073709551616", "9223372036854775808", "+9223372036854775808", "1e400"),
    *("-9223372036854775809", "0xFFFFFFFFFFFFFFFF", "0x10000000000000000", "-0x8000000000000000", "1e-400"),
    *("2001-01-01", "1:30", "yes", "No", "on", "OFF", "0xBF", "0b_1", "1__0", "._5", "inf", "Infinity", "+.inf"),
    *("00.5", "0.0_1", "1e1_0", "0.1.2"),
]


def decode(content: bytes) -> tuple[str, list[DuplicateKey]]:
    """Return the value as text, which distinguishes 1, 1.0, True and the order of keys, and the duplicate keys."""
    duplicates: list[DuplicateKey] = []
    try:
        value: JsonValue | InvalidDocument = go_yaml.load(content, duplicates)
    except InvalidDocument as error:
        value = error
    return repr(value), duplicates


def assert_equal(content: bytes) -> bool:
    """Compare with go_yaml, and return whether ryaml decoded the document."""
    decoded = yaml_decoder._load_fast(content)
    if decoded is not None:
        assert (repr(decoded[0]), []) == decode(content)
    return decoded is not None


@cache
def manifests() -> list[bytes]:
    """Return the manifests of the bundles that mutants are made of."""
    return [raw for path, raw in sorted(BASE.items()) if path.endswith(".yaml")]


@needs_shared
@needs_ryaml
@pytest.mark.slow
def test_manifests_of_real_bundles() -> None:
    contents = {path.read_bytes() for path in (SHARED / "corpus").rglob("*.yaml") if path.is_file()}
    fast = sum(assert_equal(content) for content in contents)
    assert fast > 0.95 * len(contents)


@needs_ryaml
@pytest.mark.slow
def test_short_scalars() -> None:
    alphabet = "+-._0178aAbBeExXoOyYnNsf<~=:"
    scalars = ("".join(text) for length in (1, 2, 3) for text in itertools.product(alphabet, repeat=length))
    assert sum(assert_equal(f"a: {scalar}".encode()) for scalar in scalars) > 10_000


@needs_ryaml
@pytest.mark.parametrize(
    "template", ["{}", "a: {}", "{}: b", "[{}]", "{{a: {}}}", '"{}"', "- {}\n- c", "a: |\n  {}\nb: 1"]
)
def test_scalars_in_all_positions(template: str) -> None:
    for scalar in [*FRAGMENTS, *NUMBERS, *TEXTS]:
        assert_equal(template.format(scalar).encode(errors="surrogatepass"))


@needs_ryaml
@given(st.data())
def test_mutated_manifests(data: st.DataObject) -> None:
    content = data.draw(st.sampled_from(manifests()))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(content)))
        removed = data.draw(st.integers(0, 6))
        inserted = data.draw(st.sampled_from([*FRAGMENTS, *NUMBERS, ""])).encode()
        content = content[:start] + inserted + content[start + removed :]
    assert_equal(content)


@needs_ryaml
@needs_shared
@given(mutants())
def test_mutated_bundles(files: dict[str, bytes]) -> None:
    for content in files.values():
        assert_equal(content)


@needs_ryaml
def test_usual_manifests_are_decoded_by_ryaml() -> None:
    contents = [*manifests(), b"", b"# comment", b'{"a": ["yes", "0644"]}', b"a: 'y'\nb: \"1_000\"\nc: 1 + x & y! +z"]
    contents += [b"a: |\n  !b\n  &c\nd: &e f", b"a: >-\n  b || c(d,\n  !e)\nf: '!g'\nh: \"\n  !i\""]
    assert [content for content in contents if not assert_equal(content)] == []


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b"a: yes\nb: [0644, n]", {"a": True, "b": [420, False]}),
        (b"a: &x {b: 1}\nc: {<<: *x}", {"a": {"b": 1}, "c": {"b": 1}}),
        (b"1: a\ntrue: b\n1.5: c", {"1": "a", "true": "b", "1.5": "c"}),
        (b"a: !!str 1\nb: +9223372036854775808", {"a": "1", "b": 9223372036854775808.0}),
        (b"a:   !!str 1\nb: [ !!str 2]\nc: !!int\n  3", {"a": "1", "b": ["2"], "c": 3}),
        (b"a: ! b\nc: &d !e f", {"a": "b", "c": "f"}),
        (b'a: !b c\nd: "\\x21"\ne: !f', {"a": "c", "d": "!", "e": ""}),
        (b"a: &x '& * !'\nb: *x", {"a": "& * !", "b": "& * !"}),
        (b"[" * 150 + b"]" * 150, None),
        (b"a: 1\n---\nb: 2", {"a": 1}),
        (b"%YAML 1.1\n---\na: 1", {"a": 1}),
        ("a: ä".encode("utf-16"), {"a": "ä"}),
        ("\ufeff\ufeffa: 1\n\ufeffb: 2".encode(), {"a": 1, "b": 2}),
    ],
)
def test_other_documents_are_decoded_by_go_yaml(content: bytes, value: JsonValue) -> None:
    assert yaml_decoder._load_fast(content) is None
    assert value is None or yaml_decoder.load(content) == value


def test_errors_and_duplicate_keys_are_those_of_go_yaml() -> None:
    duplicates: list[DuplicateKey] = []
    assert yaml_decoder.load(b"a: 1\nb: 2\na: 3", duplicates) == {"a": 3, "b": 2}
    assert duplicates == [DuplicateKey("a", 3, 1)]
    with pytest.raises(InvalidDocument) as raised:
        yaml_decoder.load(b"a: 1\nb: [")
    assert (raised.value.line, raised.value.column) == (3, 1)


def test_large_documents_are_decoded_by_go_yaml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_decoder, "_MAX_BYTES", 10)
    assert yaml_decoder._load_fast(b"a: 12345678") is None


def test_many_doubtful_strings_are_not_searched() -> None:
    content = b"".join(b"k%d: '0%d'\n" % (number, number) for number in range(100))
    assert yaml_decoder._load_fast(content) is None


def test_ryaml_is_optional() -> None:
    program = """if True:
        import sys
        sys.modules["ryaml"] = None
        from opmkit.documents import yaml_decoder
        print(yaml_decoder.load(b"a: [1, b]"), "yaml" in sys.modules)
    """
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "{'a': [1, 'b']} True\n"


@needs_ryaml
def test_pyyaml_is_not_imported_for_usual_manifests() -> None:
    program = """if True:
        import sys
        from opmkit.documents.content import Content
        print(Content.read(b"a: [1, b]").value, "yaml" in sys.modules)
    """
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "{'a': [1, 'b']} False\n"


def test_nesting_of_flow_collections_is_limited() -> None:
    content = b"[" * 100_000  # would take seconds: the time is quadratic
    assert yaml_decoder._load_fast(content) is None
    with pytest.raises(InvalidDocument, match="more than 200 levels"):
        yaml_decoder.load(content)
